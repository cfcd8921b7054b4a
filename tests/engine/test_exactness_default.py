"""The default model, whatever an engine does with it: the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from radixchat.engine.config import EnginePlan
from radixchat.engine.tiers.disk_store import DiskStore
from radixchat.engine.tiers.page_store import PageStore
from radixchat.engine.weights import Checkpoint, load_checkpoint
from radixchat.tests.engine.driver import prompt
from radixchat.tests.engine.exactness import LOGITS, Subject
from radixchat.tests.engine.exactness_arms import (
    after_a_restart,
    alone,
    built_by_decoding,
    cut_and_decoded,
    every_arm,
)
from radixchat.tests.engine.ledger import Ledger

pytestmark = [pytest.mark.slow, pytest.mark.model, pytest.mark.timeout(900)]

# The number of threads is none of the bits' business.
ARITHMETICS: list[dict[str, Any]] = [
    {"kv": "auto", "threads": 2},
    {"kv": "int8", "threads": 1},
]


@pytest.fixture(scope="module")
def checkpoints(default_model: Path) -> dict[str, Checkpoint]:
    """By the format of the weights."""
    return {
        weights: load_checkpoint(default_model, weights=weights) for weights in ("auto", "fp32")
    }


@pytest.mark.parametrize("settings", ARITHMETICS, ids=str)
def test_the_cache_and_the_batch_are_invisible_to_the_bit(
    checkpoints: dict[str, Checkpoint], settings: dict[str, Any]
) -> None:
    """C1: chunks, hits, decoding, drafts, a batch of eight, preemption: one ledger, no fault."""
    subject = Subject(checkpoints["auto"], settings)
    every_arm(subject, prompt)
    assert subject.ledger.differing == []
    assert subject.ledger.compared > 10_000


@pytest.mark.parametrize("key", [None, bytes(range(32))], ids=["plain", "encrypted"])
@pytest.mark.parametrize("settings", ARITHMETICS, ids=str)
def test_the_disk_is_invisible_to_the_bit(
    checkpoints: dict[str, Checkpoint], settings: dict[str, Any], key: bytes | None, tmp_path: Path
) -> None:
    """C1, after a restart: pages of real files, gone on with in their middle and at their ends."""
    subject = Subject(checkpoints["auto"], settings)
    folder = tmp_path / "kv"

    def make_store(plan: EnginePlan, page_bytes: int) -> PageStore:
        kind = {"arithmetic": plan.arithmetic}
        return DiskStore(folder, kind, page_bytes, 512 << 20, key=key)

    for length, seed in ((150, 3), (320, 5), (321, 6), (336, 7)):
        tokens = prompt(length, seed)
        subject.at_once(tokens)
        after_a_restart(subject, tokens, make_store)
    assert subject.ledger.differing == []
    assert subject.ledger.compared > 2_000


def test_weights_in_fp32_are_exact_too(checkpoints: dict[str, Checkpoint]) -> None:
    """One request at a time, with four times the bytes of weights."""
    subject = Subject(checkpoints["fp32"], {"threads": 2})
    alone(subject, prompt)
    assert subject.ledger.differing == []
    assert subject.ledger.compared > 5_000


def test_threads_do_not_show(checkpoints: dict[str, Checkpoint]) -> None:
    """One thread and two, so far into a context that they share one request's keys: the same."""
    ledger = Ledger()
    for threads in (1, 2):
        subject = Subject(checkpoints["auto"], {"threads": threads}, ledger)
        built_by_decoding(subject, prompt(600), 12)
    assert ledger.compared > 2 * 600
    assert ledger.differing == []


def test_without_exactness_the_ledger_has_faults(checkpoints: dict[str, Checkpoint]) -> None:
    """Control: torch's own attention and products of any row count, in two of these arms."""
    subject = Subject(checkpoints["fp32"], {"exact": False, "threads": 2})
    cut_and_decoded(subject, prompt)
    assert any(kind == LOGITS for kind, _ in subject.ledger.differing)
    assert any(kind != LOGITS for kind, _ in subject.ledger.differing)
