"""A request that goes on after an answer's beginning, and what is told of its prompt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from radixchat.engine.errors import PromptTooLong
from radixchat.engine.request import Progress, Request
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.weights import Checkpoint
from radixchat.tests.engine.driver import GREEDY, answer, make_engine

PROMPT = list(range(3, 40))
PENALISED = SamplingParams(
    temperature=1.0,
    seed=7,
    max_tokens=24,
    presence_penalty=0.5,
    frequency_penalty=0.5,
    repetition_penalty=1.2,
    min_tokens=8,
)


@pytest.mark.parametrize("sampling", [replace(GREEDY, max_tokens=24), PENALISED])
@pytest.mark.parametrize("kept", [0, 1, 7, 23])
@pytest.mark.parametrize("warm", [False, True])
def test_a_resumed_answer_ends_as_the_whole(
    tiny: Checkpoint, sampling: SamplingParams, kept: int, warm: bool
) -> None:
    """From any token on, in the same engine or one that knows nothing of it."""
    first = make_engine(tiny)
    whole = answer(first, PROMPT, sampling, seed=sampling.seed).tokens
    request = Request(9, PROMPT.copy(), sampling)
    request.resume(whole[:kept])
    engine = first if warm else make_engine(tiny)
    engine.submit(request)
    events = []
    while engine.has_work:
        events += engine.step()
    assert whole[:kept] + [event.token for event in events] == whole
    usage = events[-1].usage
    assert usage is not None
    assert usage.output_tokens == len(whole)
    assert (usage.cached_tokens > 0) is warm
    assert usage.cached_tokens <= len(PROMPT) - 1
    engine.cache.check()


def test_no_room_for_what_is_resumed(tiny: Checkpoint) -> None:
    """Prompt and answer have to fit, and one token more; else it would wait for ever."""
    engine = make_engine(tiny)
    request = Request(1, PROMPT.copy(), GREEDY)
    request.resume([5] * (engine.plan.max_tokens - len(PROMPT)))
    with pytest.raises(PromptTooLong):
        engine.submit(request)


def test_progress_is_told_to_who_asks(tiny: Checkpoint) -> None:
    """An event a chunk, up to the prompt's end; and none to others."""
    engine = make_engine(tiny, max_step_tokens=16)
    request = Request(1, list(range(3, 53)), GREEDY, wants_progress=True)
    other = Request(2, list(range(60, 100)), GREEDY)
    engine.submit(request, other)
    events = []
    while engine.has_work:
        events += engine.step()
    told = [event for event in events if event.progress is not None]
    assert all(event.request_id == 1 and event.token is None for event in told)
    steps = [event.progress for event in told]
    assert steps[-1] == Progress(0, 50)
    assert len(steps) > 2
    processed = [step.processed for step in steps if step is not None]
    assert processed == sorted(set(processed))
    again = Request(3, list(range(3, 53)), GREEDY, wants_progress=True)
    engine.submit(again)
    (found, *_) = engine.step()
    assert found.progress == Progress(49, 50)
