"""A row's logits and stored K and V have the same bits whatever is computed with it.

Forward passes alone, on two layers as wide as the default model's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from radixchat.engine.model import Decoder
from radixchat.tests.engine.driver import prompt
from radixchat.tests.engine.forwards import Chunk, Computed, Forwards, in_chunks
from radixchat.tests.engine.narrow_model import CONFIG, narrow_checkpoint

# Beyond the first border of a tile of keys; most of the way to it is computed once.
TILE = 256
LONG, BEGUN = TILE + 29, TILE - 11
SHORT = 100
PAGE_SIZES = (1, 8, 16, 32)
SHORT_CUTS = [*([cut] for cut in (1, 2, 15, 16, 17, 79, 80, 81, 99)), [*range(7, SHORT, 13)]]
LONG_CUTS = [
    *([cut] for cut in (TILE - 1, TILE, TILE + 1, LONG - 1)),
    [TILE - 2, TILE + 3],
    [*range(BEGUN + 1, LONG)],
]


@dataclass(frozen=True, slots=True)
class Case:
    """What computes: a decoder, the type of K and V, and the threads."""

    decoder: Decoder
    kv_dtype: torch.dtype

    def forwards(self, *lengths: int, page_size: int = 16) -> Forwards:
        """Room for requests of such lengths."""
        num_pages = sum(-(-length // page_size) for length in lengths)
        return Forwards(self.decoder, self.kv_dtype, page_size, num_pages)

    def in_chunks(
        self, tokens: Sequence[int], cuts: Sequence[int], begun: Computed | None = None
    ) -> Computed:
        """The tokens computed in chunks, over pages of their own."""
        return in_chunks(self.forwards(len(tokens)), tokens, cuts, begun)


def make_case(
    weights: str,
    kv_dtype: torch.dtype,
    *,
    threads: int = 1,
    exact: bool = True,
    compiled: bool = True,
) -> Case:
    torch.set_num_threads(threads)
    decoder = Decoder(
        CONFIG,
        narrow_checkpoint(weights).tensors,
        CONFIG.max_position,
        exact=exact,
        threads=threads,
        compiled=compiled,
    )
    return Case(decoder, kv_dtype)


# Each format of weights, and both kinds of K and V, threads and arithmetic, in some combination.
CASES: dict[str, dict[str, Any]] = {
    "fp32": {"weights": "fp32", "kv_dtype": torch.float32, "threads": 2},
    "int8, int8 KV": {"weights": "int8", "kv_dtype": torch.int8},
    "blocks": {"weights": "blocks", "kv_dtype": torch.float32},
    "blocks, int8 KV": {"weights": "blocks", "kv_dtype": torch.int8, "threads": 2},
    "torch": {"weights": "fp32", "kv_dtype": torch.float32, "compiled": False},
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    """Every arithmetic there is."""
    before = torch.get_num_threads()
    yield make_case(**CASES[request.param])
    torch.set_num_threads(before)


def test_any_cut_of_a_prompt_gives_the_same_bits(case: Case) -> None:
    """Logits of every position and all stored K and V, wherever the prompt is cut."""
    tokens = prompt(SHORT)
    expected = case.in_chunks(tokens, [])
    for cuts in SHORT_CUTS:
        assert case.in_chunks(tokens, cuts).equals(expected), cuts


def test_a_cut_near_the_border_of_a_tile_gives_the_same_bits(case: Case) -> None:
    """Chunks and single rows before, at and after position 256, and one chunk of everything."""
    tokens = prompt(LONG)
    expected = case.in_chunks(tokens, [])
    begun = case.in_chunks(tokens[:BEGUN], [])
    for cuts in LONG_CUTS:
        assert case.in_chunks(tokens, cuts, begun).equals(expected), cuts


def test_page_size_does_not_matter(case: Case) -> None:
    """Pages of 1, 8, 16 and 32, in any order: what a position gets is the same."""
    tokens = prompt(SHORT)
    passes = [
        in_chunks(case.forwards(SHORT, page_size=page_size), tokens, [page_size, 2 * page_size + 1])
        for page_size in PAGE_SIZES
    ]
    assert all(one.equals(passes[0]) for one in passes)


def test_a_batch_of_eight_gives_what_each_gets_alone(case: Case) -> None:
    """Decode rows, drafts, chunks and whole prompts side by side, in every step others."""
    lengths = [LONG, TILE + 1, TILE, TILE - 1, SHORT, 17, 16, 1]
    trunk = prompt(LONG)
    prompts = [*(trunk[:n] for n in lengths[:4]), *(prompt(n, seed=n) for n in lengths[4:])]
    begun = case.in_chunks(trunk[:BEGUN], [])
    alone = [
        case.in_chunks(tokens, [], begun if len(tokens) > BEGUN else None) for tokens in prompts
    ]
    forwards = case.forwards(*lengths)
    tables = [forwards.table(length) for length in lengths]
    done = [BEGUN if length > BEGUN else 0 for length in lengths]
    logits: list[list[Tensor]] = [[begun.logits] if start else [] for start in done]
    for table, start in zip(tables, done, strict=True):
        if start:
            forwards.restore(table, begun.stored)
    sizes = [12, 1, 6, 7, 1, 33, 2, 16]  # of each request's chunk, turning from step to step
    for step in range(40):
        chunks, whose = [], []
        for i, tokens in enumerate(prompts):
            end = min(done[i] + sizes[(i + step) % len(sizes)], len(tokens))
            if end > done[i]:
                chunks.append(Chunk(tokens, done[i], end, tables[i]))
                whose.append(i)
                done[i] = end
        if not chunks:
            break
        for i, rows in zip(whose, forwards(*chunks), strict=True):
            logits[i].append(rows)
    assert done == lengths
    for i, length in enumerate(lengths):
        together = Computed(torch.cat(logits[i]), forwards.stored(tables[i], length))
        assert together.equals(alone[i]), length


def test_tokens_that_were_only_guessed_leave_no_trace(case: Case) -> None:
    """After a rejected draft its slots are written again, and the rows before it never saw it."""
    tokens = prompt(SHORT)
    expected = case.in_chunks(tokens, [])
    forwards = case.forwards(SHORT, page_size=8)
    table = forwards.table(SHORT)
    logits = []
    for start, end in pairwise([0, 60, 61, 64, 65, 79, 80, 99, 100]):
        wrong = [*tokens[:end], *((token + 1) % 250 for token in tokens[end : end + 9])]
        rows = forwards(Chunk(wrong, start, len(wrong), table))[0]
        logits.append(rows[: end - start])
    assert Computed(torch.cat(logits), forwards.stored(table, SHORT)).equals(expected)


@pytest.mark.parametrize("weights", ["fp32", "int8", "blocks"])
@pytest.mark.parametrize("kv_dtype", [torch.float32, torch.int8], ids=str)
def test_compiled_arithmetic_is_torchs_to_rounding(weights: str, kv_dtype: torch.dtype) -> None:
    """The kernels compute what the layers in plain torch do on the dequantised weights."""
    tokens = prompt(SHORT)
    compiled, plain = (
        make_case(weights, kv_dtype, compiled=compiled).in_chunks(tokens, [])
        for compiled in (True, False)
    )
    # An INT8 code may be the next one where rounding decides, and then shows in what follows.
    tolerance = 2e-4 if kv_dtype == torch.float32 else 5e-2
    torch.testing.assert_close(compiled.logits, plain.logits, atol=tolerance, rtol=tolerance)


def test_torch_s_threads_change_nothing() -> None:
    """Another engine may set their number while this one runs; odd widths of a head feel it."""
    tensors = dict(narrow_checkpoint("fp32").tensors)
    embedding = tensors["embed_tokens.weight"]
    assert isinstance(embedding, Tensor)
    tensors["embed_tokens.weight"] = embedding[:101].clone()
    config = replace(CONFIG, vocab_size=101)
    case = Case(Decoder(config, tensors, 64, exact=True, threads=1), torch.float32)
    before = torch.get_num_threads()
    found = []
    for threads in (1, 4, 8):
        torch.set_num_threads(threads)
        found.append(case.in_chunks([token % 101 for token in prompt(20)], []).logits)
    torch.set_num_threads(before)
    assert all(torch.equal(logits, found[0]) for logits in found)


@pytest.mark.parametrize("kv_dtype", [torch.float32, torch.int8], ids=str)
def test_torch_attention_does_not_have_the_property(kv_dtype: torch.dtype) -> None:
    """Control: without exactness a cut may give other bits, though close ones."""
    case, tokens = make_case("fp32", kv_dtype, exact=False), prompt(SHORT)
    expected = case.in_chunks(tokens, [])
    computed = [case.in_chunks(tokens, cuts) for cuts in SHORT_CUTS]
    for one in computed:
        torch.testing.assert_close(one.logits, expected.logits, atol=2e-1, rtol=1e-2)
    assert not all(one.equals(expected) for one in computed)
