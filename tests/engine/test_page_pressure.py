"""A pool that is too small for all who ask: who waits, who is preempted, and what it costs whom."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from radixchat.engine.engine import Engine
from radixchat.engine.errors import PromptTooLong
from radixchat.engine.prompt_lookup import PromptLookup
from radixchat.engine.request import FinishReason, Request, fan_out
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.weights import Checkpoint
from radixchat.tests.engine.driver import GREEDY, Outcome, answer, greedy, make_engine, prompt, run


def check_costs(outcome: Outcome, num_prompt: int) -> None:
    """What is always true of a request's usage."""
    usage = outcome.usage
    assert usage is not None
    assert usage.input_tokens == num_prompt
    assert usage.cached_tokens + usage.computed_tokens == num_prompt
    assert 0 <= usage.cached_tokens <= num_prompt - 1
    assert usage.output_tokens == len(outcome.tokens)


@pytest.mark.parametrize("length", [1, 2, 37])
def test_equal_prompts_decode_under_eviction(tiny: Checkpoint, naive: Engine, length: int) -> None:
    """Two with one prompt and answers of 200 and 120 tokens, while others fill the pool: solo."""
    engine = make_engine(tiny, page_size=8, pool_tokens=560, max_running=4)
    tokens = prompt(length)

    def crowd(step: int) -> None:
        if step % 8 == 0 and step < 200:
            engine.submit(Request(10 + step, prompt(40, step), greedy(3)))

    pair = [Request(0, tokens.copy(), greedy(200)), Request(1, tokens.copy(), greedy(120))]
    outcomes = run(engine, pair, before_step=crowd)
    expected = answer(naive, tokens, greedy(200)).tokens
    assert outcomes[0].tokens == expected
    assert outcomes[1].tokens == expected[:120]
    for number, outcome in outcomes.items():
        check_costs(outcome, length if number < 10 else 40)


@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_nobody_evicts_what_he_is_about_to_hit(
    tiny: Checkpoint, naive: Engine, page_size: int
) -> None:
    """The only pages to evict are those that the newcomer matches: he waits, and then has them."""
    engine = make_engine(tiny, page_size=page_size, pool_tokens=128, max_running=4)
    known = prompt(48, seed=1)
    answer(engine, known, greedy(1))
    holder = Request(0, prompt(48, seed=2), greedy(16))
    engine.submit(holder)
    while holder.num_output < 2:
        engine.step()
    newcomer = Request(1, [*known, *prompt(40, seed=3)], GREEDY)
    outcomes = run(engine, [newcomer])
    assert newcomer.num_cached == 48
    assert outcomes[1].tokens == answer(naive, newcomer.tokens[:88]).tokens
    assert engine.scheduler.stats.preemptions == 0


def test_a_refused_newcomer_locks_nothing(tiny: Checkpoint) -> None:
    """Waiting for room, with most of the prompt cached, leaves all that was evictable so."""
    engine = make_engine(tiny, page_size=4, pool_tokens=128, max_running=4)
    known = prompt(40, seed=1)
    answer(engine, known, greedy(1))
    holder = Request(0, prompt(60, seed=2), greedy(8))
    engine.submit(holder)
    while holder.num_output < 2:
        engine.step()
    engine.submit(Request(1, [*known, *prompt(40, seed=3)], GREEDY))
    evictable = engine.cache.num_evictable_pages
    assert evictable > 0
    engine.step()
    assert engine.scheduler.num_waiting == 1
    assert engine.cache.num_evictable_pages <= evictable
    assert engine.cache.match(known).length == 40
    engine.cancel(1)
    run(engine, [])
    engine.cache.flush()
    assert engine.cache.num_free_pages == engine.plan.num_pages


