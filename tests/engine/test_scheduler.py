"""Priorities, deadlines, drafts, siblings, prompt log-probabilities: through the engine."""

from __future__ import annotations

import gc
import heapq
import logging
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from radixchat.engine.engine import Engine
from radixchat.engine.errors import EngineOverloaded, InvalidRequest
from radixchat.engine.logprobs import TokenLogprob
from radixchat.engine.prompt_lookup import PromptLookup
from radixchat.engine.request import FinishReason, Request, fan_out
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.watchdog import PATIENCE_SECONDS
from radixchat.engine.weights import Checkpoint
from radixchat.tests.engine.driver import GREEDY, answer, make_engine, prompt, run


class Clock:
    """A time that tests set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Oracle(PromptLookup):
    """Guesses right but for every `miss`-th token."""

    def __init__(self, whole: Sequence[int], miss: int) -> None:
        super().__init__()
        self._whole, self._miss = whole, miss

    def propose(self, tokens: Sequence[int], limit: int) -> list[int]:
        """The next tokens of the answer, some of them wrong."""
        after = enumerate(self._whole[len(tokens) : len(tokens) + limit], len(tokens))
        return [(token + 1) % 250 if i % self._miss == 0 else token for i, token in after]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("miss", [2, 5, 1000])
def test_drafts_change_no_answer_and_leave_no_trace(
    tiny: Checkpoint, naive: Engine, temperature: float, miss: int
) -> None:
    """Right and wrong guesses: same tokens, same tree, fewer steps."""
    sampling = SamplingParams(temperature=temperature, max_tokens=60, seed=5)
    tokens = prompt(40)
    expected = answer(naive, tokens, sampling, seed=5).tokens
    plain, drafting = make_engine(tiny), make_engine(tiny)
    answer(plain, tokens, sampling, seed=5)
    request = Request(0, tokens.copy(), sampling)
    request.lookup = Oracle(tokens + expected, miss)
    outcome = run(drafting, [request])[0]
    assert outcome.tokens == expected
    assert outcome.usage is not None
    assert outcome.usage.draft_tokens > 0
    assert (outcome.usage.accepted_tokens == outcome.usage.draft_tokens) == (miss == 1000)
    assert drafting.cache.num_cached_tokens == plain.cache.num_cached_tokens == 40 + 59
    assert drafting.cache.match(tokens + expected).length == 99
    if miss == 1000:
        assert drafting.scheduler.stats.steps < plain.scheduler.stats.steps / 4


def test_a_stop_token_in_a_draft_ends_the_answer(tiny: Checkpoint, naive: Engine) -> None:
    """What was guessed beyond it is neither told nor cached."""
    tokens = prompt(30)
    full = answer(naive, tokens, GREEDY).tokens
    stop = full[6]
    request = Request(0, tokens.copy(), GREEDY, frozenset({stop}))
    request.lookup = Oracle(tokens + full, 1000)
    engine = make_engine(tiny)
    outcome = run(engine, [request])[0]
    assert outcome.finish is FinishReason.STOP
    assert outcome.tokens == full[: full.index(stop) + 1]
    whole = tokens + full
    assert engine.cache.match(whole).length == len(tokens) + full.index(stop)


def test_a_higher_priority_takes_the_place_of_a_lower_one(tiny: Checkpoint, naive: Engine) -> None:
    """The lower one goes on afterwards, with the same answer, computed once."""
    engine = make_engine(tiny, max_running=2)
    low = [Request(i, prompt(50, i), replace(GREEDY, max_tokens=30)) for i in range(2)]
    engine.submit(*low)
    for _ in range(4):
        engine.step()
    urgent = Request(2, prompt(20, 2), GREEDY, priority=1)
    engine.submit(urgent)
    engine.step()
    assert urgent.allocation is not None
    assert low[1].allocation is None
    computed = engine.scheduler.stats.computed_tokens
    outcomes = run(engine, [])
    assert outcomes[2].finish is FinishReason.LENGTH
    for i, request in enumerate(low):
        full = answer(naive, prompt(50, i), replace(GREEDY, max_tokens=30)).tokens
        assert request.tokens == prompt(50, i) + full
    # The preempted one computes one token again: the one whose logits it needs.
    assert engine.scheduler.stats.computed_tokens - computed <= 12 + 2 * 30


def test_equal_priorities_preempt_nobody(tiny: Checkpoint) -> None:
    """A newcomer waits for a place."""
    engine = make_engine(tiny, max_running=1)
    engine.submit(Request(0, prompt(10), GREEDY))
    engine.step()
    engine.submit(Request(1, prompt(10, 1), GREEDY))
    engine.step()
    assert engine.scheduler.stats.preemptions == 0
    assert "1 of 1 requests run" in str(engine.waits()[0])


@pytest.mark.parametrize("step", [0, 1, 6])
def test_a_deadline_ends_an_answer_as_it_is(tiny: Checkpoint, step: int) -> None:
    """Waiting, in its prefill or talking: one last event, and the others go on."""
    clock = Clock()
    engine = make_engine(tiny, clock=clock, max_step_tokens=32)
    timed = Request(0, prompt(60), replace(GREEDY, max_tokens=40), deadline=103.0)
    other = Request(1, prompt(20, 1), GREEDY)

    def tick(now: int) -> None:
        if now == step:
            clock.now = 103.0

    outcomes = run(engine, [timed, other], before_step=tick)
    assert outcomes[0].finish is FinishReason.DEADLINE
    assert len(outcomes[0].tokens) == max(0, step - 2)
    assert outcomes[1].finish is FinishReason.LENGTH
    assert engine.scheduler.stats.expired == 1
    assert engine.cache.match(timed.tokens).length == timed.num_computed


def test_siblings_are_queued_together_or_not_at_all(tiny: Checkpoint) -> None:
    """Two samples where one more may wait: refused, and nothing has changed."""
    engine = make_engine(tiny, max_waiting=3)
    engine.submit(*fan_out(Request(0, prompt(10), GREEDY), range(2)))
    with pytest.raises(EngineOverloaded):
        engine.submit(*fan_out(Request(2, prompt(10), GREEDY), range(2, 4)))
    assert sorted(run(engine, [])) == [0, 1]


def test_more_siblings_than_may_ever_wait_are_no_matter_of_time(tiny: Checkpoint) -> None:
    """To try again later would not help, so it is another error."""
    engine = make_engine(tiny, max_waiting=3)
    with pytest.raises(InvalidRequest, match="4 requests at once; at most 3"):
        engine.submit(*fan_out(Request(0, prompt(10), GREEDY), range(4)))


def test_nobody_who_has_ended_is_kept(tiny: Checkpoint) -> None:
    """Requests hold tokens, grammars and texts: with its last event the engine lets one go."""
    engine = make_engine(tiny, max_step_tokens=16)
    others = count_requests()
    requests = [Request(i, prompt(60), GREEDY) for i in range(3)]
    requests.append(Request(3, prompt(20, 3), GREEDY, deadline=1e12))
    run(engine, requests)
    assert count_requests() == others + 4
    requests.clear()
    assert count_requests() == others


def count_requests() -> int:
    """Those that somebody holds."""
    gc.collect()
    return sum(type(each) is Request for each in gc.get_objects())


def test_the_first_sibling_is_the_request_itself(tiny: Checkpoint) -> None:
    """The others have noise of their own."""
    sampling = SamplingParams(temperature=1.0, max_tokens=20, seed=9)
    alone = answer(make_engine(tiny), prompt(30), sampling, seed=9).tokens
    siblings = fan_out(Request(0, prompt(30), sampling), range(3))
    outcomes = run(make_engine(tiny), siblings)
    assert outcomes[0].tokens == alone
    assert len({tuple(outcome.tokens) for outcome in outcomes.values()}) == 3


@pytest.mark.parametrize("page_size", [1, 16])
def test_log_probabilities_of_a_prompt_are_computed_not_read(
    tiny: Checkpoint, page_size: int
) -> None:
    """With all of it in the cache, in chunks: each token's, equal to those of a cold run."""
    sampling = SamplingParams(temperature=0, max_tokens=3, prompt_logprobs=2)
    tokens = prompt(70)
    cold = logprobs_of(make_engine(tiny, prefix_cache=False, max_step_tokens=512), tokens, sampling)
    assert [entry.token for entry in cold] == tokens[1:]
    assert all(len(entry.top) == 2 for entry in cold)
    engine = make_engine(tiny, page_size=page_size, max_step_tokens=16)
    answer(engine, tokens)
    assert engine.cache.match(tokens).length == 70
    assert logprobs_of(engine, tokens, sampling) == cold


