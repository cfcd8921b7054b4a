"""The index of what was said: exact, bounded, and what is looked for stays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from radixchat.engine.prompt import ChatMessage, ToolCall
from radixchat.server.message_index import (
    ENTRY_BYTES,
    MessageIndex,
    next_key,
    prompt_key,
    start_key,
)

START = start_key([])


def key_of(*texts: str) -> bytes:
    key = START
    for number, text in enumerate(texts):
        key = next_key(key, ChatMessage(("user", "assistant")[number % 2], text))
    return key


def test_what_was_added_is_found() -> None:
    """A beginning with its parent's ids and its own; another text is another key."""
    index = MessageIndex()
    index.add(key_of("a"), [1, 2])
    index.add(key_of("a", "b"), [1, 2, 3], key_of("a"))
    assert index.find(key_of("a", "b")) == (1, 2, 3)
    assert index.find(key_of("a")) == (1, 2)
    assert index.find(key_of("a", "c")) is None
    assert index.find(key_of("b")) is None


def test_ids_of_a_parent_that_has_others_are_kept_whole() -> None:
    """A parent may be gone or stand for other ids: the entry is right all the same."""
    index = MessageIndex()
    index.add(key_of("a"), [1, 2])
    index.add(key_of("a", "b"), [7, 8, 9], key_of("a"))
    index.add(key_of("a", "c"), [1, 2, 5], key_of("nobody"))
    assert index.find(key_of("a", "b")) == (7, 8, 9)
    assert index.find(key_of("a", "c")) == (1, 2, 5)


def test_what_is_known_stays() -> None:
    """A second answer of the same text does not change what follows the first."""
    index = MessageIndex()
    index.add(key_of("a"), [1])
    index.add(key_of("a", "b"), [1, 2], key_of("a"))
    index.add(key_of("a"), [9])
    assert index.find(key_of("a", "b")) == (1, 2)


def test_a_conversation_costs_what_is_new() -> None:
    """A turn's bytes do not grow with what was said before."""
    index, ids, texts = MessageIndex(), list[int](), list[str]()
    for turn in range(50):
        parent = key_of(*texts) if texts else None
        texts.append(f"turn {turn}")
        ids += range(100)
        index.add(key_of(*texts), ids, parent)
    assert index.num_bytes == 50 * (ENTRY_BYTES + 400)
    assert index.find(key_of(*texts)) == tuple(ids)


def test_one_that_is_too_large_is_not_kept() -> None:
    """It would push everything out, itself included."""
    index = MessageIndex(max_bytes=2 * ENTRY_BYTES)
    index.add(key_of("a"), [1])
    index.add(key_of("b"), range(1000))
    assert index.find(key_of("b")) is None
    assert index.find(key_of("a")) == (1,)


def test_what_was_not_looked_for_longest_goes_first() -> None:
    """And a beginning outlives what follows it."""
    index = MessageIndex(max_bytes=3 * (ENTRY_BYTES + 8))
    index.add(key_of("a"), [1])
    index.add(key_of("a", "b"), [1, 2], key_of("a"))
    index.add(key_of("c"), [3])
    assert index.find(key_of("a", "b")) == (1, 2)
    index.add(key_of("d"), [4])
    assert index.find(key_of("c")) is None
    index.add(key_of("e"), [5])
    assert index.find(key_of("a", "b")) is None
    assert index.find(key_of("a")) == (1,)


@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from("abc"), min_size=1, max_size=5), st.integers(1, 40)),
        max_size=40,
    ),
    st.integers(1, 8),
)
def test_it_is_right_or_silent(calls: list[tuple[list[str], int]], room: int) -> None:
    """Whatever is added in whatever order: bounded, and never other ids than were added."""
    index, added = MessageIndex(max_bytes=room * (ENTRY_BYTES + 100)), dict[bytes, set[object]]()
    for texts, length in calls:
        ids = tuple(range(length))
        for number in range(1, len(texts) + 1):
            key, whole = key_of(*texts[:number]), ids[: max(1, length * number // len(texts))]
            index.add(key, whole, key_of(*texts[: number - 1]) if number > 1 else None)
            added.setdefault(key, set()).add(whole)
            found = index.find(key)
            assert found is None or found in added[key]
            assert index.num_bytes <= room * (ENTRY_BYTES + 100)
    total = 0
    for key, candidates in added.items():
        found = index.find(key)
        assert found is None or found in candidates
        total += found is not None
    assert total == len(index)


def test_a_call_is_what_it_calls() -> None:
    """Its id, and how its arguments are spaced and ordered, make no other key."""

    def called(id_: str, arguments: str) -> bytes:
        call = ToolCall(id_, "f", arguments)
        return next_key(START, ChatMessage("assistant", "", (call,)))

    assert called("1", '{"a": 1, "b": [2]}') == called("2", '{"b":[2],"a":1}')
    assert called("1", '{"a": 1}') != called("1", '{"a": 2}')
    assert called("1", "no json") != called("1", "no  json")
    assert called("1", "{}") != next_key(START, ChatMessage("assistant", ""))


def test_parts_do_not_run_together() -> None:
    """Neither across messages nor within one; a prompt is no message; half characters are fine."""
    one = next_key(next_key(START, ChatMessage("user", "ab")), ChatMessage("user", "c"))
    other = next_key(next_key(START, ChatMessage("user", "a")), ChatMessage("user", "bc"))
    keys = {
        one,
        other,
        next_key(START, ChatMessage("usera", "b")),
        next_key(START, ChatMessage("user", "ab")),
        prompt_key(START),
        start_key([{"x": 1}]),
        next_key(START, ChatMessage("user", "\ud800")),
        next_key(START, ChatMessage("tool", "ab", tool_call_id="c")),
        next_key(START, ChatMessage("tool", "ab")),
        START,
    }
    assert len(keys) == 10