def test_a_full_pool_is_waited_for(tiny: Checkpoint, naive: Engine) -> None:
    """Every page is held: a newcomer waits, says for what, and goes on when one is done."""
    engine = make_engine(tiny, page_size=4, pool_tokens=128, max_running=4, max_step_tokens=64)
    holders = [Request(i, prompt(40, seed=i), greedy(10)) for i in range(2)]
    for request in holders:
        engine.submit(request)
    while any(request.num_output < 2 for request in holders):
        engine.step()
    newcomer = Request(2, prompt(70, seed=7), GREEDY)
    engine.submit(newcomer)
    ended: list[int] = []
    while not ended:
        ended = [event.request_id for event in engine.step() if event.finish is not None]
        if not ended:
            assert newcomer.allocation is None
            (wait,) = [wait for wait in engine.waits() if wait.request_id == 2]
            assert wait.why.startswith("waits for pages: ")
    assert ended in ([0], [1], [0, 1])
    outcomes = run(engine, [])
    assert outcomes[2].tokens == answer(naive, prompt(70, seed=7)).tokens
    assert engine.scheduler.stats.preemptions == 0


@pytest.mark.parametrize("excess", [0, 1, 1000])
def test_a_prompt_larger_than_the_pool_disturbs_nobody(
    tiny: Checkpoint, naive: Engine, excess: int
) -> None:
    """It is refused at once, alone or as one of several; those that run do not notice."""
    engine = make_engine(tiny, page_size=4, pool_tokens=96)
    requests = [Request(i, prompt(10, seed=i), GREEDY) for i in range(3)]

    def too_long(step: int) -> None:
        request = Request(99, [7] * (96 + excess), GREEDY)
        for asked in ([request], [Request(98, [7], GREEDY), request]):
            with pytest.raises(PromptTooLong):
                engine.submit(*asked)

    outcomes = run(engine, requests, before_step=too_long)
    assert outcomes.keys() == {0, 1, 2}
    for i in range(3):
        assert outcomes[i].tokens == answer(naive, prompt(10, seed=i)).tokens


@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_an_answer_longer_than_the_pool_ends(tiny: Checkpoint, page_size: int) -> None:
    """Three that would each fill the pool end one after another where the pool does."""
    engine = make_engine(tiny, page_size=page_size, pool_tokens=64)
    requests = [Request(i, prompt(20, seed=i), SamplingParams(temperature=0)) for i in range(3)]
    outcomes = run(engine, requests)
    assert engine.scheduler.stats.preemptions > 0
    for i in range(3):
        assert outcomes[i].finish is FinishReason.CONTEXT
        assert 20 + len(outcomes[i].tokens) == 64
        check_costs(outcomes[i], 20)


def test_costs_of_the_preempted(tiny: Checkpoint, naive: Engine) -> None:
    """What is computed again after a preemption is neither prompt nor hit, for nobody."""
    engine = make_engine(tiny, page_size=4, pool_tokens=160, max_running=4)
    trunk = prompt(12)
    prompts = [[*trunk, *prompt(12, seed=i)] for i in range(1, 6)]
    outcomes = run(engine, [Request(i, p.copy(), greedy(50)) for i, p in enumerate(prompts)])
    stats = engine.scheduler.stats
    assert stats.preemptions > 0
    assert sum(o.usage.cached_tokens for o in outcomes.values() if o.usage) == stats.cached_tokens
    assert stats.prompt_tokens == 5 * 24
    assert 0 < stats.cached_tokens <= 4 * len(trunk)
    for i, tokens in enumerate(prompts):
        check_costs(outcomes[i], 24)
        assert outcomes[i].tokens == answer(naive, tokens, greedy(50)).tokens


def test_drafts_preempt_nobody(tiny: Checkpoint, naive: Engine) -> None:
    """Two answers that just fit: guessing tokens for both needs pages, and takes none away."""
    tokens = [prompt(20, seed=i) for i in range(2)]
    expected = [answer(naive, p, greedy(44)).tokens for p in tokens]

    def lookup(i: int, right: bool) -> PromptLookup:
        branch: Sequence[int] = [*tokens[i], *expected[i]] if right else [*tokens[i], *[5] * 44]
        return PromptLookup([branch])

    for right in (True, False):
        engine = make_engine(tiny, page_size=4, pool_tokens=128, max_running=2, max_draft_tokens=8)
        requests = [
            Request(i, tokens[i].copy(), greedy(44), lookup=lookup(i, right)) for i in range(2)
        ]
        outcomes = run(engine, requests)
        assert engine.scheduler.stats.preemptions == 0
        assert [outcomes[i].tokens for i in range(2)] == expected
        stats = engine.scheduler.stats
        assert 0 < stats.accepted_tokens <= stats.draft_tokens
        assert (stats.accepted_tokens > 0.8 * stats.draft_tokens) == right


