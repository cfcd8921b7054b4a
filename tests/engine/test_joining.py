"""A prompt that is already being computed is waited for, not computed twice."""

from __future__ import annotations

import pytest

from radixchat.engine.joining import MAX_JOIN_STEPS
from radixchat.engine.request import FinishReason, Request
from radixchat.engine.weights import Checkpoint
from radixchat.tests.engine.driver import GREEDY, answer, make_engine, prompt, run


def test_identical_prompts_are_computed_once(tiny: Checkpoint) -> None:
    """Eight copies of one prompt at once cost one prefill and one token each, answers equal."""
    engine = make_engine(tiny, max_step_tokens=16, page_size=8)
    expected = answer(make_engine(tiny, prefix_cache=False), prompt(100)).tokens
    outcomes = run(engine, [Request(i, prompt(100), GREEDY) for i in range(8)])
    usages = [outcomes[i].usage for i in range(8)]
    assert [usage.cached_tokens for usage in usages if usage] == [0] + [99] * 7
    assert all(outcome.tokens == expected for outcome in outcomes.values())


def test_shared_beginning_is_computed_once(tiny: Checkpoint) -> None:
    """Prompts that part after a shared system prompt wait for that only."""
    engine = make_engine(tiny, max_step_tokens=16, page_size=8)
    prompts = [[*prompt(64), seed, *prompt(30, seed)] for seed in range(1, 5)]
    outcomes = run(engine, [Request(i, p, GREEDY) for i, p in enumerate(prompts)])
    usages = [outcomes[i].usage for i in range(4)]
    assert [usage.cached_tokens for usage in usages if usage] == [0, 64, 64, 64]


def test_those_behind_do_not_wait(tiny: Checkpoint) -> None:
    """A short prompt behind one that joins is admitted at once."""
    engine = make_engine(tiny, max_step_tokens=32, page_size=8)
    requests = [
        Request(0, prompt(40), GREEDY),
        Request(1, prompt(40), GREEDY),
        Request(2, prompt(5, 7), GREEDY),
    ]
    for request in requests:
        engine.submit(request)
    engine.step()
    engine.step()
    assert requests[1].allocation is None
    assert requests[2].allocation is not None
    run(engine, [])


def test_joined_request_goes_on_when_the_other_is_cancelled(tiny: Checkpoint) -> None:
    """What the cancelled one computed is kept; the rest the waiting one computes itself."""
    engine = make_engine(tiny, max_step_tokens=16, page_size=8)

    def cancel(step: int) -> None:
        if step == 3:
            engine.cancel(0)

    requests = [Request(i, prompt(100), GREEDY) for i in range(2)]
    outcomes = run(engine, requests, before_step=cancel)
    assert outcomes[0].finish is FinishReason.CANCELLED
    usage = outcomes[1].usage
    assert usage is not None
    assert usage.cached_tokens == requests[0].num_computed > 40
    assert outcomes[1].tokens == answer(make_engine(tiny, prefix_cache=False), prompt(100)).tokens


def test_nobody_waits_for_a_lower_priority(tiny: Checkpoint) -> None:
    """It goes first and computes the rest itself, for the other might be preempted for others."""
    engine = make_engine(tiny, max_step_tokens=16, page_size=8)
    engine.submit(Request(0, prompt(100), GREEDY))
    engine.step()
    urgent = Request(1, prompt(100), GREEDY, priority=1)
    engine.submit(urgent)
    engine.step()
    assert urgent.num_cached is not None
    assert 0 < urgent.num_cached < 17
    run(engine, [])


def test_wait_is_bounded(tiny: Checkpoint) -> None:
    """Another that makes no progress is waited for during MAX_JOIN_STEPS steps, then no more."""
    engine = make_engine(tiny, max_step_tokens=16, page_size=8)
    scheduler, waiting = engine.scheduler, Request(1, prompt(400), GREEDY)
    engine.submit(Request(0, prompt(400), GREEDY))
    engine.submit(waiting)
    engine.step()
    for _ in range(MAX_JOIN_STEPS):
        assert scheduler._had_better_wait(waiting)
        scheduler.stats.steps += 1
    assert not scheduler._had_better_wait(waiting)
    run(engine, [])


@pytest.mark.parametrize(("cache", "namespaces"), [(False, [b"", b""]), (True, [b"a", b"b"])])
def test_nobody_waits_for_what_cannot_be_shared(
    tiny: Checkpoint, cache: bool, namespaces: list[bytes]
) -> None:
    """Without a cache, or in another namespace, equal prompts run side by side."""
    engine = make_engine(tiny, max_step_tokens=200, page_size=8, prefix_cache=cache)
    requests = [Request(i, prompt(90), GREEDY, namespace=name) for i, name in enumerate(namespaces)]
    for request in requests:
        engine.submit(request)
    engine.step()
    assert all(request.allocation is not None for request in requests)
    run(engine, [])