def logprobs_of(
    engine: Engine, tokens: list[int], sampling: SamplingParams
) -> tuple[TokenLogprob, ...]:
    """What the event of the first token tells, and no other does."""
    engine.submit(Request(0, tokens.copy(), sampling))
    told = []
    while engine.has_work:
        told += [e.prompt_logprobs for e in engine.step() if e.prompt_logprobs is not None]
        engine.cache.check()
    assert len(told) == 1
    return told[0]


def test_log_probabilities_survive_a_preemption(tiny: Checkpoint) -> None:
    """Those that were told of a prompt's beginning are not computed again."""
    sampling = SamplingParams(temperature=0, max_tokens=3, prompt_logprobs=0)
    tokens = prompt(100)
    cold = logprobs_of(make_engine(tiny, prefix_cache=False), tokens, sampling)
    engine = make_engine(tiny, max_running=1, max_step_tokens=16)
    request = Request(0, tokens.copy(), sampling)
    engine.submit(request)
    for _ in range(3):
        engine.step()
    assert 0 < len(request.prompt_logprobs) < 99
    engine.submit(Request(1, prompt(10, 1), GREEDY, priority=1))
    engine.step()
    assert request.allocation is None
    run(engine, [])
    assert tuple(request.prompt_logprobs) == cold