def test_siblings_share_a_prefill(tiny: Checkpoint, naive: Engine) -> None:
    """Four samples of one prompt compute it once, differ, and each is its seed's answer alone."""
    engine = make_engine(tiny, page_size=8, max_step_tokens=32)
    sampling = SamplingParams(temperature=2.0, max_tokens=12, seed=3)
    siblings = fan_out(Request(0, prompt(61), sampling), range(4))
    outcomes = run(engine, siblings)
    usages = [outcomes[i].usage for i in range(4)]
    assert sorted(usage.computed_tokens for usage in usages if usage) == [1, 1, 1, 61]
    assert len({tuple(outcomes[i].tokens) for i in range(4)}) == 4
    for i, sibling in enumerate(siblings):
        alone = answer(naive, prompt(61), sampling, seed=sibling.sampling.seed)
        assert outcomes[i].tokens == alone.tokens


def test_pages_of_wrong_guesses_preempt_nobody(tiny: Checkpoint, naive: Engine) -> None:
    """What a draft took and did not need is given back before anybody has to make room."""
    engine = make_engine(tiny, page_size=1, pool_tokens=102, max_running=2)
    lengths = (50, 20)
    requests = [Request(i, prompt(30, seed=i), greedy(n)) for i, n in enumerate(lengths)]
    requests[0].lookup = Wrong()
    outcomes = run(engine, requests)
    assert requests[0].draft_tokens > 100
    assert engine.scheduler.stats.preemptions == 0
    for i, n in enumerate(lengths):
        assert outcomes[i].tokens == answer(naive, prompt(30, seed=i), greedy(n)).tokens


def test_pages_of_wrong_guesses_are_there_for_an_urgent_request(tiny: Checkpoint) -> None:
    """It finds the room that the answers before it do not need, and preempts neither."""
    engine = make_engine(tiny, page_size=1, pool_tokens=100, max_running=3)
    for i in range(2):
        request = Request(i, prompt(30, seed=i), greedy(20))
        request.lookup = Wrong()
        engine.submit(request)
    for _ in range(4):
        engine.step()
    assert engine.cache.num_free_pages == 100 - 2 * 33
    engine.submit(Request(2, prompt(20, seed=3), greedy(2), priority=1))
    engine.step()
    assert engine.scheduler.num_running == 3
    assert engine.scheduler.stats.preemptions == 0
    run(engine, [])


class Wrong(PromptLookup):
    """Guesses as much as it may, and never right."""

    def propose(self, tokens: Sequence[int], limit: int) -> list[int]:
        """Tokens that the model hardly says."""
        return [255 - tokens[-1] % 2] * limit


@pytest.mark.parametrize("pool_tokens", range(84, 132, 4))
def test_who_made_room_is_computed_once(tiny: Checkpoint, naive: Engine, pool_tokens: int) -> None:
    """A short answer, preempted with a long one for an urgent request, may go on in that step."""
    engine = make_engine(tiny, page_size=4, pool_tokens=pool_tokens, max_running=4)
    trunk = prompt(40)
    prompts = [[*trunk, *prompt(30, seed=1)], trunk, [*trunk[:23], *prompt(6, seed=2)]]
    urgent = Request(2, prompts[2].copy(), greedy(1), priority=1)

    def hurry(step: int) -> None:
        if step == 8:
            engine.submit(urgent)

    running = [Request(i, prompts[i].copy(), greedy(14)) for i in range(2)]
    outcomes = run(engine, running, before_step=hurry)
    for i, max_tokens in enumerate((14, 14, 1)):
        assert outcomes[i].tokens == answer(naive, prompts[i], greedy(max_tokens)).tokens
