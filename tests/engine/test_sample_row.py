"""The rows of a request: each feature against the reference, and drafts against single steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from radixchat.engine.edited_logits import edited_logits
from radixchat.engine.request import Request
from radixchat.engine.sample_row import SampleRow, sample_rows
from radixchat.engine.sampling_params import SamplingParams
from radixchat.tests.engine import sampling_reference as reference

VOCABULARY, STOPS = 40, frozenset({38, 39})
tokens = st.integers(0, 5)  # few, so that everything repeats
texts = st.lists(tokens, min_size=1, max_size=30)

FEATURES = {
    "repetition": SamplingParams(repetition_penalty=1.3),
    "encouraged repetition": SamplingParams(repetition_penalty=0.7),
    "presence": SamplingParams(presence_penalty=0.9),
    "frequency": SamplingParams(frequency_penalty=-0.4),
    "presence and frequency": SamplingParams(presence_penalty=0.5, frequency_penalty=0.3),
    "dry": SamplingParams(dry_multiplier=0.8, dry_breakers=frozenset({4})),
    "dry, at once": SamplingParams(dry_multiplier=2.0, dry_base=1.0, dry_allowed_length=1),
    "bias": SamplingParams(logit_bias=((3, -5.0), (37, 2.5), (38, 100.0))),
    "bad words": SamplingParams(bad_words=((2,), (1, 3), (0, 1, 4), (5, 5, 5))),
    "min_tokens": SamplingParams(min_tokens=6),
    "all": SamplingParams(
        repetition_penalty=1.2,
        presence_penalty=0.4,
        frequency_penalty=0.2,
        dry_multiplier=0.5,
        dry_breakers=frozenset({5}),
        logit_bias=((0, 3.0), (9, -3.0)),
        bad_words=((7,), (1, 2)),
        min_tokens=3,
    ),
}


def request(params: SamplingParams, prompt: list[int], answer: list[int]) -> Request:
    made = Request(0, list(prompt), params, stop_ids=STOPS)
    made.tokens += answer
    return made


def logits_of(rows: list[SampleRow], logits: Tensor) -> Tensor:
    edits = [(i, row.edits) for i, row in enumerate(rows) if row.edits is not None]
    return edited_logits(logits, edits) if edits else logits


def random_logits(rows: int) -> Tensor:
    values = np.random.default_rng(1).normal(0, 3, (rows, VOCABULARY))
    return torch.from_numpy(values).float()


@pytest.mark.parametrize("feature", FEATURES)
@settings(max_examples=40)
@given(texts, st.lists(tokens, max_size=20), st.booleans())
def test_each_feature_is_the_reference(
    feature: str, prompt: list[int], answer: list[int], has_grammar: bool
) -> None:
    """The edited logits of one row equal those worked out slowly in float64."""
    params = FEATURES[feature]
    allowed = {0, 1, 3, 5, 31, 32, 38} if has_grammar else None
    masks = [reference.mask_of(allowed, VOCABULARY)] if allowed else []
    made = request(params, prompt, answer)
    logits = random_logits(1)
    found = logits_of(sample_rows(made, [], masks), logits)
    expected = reference.edited(
        logits[0].double().numpy(), params, made.tokens, made.num_prompt, STOPS, allowed
    )
    np.testing.assert_allclose(found[0].double().numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("feature", FEATURES)
@settings(max_examples=25)
@given(texts, st.lists(tokens, max_size=12), st.lists(tokens, max_size=6))
def test_draft_rows_are_the_rows_of_single_steps(
    feature: str, prompt: list[int], answer: list[int], draft: list[int]
) -> None:
    """Bit for bit: with a draft, by a request that grew token by token, and by one just made."""
    params, count = FEATURES[feature], 1 + len(draft)
    logits = random_logits(count)
    masks = [reference.mask_of({i, 3, 4, 5, 38}, VOCABULARY) for i in range(count)]
    drafting = request(params, prompt, [])
    for token in answer:
        sample_rows(drafting, [0, 1], masks[:1] * 3)
        drafting.tokens.append(token)
    rows = sample_rows(drafting, draft, masks)
    together = logits_of(rows, logits)
    stepping = request(params, prompt, answer)
    for i in range(count):
        fresh = request(params, prompt, [*answer, *draft[:i]])
        for one in (stepping, fresh):
            (row,) = sample_rows(one, [], masks[i : i + 1])
            assert (row.position, row.params) == (rows[i].position, rows[i].params)
            assert torch.equal(logits_of([row], logits[i : i + 1])[0], together[i])
        stepping.tokens += draft[i : i + 1]


def test_a_draft_that_was_wrong_leaves_no_trace() -> None:
    """The next step's row knows only the tokens that the request has."""
    params, logits = FEATURES["all"], random_logits(1)
    made = request(params, [1, 2, 3, 1, 2], [3])
    sample_rows(made, [1, 2, 3, 1, 2, 3], [])
    made.tokens.append(0)
    fresh = request(params, [1, 2, 3, 1, 2], [3, 0])
    found, expected = (logits_of(sample_rows(r, [], []), logits) for r in (made, fresh))
    assert torch.equal(found, expected)


