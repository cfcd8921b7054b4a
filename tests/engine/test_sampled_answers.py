"""Answers under every sampling feature: alone, together, preempted and with drafts they are one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from radixchat.engine.engine import Engine
from radixchat.engine.prompt_lookup import PromptLookup
from radixchat.engine.request import Request
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.weights import Checkpoint
from radixchat.tests.engine.driver import make_engine, run

STOPS = frozenset(range(40))  # many, so that an answer would stop soon
PARAMS = [
    SamplingParams(temperature=0, repetition_penalty=1.2),
    SamplingParams(temperature=0, dry_multiplier=2.0, dry_allowed_length=1),
    SamplingParams(temperature=3.0, presence_penalty=1.0, frequency_penalty=0.5, logprobs=2),
    SamplingParams(temperature=3.0, typical_p=0.9, logit_bias=((101, 4.0), (102, 3.0))),
    SamplingParams(temperature=2.0, top_k=40, bad_words=((101,), (102, 103))),
    SamplingParams(temperature=3.0, top_p=0.95, min_tokens=12),
    SamplingParams(temperature=0, frequency_penalty=0.8, dry_multiplier=1.0, min_tokens=30),
]


def requests(branches: dict[int, list[int]]) -> list[Request]:
    """One of each kind, guessing from a branch where there is one."""
    made = []
    for i, params in enumerate(PARAMS):
        prompt = [(i * 7 + j * j) % 256 for j in range(60)] + [101, 102] * 5
        sampling = replace(params, seed=i, max_tokens=30)
        lookup = PromptLookup([branches[i]]) if branches else None
        made.append(Request(i, prompt, sampling, stop_ids=STOPS, lookup=lookup))
    return made


def answers(engine: Engine, asked: list[Request]) -> dict[int, list[int]]:
    return {i: outcome.tokens for i, outcome in run(engine, asked).items()}


@pytest.fixture(scope="module")
def alone(tiny: Checkpoint) -> dict[int, list[int]]:
    """Each request in an engine of its own, without cache or drafts."""
    found: dict[int, list[int]] = {}
    for request in requests({}):
        found |= answers(make_engine(tiny, prefix_cache=False), [request])
    return found


def test_answers_do_what_their_parameters_say(alone: dict[int, list[int]]) -> None:
    """Bad words do not occur, nothing stops before min_tokens, DRY breaks the prompt's rhythm."""
    assert 101 not in alone[4]
    assert (102, 103) not in list(zip(alone[4], alone[4][1:], strict=False))
    assert not STOPS & set(alone[5][:12])
    assert not STOPS & set(alone[6][:29])
    assert min(len(alone[0]), len(alone[1])) > 0


def test_answers_are_the_same_together_and_preempted(
    tiny: Checkpoint, alone: dict[int, list[int]]
) -> None:
    """In one batch, and in a pool so small that requests are put back and resumed."""
    assert answers(make_engine(tiny), requests({})) == alone
    small = make_engine(tiny, pool_tokens=160, page_size=8, max_step_tokens=24)
    assert answers(small, requests({})) == alone
    assert small.scheduler.stats.preemptions > 0


def test_answers_are_the_same_with_drafts_right_and_wrong(
    tiny: Checkpoint, alone: dict[int, list[int]]
) -> None:
    """The old answer as the draft, whole and with every fifth token changed."""
    wrong = {
        i: [(t + 1) % 200 if j % 5 == 4 else t for j, t in enumerate(tokens)]
        for i, tokens in alone.items()
    }
    for branches in (alone, wrong):
        engine = make_engine(tiny)
        assert answers(engine, requests(branches)) == alone
        stats = engine.scheduler.stats
        assert 0 < stats.accepted_tokens <= stats.draft_tokens
    assert stats.accepted_tokens < stats.draft_tokens
