"""Steps asked for ahead give the answers of steps that are not, in every order of events."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch

from radixchat.engine.config import EngineConfig
from radixchat.engine.device_queue import CpuQueue
from radixchat.engine.device_runner import DeviceRunner
from radixchat.engine.engine import Engine
from radixchat.engine.errors import ModelLoadError
from radixchat.engine.request import FinishReason, Request
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.weights import Checkpoint
from radixchat.tests.engine.driver import (
    answer,
    greedy,
    make_engine,
    prompt,
    run,
    stored_kv,
)
from radixchat.tests.tiny_model import HIDDEN


def ahead_engine(tiny: Checkpoint, *, looks_ahead: bool = True, **settings: Any) -> Engine:
    config = EngineConfig(threads=1, **settings)
    return Engine(tiny, config, queue=CpuQueue(), looks_ahead=looks_ahead)


def runner_of(engine: Engine) -> DeviceRunner:
    assert isinstance(engine.runner, DeviceRunner)
    return engine.runner


@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_one_answer_is_the_same_and_all_but_its_first_steps_were_asked_for_ahead(
    tiny: Checkpoint, naive: Engine, page_size: int
) -> None:
    """Across page borders, where the assumed row's K and V are moved to the page it then gets."""
    tokens = prompt(21)
    expected = answer(naive, tokens, greedy(40))
    engine = ahead_engine(tiny, page_size=page_size)
    outcome = answer(engine, tokens, greedy(40))
    assert outcome.tokens == expected.tokens
    lookahead = runner_of(engine).lookahead
    # The step of the prompt yields the first of the 40; the last one is not followed.
    assert (lookahead.assumed, lookahead.held) == (39, 39)
    written = [*tokens, *outcome.tokens[:-1]]
    assert torch.equal(stored_kv(engine, written), stored_kv(naive_with_cache(tiny), written))


def naive_with_cache(tiny: Checkpoint) -> Engine:
    engine = make_engine(tiny, page_size=16)
    answer(engine, prompt(21), greedy(40))
    return engine


def test_without_looking_ahead_nothing_is_assumed(tiny: Checkpoint, naive: Engine) -> None:
    """And the answers are the same: the graphs alone."""
    engine = ahead_engine(tiny, looks_ahead=False)
    assert (
        answer(engine, prompt(9), greedy(20)).tokens == answer(naive, prompt(9), greedy(20)).tokens
    )
    assert runner_of(engine).lookahead.assumed == 0


def test_a_stop_token_ends_an_answer_whose_next_step_is_under_way(
    tiny: Checkpoint, naive: Engine
) -> None:
    """What was assumed of it is given up, and another request that goes on has lost nothing."""
    long = answer(naive, prompt(10, 1), greedy(30)).tokens
    stop = long[7]
    first = long.index(stop)
    other = answer(naive, prompt(12, 2), greedy(30)).tokens
    engine = ahead_engine(tiny)
    outcomes = run(
        engine,
        [
            Request(1, prompt(10, 1), greedy(30), stop_ids=frozenset({stop})),
            Request(2, prompt(12, 2), greedy(30)),
        ],
    )
    assert outcomes[1].tokens == long[: first + 1]
    assert outcomes[1].finish is FinishReason.STOP
    assert outcomes[2].tokens == other
    lookahead = runner_of(engine).lookahead
    assert lookahead.assumed - lookahead.held == 1


def test_newcomers_leave_and_join_a_step_that_is_under_way(tiny: Checkpoint, naive: Engine) -> None:
    """Requests of many lengths, submitted and cancelled at any step, in a pool that is too small.

    Preempted ones come back. Every answer that is not cancelled is what it is alone.
    """
    rng = random.Random(3)
    asked = {i: (prompt(rng.randint(1, 60), i), rng.randint(1, 30)) for i in range(24)}
    cancelled = {i: rng.randint(5, 60) for i in rng.sample(range(24), 5)}
    expected = {i: answer(naive, tokens, greedy(n)).tokens for i, (tokens, n) in asked.items()}
    engine = ahead_engine(tiny, page_size=4, pool_tokens=200, max_running=5, max_step_tokens=24,
                          max_mixed_tokens=24)  # fmt: skip
    starts = {i: rng.randint(0, 80) for i in asked}

    def before_step(step: int) -> None:
        for i, start in starts.items():
            if start == step and start:
                engine.submit(Request(i, list(asked[i][0]), greedy(asked[i][1])))
        for i, at in cancelled.items():
            if at + starts[i] == step:
                engine.cancel(i)

    # One of 90 steps keeps the engine at work until all have come.
    idle = Request(99, prompt(5, 99), greedy(90))
    now = [i for i, start in starts.items() if start == 0]
    outcomes = run(
        engine,
        [idle, *(Request(i, list(asked[i][0]), greedy(asked[i][1])) for i in now)],
        before_step=before_step,
    )
    for i, tokens in expected.items():
        outcome = outcomes[i]
        if outcome.finish is FinishReason.CANCELLED:
            assert outcome.tokens == tokens[: len(outcome.tokens)]
        else:
            assert outcome.tokens == tokens, i
    assert engine.snapshot().counters.preemptions > 0
    lookahead = runner_of(engine).lookahead
    assert 0 < lookahead.held < lookahead.assumed


def test_rows_that_the_host_samples_are_beside_those_that_it_does_not(
    tiny: Checkpoint, naive: Engine
) -> None:
    """Temperature, log-probabilities and edits of logits are what they are without."""
    params = [
        greedy(30),
        SamplingParams(temperature=0.8, top_p=0.9, max_tokens=15, seed=4),
        replace(greedy(12), logprobs=2),
        replace(greedy(15), repetition_penalty=1.3),
        replace(greedy(15), min_tokens=6),
    ]
    asked = [(prompt(11, i), p) for i, p in enumerate(params)]
    expected = [answer(naive, tokens, p, p.seed).tokens for tokens, p in asked]
    engine = ahead_engine(tiny)
    outcomes = run(engine, [Request(i, list(t), p) for i, (t, p) in enumerate(asked)])
    assert [outcomes[i].tokens for i in range(len(asked))] == expected
    assert runner_of(engine).lookahead.assumed > 0


def test_logits_that_are_not_finite_end_their_request(tiny: Checkpoint) -> None:
    """The device says so with a token that there is not."""
    tensors = dict(tiny.tensors)
    tensors["norm.weight"] = torch.full((HIDDEN,), torch.nan)
    engine = ahead_engine(replace(tiny, tensors=tensors))
    engine.submit(Request(0, prompt(5), greedy(5)))
    events = engine.step()
    assert [event.finish for event in events] == [FinishReason.FAILED]
    assert isinstance(events[0].error, ModelLoadError)
