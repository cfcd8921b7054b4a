"""Cancelled after each chunk, each token, in the step that would have been the last: pages, KV."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from radixchat.engine.engine import Engine
from radixchat.engine.prompt_lookup import PromptLookup
from radixchat.engine.request import FinishReason, Request, fan_out
from radixchat.engine.weights import Checkpoint
from radixchat.tests.engine.driver import GREEDY, answer, greedy, make_engine, prompt, run

PAGE_SIZES = [1, 8, 16, 32]


def drain(engine: Engine) -> None:
    """Nothing is left but what is cached, and that can go."""
    run(engine, [])
    engine.cache.flush()
    engine.cache.check()
    assert engine.cache.num_free_pages == engine.plan.num_pages


@pytest.mark.parametrize("page_size", [1, 4, 16])
@pytest.mark.parametrize("arrival", range(5))
def test_nobody_reads_what_is_not_computed(
    tiny: Checkpoint, naive: Engine, page_size: int, arrival: int
) -> None:
    """One that arrives between another's chunks hits at most what those have computed."""
    engine = make_engine(tiny, max_step_tokens=16, max_running=4, page_size=page_size)
    first = Request(0, prompt(48), GREEDY)
    late = Request(1, [*prompt(48), 9, 9], GREEDY)
    other = Request(2, [*prompt(48)[:20], 8, 8], GREEDY)
    computed = 0

    def arrive(step: int) -> None:
        nonlocal computed
        if step == arrival:
            engine.submit(late, other)
        for request in (late, other):
            if request.num_cached is None:
                computed = first.num_computed

    outcomes = run(engine, [first], before_step=arrive)
    for request in (first, late, other):
        expected = answer(naive, request.tokens[: request.num_prompt]).tokens
        assert outcomes[request.id].tokens == expected
    assert late.num_cached is not None
    assert 0 < late.num_cached <= computed
    assert other.num_cached == 20


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("chunk", [5, 17])
def test_cancelled_after_each_chunk(
    tiny: Checkpoint, naive: Engine, page_size: int, chunk: int
) -> None:
    """Whatever is computed when it goes, to the token, is found by the next, and is right."""
    engine = make_engine(
        tiny,
        page_size=page_size,
        max_step_tokens=chunk,
        max_mixed_tokens=chunk,
        max_running=2,
        pool_tokens=256,
    )
    for length in {max(1, page_size - 1), page_size, page_size + 1, page_size + 5}:
        tokens = prompt(length, seed=length)
        expected = answer(naive, tokens, greedy(3)).tokens
        num_steps, request = 0, Request(0, tokens.copy(), greedy(3))
        while request.num_output < 2:
            num_steps, request = num_steps + 1, Request(0, tokens.copy(), greedy(3))
            engine.submit(request)
            for _ in range(num_steps - 1):
                engine.step()
            engine.cancel(0)
            events = engine.step()
            assert [event.finish for event in events] == [FinishReason.CANCELLED]
            assert not engine.has_work
            engine.cache.check()
            known = engine.cache.match(request.tokens).length
            assert known == request.num_computed >= min(num_steps - 1, length)
            again = answer(engine, tokens, greedy(3))
            assert again.tokens == expected
            assert again.usage is not None
            assert again.usage.cached_tokens == min(known, length - 1)
            engine.cache.flush()
    drain(engine)


def crowd(expected: list[int]) -> list[Request]:
    """One that is preempted by its siblings' growth, one that guesses, and one that waits."""
    guesses = Request(
        0, prompt(30, seed=1), greedy(20), lookup=PromptLookup([[*prompt(30, seed=1), *expected]])
    )
    siblings = fan_out(Request(1, prompt(21), greedy(20)), range(1, 4))
    return [guesses, *siblings, Request(4, prompt(40, seed=4), greedy(6))]


@pytest.mark.parametrize("step", range(0, 60, 3))
def test_cancelled_at_any_step(tiny: Checkpoint, naive: Engine, step: int) -> None:
    """All five at once, whatever each is doing: one last event each, and no page is missing."""
    expected = answer(naive, prompt(30, seed=1), greedy(20)).tokens
    engine = make_engine(
        tiny, page_size=4, pool_tokens=96, max_step_tokens=12, max_running=4, max_draft_tokens=3
    )

    def cancel(now: int) -> None:
        if now == step:
            for number in range(5):
                engine.cancel(number)

    outcomes = run(engine, crowd(expected), before_step=cancel)
    assert len(outcomes) == 5
    for number, outcome in outcomes.items():
        assert outcome.finish in (FinishReason.CANCELLED, FinishReason.LENGTH)
        if number == 0:
            assert outcome.tokens == expected[: len(outcome.tokens)]
    drain(engine)


@pytest.mark.parametrize("again", [1, 2])
def test_cancelled_when_it_would_have_ended(tiny: Checkpoint, again: int) -> None:
    """Before its last step it is cancelled, once; after that step nothing more is heard of it."""

    def play(when: Callable[[Request], bool]) -> list[FinishReason | None]:
        engine = make_engine(tiny)
        request = Request(0, prompt(10), greedy(4))
        engine.submit(request)
        heard = []
        while engine.has_work:
            heard += [event.finish for event in engine.step()]
            if when(request):
                for _ in range(again):
                    engine.cancel(0)
        drain(engine)
        return heard

    assert play(lambda request: request.num_output == 3) == [None] * 3 + [FinishReason.CANCELLED]
    assert play(lambda request: request.num_output == 4) == [None] * 3 + [FinishReason.LENGTH]


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_lengths_around_a_page_border_with_drafts(
    tiny: Checkpoint, naive: Engine, page_size: int
) -> None:
    """kP - 1, kP, kP + 1 and one token; cold, repeated, right and wrong guesses; n siblings."""
    engine = make_engine(tiny, page_size=page_size, max_step_tokens=32, max_draft_tokens=4)
    for length in sorted({1} | {k * page_size + d for k in (1, 2) for d in (-1, 0, 1)} - {0}):
        tokens = prompt(length, seed=length)
        expected = answer(naive, tokens, greedy(6)).tokens
        for branch in ([], expected, [*expected[:2], 5, *expected[3:]]):
            lookup = PromptLookup([[*tokens, *branch]] if branch else ())
            request = Request(0, tokens.copy(), greedy(6), lookup=lookup)
            outcome = run(engine, fan_out(request, range(2)))
            for number in range(2):
                assert outcome[number].tokens == expected
                usage = outcome[number].usage
                assert usage is not None
                cold = number == 0 and not branch
                assert usage.cached_tokens == (0 if cold else length - 1)
        assert engine.cache.match([*tokens, *expected]).length == length + len(expected) - 1
        engine.cache.flush()
    assert engine.scheduler.stats.accepted_tokens > 0
    drain(engine)
