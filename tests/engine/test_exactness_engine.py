"""Whatever an engine does to come to a prefix, its logits, K and V have the same bits.

All arms on two layers as wide as the default model's; `test_exactness_default.py` has them on the
model itself.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from radixchat.engine.request import Request
from radixchat.engine.weights import Checkpoint
from radixchat.tests.engine.driver import greedy, prompt, run
from radixchat.tests.engine.exactness import LOGITS, Subject, cached
from radixchat.tests.engine.exactness_arms import cut_and_decoded, every_arm, warm
from radixchat.tests.engine.narrow_model import narrow_checkpoint

ARITHMETICS: list[dict[str, Any]] = [{"kv": "auto", "threads": 2}, {"kv": "int8", "threads": 1}]
PAGE_SIZES = [1, 8, 16, 32]


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return narrow_checkpoint("blocks")


@pytest.mark.parametrize("settings", ARITHMETICS, ids=str)
def test_the_cache_and_the_batch_are_invisible_to_the_bit(
    checkpoint: Checkpoint, settings: dict[str, Any]
) -> None:
    """Chunks, hits, decoding, drafts, a batch of eight, preemption: one ledger without a fault."""
    subject = Subject(checkpoint, settings)
    every_arm(subject, prompt)
    assert subject.ledger.differing == []
    assert subject.ledger.compared > 8_000


@pytest.mark.parametrize("settings", ARITHMETICS, ids=str)
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_lengths_around_a_page(
    checkpoint: Checkpoint, settings: dict[str, Any], page_size: int
) -> None:
    """Hits of kP - 1, kP, kP + 1 tokens, exact repeats, and a prompt of one token."""
    subject = Subject(checkpoint, settings)
    lengths = sorted({1} | {k * page_size + d for k in (1, 2) for d in (-1, 0, 1)} - {0})
    tokens = prompt(2 * page_size + 5)
    subject.at_once(tokens)
    warm(subject, tokens, page_size, lengths)
    engine = subject.engine(page_size=page_size)
    for length in lengths:
        for repeat in range(2):
            request = Request(0, tokens[:length], greedy(1), namespace=b"%d" % length)
            assert cached(run(engine, [request])[0]) == (length - 1) * repeat
    assert subject.ledger.differing == []


def test_without_exactness_the_ledger_has_faults(checkpoint: Checkpoint) -> None:
    """Control: torch's own attention and products of any row count, in two of these arms."""
    subject = Subject(checkpoint, {"exact": False})
    cut_and_decoded(subject, prompt)
    assert any(kind == LOGITS for kind, _ in subject.ledger.differing)
    assert any(kind != LOGITS for kind, _ in subject.ledger.differing)


def test_int8_is_another_arithmetic(checkpoint: Checkpoint) -> None:
    """INT8 K and V give other logits than fp32: the setting reaches the pages, and comes close."""
    values = []
    for kv in ("auto", "int8"):
        subject = Subject(checkpoint, {"kv": kv})
        subject.at_once(prompt(80))
        values.append(
            torch.stack([v for (k, _), v in subject.ledger.values.items() if k == LOGITS])
        )
    assert not torch.equal(*values)
    torch.testing.assert_close(values[1], values[0], atol=1.0, rtol=0.1)