def test_a_step_takes_as_long_at_the_end_of_a_long_prompt(tiny: Checkpoint) -> None:
    """The further a chunk is from the beginning, the fewer tokens it has; all are computed once."""
    plan = make_engine(tiny, max_step_tokens=128).plan
    position, counts = 0, []
    while position < 500:
        count, cost = plan.chunk(position, 500 - position, 64)
        ends = position + np.arange(count + 1)
        operations = (ends + ends**2 / (2 * plan.attention_tokens))[[0, -1]]
        assert operations[1] - operations[0] <= 64 < 1.2 * cost or position + count == 500
        counts.append(count)
        position += count
    assert counts == sorted(counts[:-1], reverse=True) + counts[-1:]
    assert sum(counts) == 500
    assert plan.chunk(400, 50, 1) == (1, 3)


def test_a_stall_is_reported_once_with_what_everybody_waits_for(
    tiny: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    """Pages that nobody gives back: a warning after a while, and work when they are there."""
    clock = Clock()
    engine = make_engine(tiny, clock=clock, pool_tokens=64, page_size=16)
    held = engine.cache.allocate(prompt(50))
    assert held is not None
    engine.submit(Request(7, prompt(20, 1), GREEDY))
    with caplog.at_level(logging.WARNING):
        for _ in range(30):
            assert engine.step() == []
            assert engine.is_still
            clock.now += PATIENCE_SECONDS / 10
    assert engine.scheduler.stats.stalls == 1
    (record,) = caplog.records
    assert "request 7 waits for pages: 2 at most, 0 are free" in record.getMessage()
    engine.cache.release(held)
    assert run(engine, [])[7].finish is FinishReason.LENGTH
    assert not engine.is_still


def test_those_who_run_can_grow_before_another_is_admitted(tiny: Checkpoint) -> None:
    """A page for each that runs is kept: a newcomer that would take the last one waits."""
    engine = make_engine(tiny, pool_tokens=16 * 16, page_size=16)
    first = Request(0, prompt(33), replace(GREEDY, max_tokens=100))
    engine.submit(first)
    engine.step()
    engine.submit(Request(1, prompt(16 * 13, 1), GREEDY))
    engine.step()
    assert engine.scheduler.num_waiting == 1
    assert engine.cache.num_free_pages == 13
    run(engine, [])
    assert engine.scheduler.stats.preemptions == 0


@pytest.mark.parametrize("places", [2, 5, 40])
def test_steps_are_those_of_a_list_of_jobs_on_so_many_machines(
    tiny: Checkpoint, places: int
) -> None:
    """Orca: who is done makes room in the next step, so no place is empty while somebody waits."""
    lengths = random.Random(places).choices(range(1, 60), k=40)
    engine = make_engine(tiny, max_running=places, max_step_tokens=200, schedule="fcfs")
    run(engine, [Request(i, [i], replace(GREEDY, max_tokens=n)) for i, n in enumerate(lengths)])
    free = [0] * places
    for length in lengths:
        heapq.heapreplace(free, free[0] + length)
    assert engine.scheduler.stats.steps == max(free)
    assert max(lengths) <= max(free) <= 1.05 * (sum(lengths) / places + max(lengths))