def test_a_plain_request_keeps_no_history() -> None:
    """Temperature and cuts need none: the rows are parameters and positions."""
    params = SamplingParams(temperature=0.7, top_p=0.9, logprobs=3)
    made = request(params, [1, 2, 3], [4])
    assert sample_rows(made, [5, 6], []) == [SampleRow(params, i) for i in (4, 5, 6)]
    assert made.history is None


def test_no_stop_token_comes_before_min_tokens() -> None:
    """The ban ends with the row that would be the min_tokens-th after which one may stop."""
    made = request(SamplingParams(min_tokens=3), [1, 2], [3])
    rows = sample_rows(made, [4, 5, 6], [])
    banned = logits_of(rows, random_logits(4))[:, sorted(STOPS)].isinf()
    assert banned.all(-1).tolist() == banned.any(-1).tolist() == [True, True, False, False]


def test_a_grammar_that_admits_only_the_end_wins_over_min_tokens() -> None:
    """One that admits anything else does not."""
    made = request(SamplingParams(min_tokens=9), [1, 2], [])
    masks = [reference.mask_of(ids, VOCABULARY) for ids in ({38}, {38, 39}, {7, 38})]
    possible = logits_of(sample_rows(made, [0, 0], masks), random_logits(3)).isfinite()
    assert [set(row.nonzero().flatten().tolist()) for row in possible] == [{38}, {38, 39}, {7}]


def test_a_mask_shorter_than_the_vocabulary_admits_nothing_beyond() -> None:
    """Rows that the tokenizer does not have stay excluded."""
    made = request(SamplingParams(), [1], [])
    mask = np.full(1, 0xFFFFFFFF, dtype=np.uint32)
    possible = logits_of(sample_rows(made, [], [mask]), random_logits(1)).isfinite()
    assert possible[0].nonzero().flatten().tolist() == list(range(32))


def test_the_end_of_an_answer_is_never_a_repetition() -> None:
    """DRY leaves stop tokens alone: every answer of a conversation ends with one."""
    params = SamplingParams(dry_multiplier=5.0)
    made = request(params, [1, 2, 3, 38, 9, 1, 2, 3], [])
    (row,) = sample_rows(made, [], [])
    assert row.edits is not None
    assert row.edits.dry.ids.tolist() == []
    made = Request(0, made.tokens, params)
    (row,) = sample_rows(made, [], [])
    assert row.edits is not None
    assert row.edits.dry.ids.tolist() == [38]


def test_a_hopeless_repetition_stays_finite() -> None:
    """The largest penalty is a number, so a text of one token is not an impossible request."""
    params = replace(SamplingParams(), dry_multiplier=100.0, dry_base=10.0)
    made = request(params, [3] * 600, [3])
    assert logits_of(sample_rows(made, [], []), random_logits(1)).isfinite().all()
