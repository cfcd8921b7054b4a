"""Chats become requests: one a turn, in the order in which they take turns."""

from __future__ import annotations

from typing import Any

import pytest

from radixchat.bench.trace_chats import ChatReader, turn_ends
from radixchat.bench.trace_item import TraceError, TraceRequest
from radixchat.bench.trace_words import WordChat
from radixchat.engine.prompt import ChatMessage
from radixchat.tests.bench.traces import chat, trace_lines


def read(*lines: dict[str, Any], **settings: Any) -> list[TraceRequest]:
    return list(ChatReader(WordChat, **settings).read(trace_lines(*lines)))


def named(requests: list[TraceRequest]) -> list[tuple[str | None, int, float]]:
    return [(r.conversation, r.turn, r.time) for r in requests]


@pytest.mark.parametrize(
    ("roles", "turns"),
    [
        ("ua", [(1, "1")]),
        ("sua", [(2, "2")]),
        ("uaua", [(1, "1"), (3, "3")]),
        ("uau", [(1, "1"), (3, None)]),
        ("au", [(2, None)]),
        ("uuaa", [(2, "2")]),
        ("uata", [(1, "1"), (3, "3")]),
        ("usa", [(2, "2")]),
        ("sa", []),
        ("a", []),
        ("", []),
    ],
)
def test_a_turn_is_what_was_said_since_the_last_answer(
    roles: str, turns: list[tuple[int, str | None]]
) -> None:
    """With a user's or a tool's message in it; the answer is the message that follows."""
    full = {"u": "user", "a": "assistant", "s": "system", "t": "tool"}
    messages = [ChatMessage(full[role], str(n)) for n, role in enumerate(roles)]
    assert list(turn_ends(messages)) == turns


def test_each_prompt_extends_what_its_conversation_had() -> None:
    """Prompt and answer, to the token."""
    first, second, third = read({"messages": chat("a", "b", "c", "d", "e"), "conversation": "x"})
    for earlier, later in ((first, second), (second, third)):
        history = [*earlier.prompt, *earlier.output]
        assert list(later.prompt[: len(history)]) == history
        assert later.num_tokens == len(later.prompt)
    assert not len(third.output)
    assert named([first, second, third]) == [("x", 1, 0), ("x", 2, 1), ("x", 3, 2)]


def test_replies_can_be_left_out() -> None:
    """The prompts are the same."""
    line = {"messages": chat("a", "b", "c", "d")}
    kept, left = read(line), read(line, keep_replies=False)
    assert [list(r.prompt) for r in kept] == [list(r.prompt) for r in left]
    assert [len(r.output) for r in kept] == [2, 2]
    assert [len(r.output) for r in left] == [0, 0]


def test_a_chat_has_its_own_name_or_its_line() -> None:
    """A conversation's field first, then an id that can be one."""
    hi: dict[str, Any] = {"messages": chat("Hi")}
    requests = read(hi | {"session": 4, "id": "x"}, hi | {"id": 0}, hi | {"id": {"$oid": "f"}}, hi)
    assert [r.conversation for r in requests] == ["4", "0", "line 3", "line 4"]


def test_chats_can_take_turns() -> None:
    """Two at a time; a new one begins where another has ended, one without a question is none."""
    lines: list[dict[str, Any]] = [
        {"messages": chat("1", "", "2", "", "3"), "id": "a"},
        {"messages": chat("1", "", "2"), "id": "b"},
        {"messages": [], "id": "c"},
        {"messages": chat("1"), "id": "d"},
    ]
    alone, together = read(*lines), read(*lines, concurrency=2)
    assert [r.conversation for r in alone] == ["a", "a", "a", "b", "b", "d"]
    assert [r.conversation for r in together] == ["a", "b", "a", "b", "a", "d"]
    assert [r.time for r in together] == [0, 1, 2, 3, 4, 5]
    assert {p.prompt.tobytes() for p in alone} == {p.prompt.tobytes() for p in together}


def test_chats_that_ask_nothing_are_noted() -> None:
    """By their lines, once, however often the trace is read."""
    reader = ChatReader(WordChat)
    lines = trace_lines({"messages": []}, {"messages": chat("Hi")}, {"messages": chat("", "")[1:]})
    for _ in range(2):
        assert len(list(reader.read(lines))) == 1
        assert reader.quiet == {1, 3}


def test_chats_that_take_turns_never_go_back_in_time() -> None:
    """A later turn has no time of its own: it is served after what came before it."""
    lines = [
        {"messages": chat("1", "", "2"), "id": "a", "time": 100},
        {"messages": chat("1"), "id": "b", "time": 107},
    ]
    assert [r.time for r in read(*lines, concurrency=2)] == [0, 7, 7]
    assert [r.time for r in read(*lines)] == [0, 0, 7]


def test_only_the_last_turn_where_each_line_is_a_request() -> None:
    """The log of an API that is sent the whole chat each time."""
    lines = [{"messages": chat(*"abcde"[:count]), "session": "s"} for count in (1, 3, 5)]
    requests = read(*lines, last_turn=True)
    assert named(requests) == [("s", 1, 0), ("s", 2, 1), ("s", 3, 2)]
    whole = read(lines[-1])
    assert [list(r.prompt) for r in requests] == [list(r.prompt) for r in whole]


def test_a_damaged_chat_is_told_by_its_line() -> None:
    """Also while others take turns with it, after what came before."""
    lines = trace_lines(
        {"messages": chat("1", "", "2")}, {"messages": [{"role": "nobody", "content": ""}]}
    )
    requests = ChatReader(WordChat, concurrency=2).read(lines)
    assert next(requests).conversation == "line 1"
    with pytest.raises(TraceError, match=r'^t.jsonl:2: messages\[0\].role is "nobody"'):
        next(requests)
