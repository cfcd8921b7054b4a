"""Calls in the text of an answer, in whatever pieces it comes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixchat.server.tool_text import CallPart, TextPart, ToolText

NAMES = {"weather", "noop"}
ARGUMENTS = '{"city": "Ro\\"}{me", "deep": {"a": "\\\\"}}'
CALL = f'<tool_call>\n{{"name": "weather", "arguments": {ARGUMENTS}}}\n</tool_call>'
LISTED = (
    '<tool_call>[{"name":"noop","arguments":{}},{"arguments":{"x":1},"name":"weather"}]</tool_call>'
)
OTHER = '<tool_call>{"name":"other","arguments":{}}</tool_call>'
Called = list[tuple[str, str]]


# An answer, its content (None: all of it), its calls.
CASES: tuple[tuple[str, str | None, Called], ...] = (
    ("plain text\n", "plain text\n", []),
    ("", "", []),
    (f"Let me see.\n{CALL}", "Let me see.", [("weather", ARGUMENTS)]),
    (LISTED, "", [("noop", "{}"), ("weather", '{"x": 1}')]),
    (
        f"{CALL}\n{LISTED}",
        "",
        [("weather", ARGUMENTS), ("noop", "{}"), ("weather", '{"x": 1}')],
    ),
    (f"see {OTHER} end ", f"see {OTHER} end ", []),
    (f"{CALL}\nbye\n", "\nbye", [("weather", ARGUMENTS)]),
    ("a <tool_ b < c <tool_call", "a <tool_ b < c <tool_call", []),
    ("a  <tool_call>not json</tool_call>", "a  <tool_call>not json</tool_call>", []),
    (CALL[:30], CALL[:30], []),
    (CALL[:60], "", [("weather", ARGUMENTS[: 60 - CALL.index(ARGUMENTS)])]),
    (CALL.removesuffix("</tool_call>"), "", [("weather", ARGUMENTS)]),
    (
        '<tool_call>{"name": "noop", "arguments": "{\\"a\\": 1}"}</tool_call>',
        "",
        [("noop", '{"a": 1}')],
    ),
    ('<tool_call>{"name": "noop"}</tool_call>', "", [("noop", "{}")]),
    ('<tool_call>{"name": ["noop"], "arguments": {}}</tool_call>', None, []),
)


def read(pieces: list[str], *, takes_one: bool = False) -> tuple[ToolText, list[object]]:
    """All pieces, and what was told of them."""
    text = ToolText(NAMES, takes_one=takes_one)
    parts: list[object] = []
    for piece in pieces:
        parts += text.push(piece)
    return text, [*parts, *text.finish()]


def cut(text: str, lengths: list[int]) -> list[str]:
    """The text in pieces of these lengths, and the rest."""
    pieces = []
    for length in lengths:
        pieces.append(text[:length])
        text = text[length:]
    return [*pieces, text]


@given(st.sampled_from(CASES), st.lists(st.integers(0, 9), max_size=60))
def test_the_pieces_do_not_matter(case: tuple[str, str | None, Called], lengths: list[int]) -> None:
    """Content and calls are the same; what was told, joined, is what there is in the end."""
    answer, content, called = case
    text, parts = read(cut(answer, lengths))
    assert text.content == (answer if content is None else content)
    assert [(call.name, call.arguments) for call in text.calls] == called
    assert "".join(part.text for part in parts if isinstance(part, TextPart)) == text.content
    told = ["" for _ in text.calls]
    for part in parts:
        if isinstance(part, CallPart):
            told[part.index] += part.arguments
    assert told == [call.arguments for call in text.calls]


@given(st.lists(st.sampled_from([*CALL, "<tool_call>", "</tool_call>", '{"name": "noop"', " "])))
def test_nothing_is_lost(pieces: list[str]) -> None:
    """Whatever a model writes: no failure, and without a call all of it is text."""
    text, _ = read(pieces)
    if not text.calls:
        assert text.content == "".join(pieces)


def test_a_name_is_told_before_the_arguments_are_complete() -> None:
    """The id and the name once, with the first part; then the arguments as they come."""
    text = ToolText(NAMES, takes_one=False)
    (begun,) = text.push('<tool_call>\n{"name": "weather", "arguments": {')[:1]
    assert isinstance(begun, CallPart)
    assert begun.name == "weather"
    assert begun.id is not None
    assert begun.id.startswith("call_")
    assert text.push('"city"') == [CallPart(0, '"city"')]


def test_text_is_told_at_once() -> None:
    """Only what may lead to a call waits."""
    text = ToolText(NAMES, takes_one=False)
    assert text.push("Hello") == [TextPart("Hello")]
    assert text.push(" world <b") == [TextPart(" world <b")]
    assert text.push(" and \n<tool") == [TextPart(" and")]
    assert text.push("s>") == [TextPart(" \n<tools>")]


def test_one_call_where_one_is_wanted() -> None:
    """Others are left out, and that is told."""
    text, _ = read([CALL, LISTED], takes_one=True)
    assert [call.name for call in text.calls] == ["weather"]
    assert text.calls[0].arguments == ARGUMENTS
    assert text.dropped
    assert not read([CALL], takes_one=True)[0].dropped


@pytest.mark.parametrize("answer", [CALL, "text"])
def test_without_tools_all_is_text(answer: str) -> None:
    """Nothing is looked for, and nothing is held back."""
    text = ToolText((), takes_one=False)
    assert text.push(answer) == [TextPart(answer)]
    assert text.finish() == []


def test_arguments_are_json() -> None:
    """Of a whole call they can be read."""
    text, _ = read([CALL])
    assert json.loads(text.calls[0].arguments)["city"] == 'Ro"}{me'
