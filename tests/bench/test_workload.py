"""The generated chat workload is what it says: repeatable, ordered, and each prompt a history."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from radixchat.bench.trace_item import TraceRequest, TraceSignal
from radixchat.bench.workload import ChatWorkload
from radixchat.bench.workload_habits import NUM_SYSTEM_PROMPTS
from radixchat.radix.use import Signal

Item = TraceRequest | TraceSignal


def requests_of(workload: ChatWorkload) -> list[TraceRequest]:
    return [item for item in workload if isinstance(item, TraceRequest)]


def common(first: NDArray[np.int32], second: NDArray[np.int32]) -> int:
    """Leading tokens that two paths share."""
    length = min(len(first), len(second))
    different = np.flatnonzero(first[:length] != second[:length])
    return int(different[0]) if len(different) else length


def written(item: Item) -> tuple[object, ...]:
    if isinstance(item, TraceSignal):
        return (item.time, item.conversation, item.signal)
    texts = (item.prompt.tobytes(), item.output.tobytes())
    return (item.time, item.conversation, item.turn, item.superseded, *texts)


def test_a_seed_gives_one_workload() -> None:
    """Iterating again, and another object of the same seed, give the same to the token."""
    workload = ChatWorkload(3, 40)
    first = [written(item) for item in workload]
    assert first == [written(item) for item in workload]
    assert first == [written(item) for item in ChatWorkload(3, 40)]
    assert first != [written(item) for item in ChatWorkload(4, 40)]


def test_a_conversation_depends_on_no_other() -> None:
    """With more conversations the first ones stay what they were."""
    few = {written(item) for item in ChatWorkload(0, 10)}
    assert few < {written(item) for item in ChatWorkload(0, 30)}


@pytest.mark.parametrize("shift", [False, True])
def test_everything_is_in_time_order(shift: bool) -> None:
    """Across conversations, whatever they do; and conversations do interleave."""
    items = list(ChatWorkload(1, 200, shift=shift))
    times = [item.time for item in items]
    assert times == sorted(times)
    assert times[0] > 0
    switches = sum(one.conversation != two.conversation for one, two in pairwise(items))
    assert switches > len(items) / 2


def test_each_prompt_continues_its_conversation() -> None:
    """Turn n + 1 begins with turn n's prompt and reply, or says from where on it replaces them."""
    shown: dict[str, TraceRequest] = {}
    kinds: Counter[str] = Counter()
    for request in requests_of(ChatWorkload(2, 300)):
        assert request.conversation is not None
        assert request.num_tokens == len(request.prompt)
        assert request.prompt.dtype == request.output.dtype == np.int32
        before = shown.get(request.conversation)
        shown[request.conversation] = request
        if before is None:
            assert (request.turn, request.superseded) == (1, None)
            continue
        path = np.concatenate((before.prompt, before.output))
        if request.superseded is None:
            assert request.turn == before.turn + 1
            assert common(path, request.prompt) == len(path) < len(request.prompt)
            kinds["next"] += 1
        elif request.superseded == len(request.prompt) == len(before.prompt):
            assert request.turn == before.turn
            assert np.array_equal(request.prompt, before.prompt)
            kinds["regenerated"] += 1
        else:
            assert common(path, request.prompt) == request.superseded < len(path)
            kinds["edited" if request.turn <= before.turn else "switched back"] += 1
    assert kinds["next"] > 5 * kinds["regenerated"] > 0
    assert kinds["edited"] > 0
    assert kinds["switched back"] > 0


def test_who_goes_back_to_a_branch_finds_it_whole() -> None:
    """A turn after switching back begins with a path that its conversation had before."""
    paths: dict[str, list[NDArray[np.int32]]] = {}
    found = 0
    for request in requests_of(ChatWorkload(2, 300)):
        earlier = paths.setdefault(request.conversation or "", [])
        if request.turn > 1:
            whole = [common(path, request.prompt) == len(path) for path in earlier]
            found += any(whole) and not whole[-1]
        earlier.append(np.concatenate((request.prompt, request.output)))
    assert found > 0


def test_conversations_share_the_few_system_prompts_and_nothing_else() -> None:
    """The shared head of any two first prompts is a whole system prompt or nothing."""
    asked = reversed(requests_of(ChatWorkload(0, 60)))
    first = list({request.conversation: request.prompt for request in asked}.values())
    shared = {common(one, two) for i, one in enumerate(first) for two in first[:i]}
    assert 0 in shared
    assert 2 < len(shared) <= 1 + NUM_SYSTEM_PROMPTS
    popular = Counter(prompt[0] for prompt in first).most_common(1)[0][1]
    assert popular > len(first) / 5


def test_a_client_tells_a_consistent_story() -> None:
    """Nobody types in a hidden or broken window, and no signal repeats the one before."""
    state: dict[str, Signal] = {}
    seen: Counter[Signal] = Counter()
    for item in ChatWorkload(5, 400):
        if isinstance(item, TraceRequest):
            assert state[item.conversation or ""] is Signal.CONNECTED
        elif item.signal is Signal.TYPING:
            assert state[item.conversation] is Signal.CONNECTED
            seen[item.signal] += 1
        else:
            assert state.get(item.conversation) is not item.signal
            state[item.conversation] = item.signal
            seen[item.signal] += 1
    assert set(seen) == {
        Signal.CONNECTED,
        Signal.AWAY,
        Signal.DISCONNECTED,
        Signal.TYPING,
        Signal.CLOSED,
    }


def test_signals_are_no_oracle() -> None:
    """Some closed conversations come back, many never close, and some typing comes to nothing."""
    closed: set[str] = set()
    typing: dict[str, float] = {}
    reopened = dropped = 0
    names = set()
    for item in ChatWorkload(6, 2000):
        name = item.conversation or ""
        names.add(name)
        if isinstance(item, TraceRequest):
            reopened += name in closed
            closed.discard(name)
            typing.pop(name, None)
        elif item.signal is Signal.CLOSED:
            closed.add(name)
        elif item.signal is Signal.TYPING:
            dropped += name in typing
            typing[name] = item.time
    assert reopened > 0
    assert dropped + len(typing) > 100
    assert 0.4 < len(closed) / len(names) < 0.6


def test_habits_shift_by_the_hour() -> None:
    """With shift, conversations that begin in an odd hour have other lengths than without."""
    plain, shifted = ChatWorkload(0, 600), ChatWorkload(0, 600, shift=True)
    assert shifted.name == "chat-shift"

    def turns(workload: ChatWorkload) -> dict[str, int]:
        return {request.conversation or "": request.turn for request in requests_of(workload)}

    assert turns(plain) != turns(shifted)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed is -1"),
        ({"seed": 0, "conversations": 0}, "conversations is 0"),
        ({"seed": 0, "lengths": "novel"}, "'novel'; it must be one of chat, sharegpt"),
    ],
)
def test_an_impossible_workload_is_refused(arguments: dict[str, object], message: str) -> None:
    """At once, with the value."""
    with pytest.raises(ValueError, match=message):
        ChatWorkload(**arguments)  # type: ignore[arg-type]  # the wrong ones are the point
