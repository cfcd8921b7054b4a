"""Which words a text has, and what a query asks for."""

from __future__ import annotations

import pytest

from radixchat.engine.errors import InvalidRequest
from radixchat.server.store_words import (
    MAX_QUERY,
    match_expression,
    search_terms,
    searchable_text,
)


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("", []),
        ("  \t ?! \u00ab", []),
        ("one two", ["one", "two"]),
        ('say "good morning" now', ["say", "good morning", "now"]),
        ('"unclosed phrase', ["unclosed", "phrase"]),
        ('a""b "" c"d', ["a b", "c d"]),
        ("NEAR(a OR b) -c ^d text:e*", ["NEAR(a", "OR", "b)", "-c", "^d", "text:e*"]),
        ("a\0b", ["a", "b"]),
    ],
)
def test_terms(query: str, terms: list[str]) -> None:
    """Words and phrases; nothing is an operator."""
    assert search_terms(query) == terms


def test_refused_queries() -> None:
    """What is too long, or no text."""
    assert search_terms("a" * MAX_QUERY) == ["a" * MAX_QUERY]
    with pytest.raises(InvalidRequest, match=f"{MAX_QUERY + 1} characters"):
        search_terms("a" * (MAX_QUERY + 1))
    with pytest.raises(InvalidRequest, match="lone surrogate"):
        search_terms("\ud800")


def test_scripts_without_spaces() -> None:
    """Each character is a word, in the text and in the query."""
    assert searchable_text("a\u4f60\u597d\0b").split() == ["a", "\u4f60", "\u597d", "b"]
    assert match_expression(["\u4f60\u597d", "ab"]) == '" \u4f60  \u597d "* "ab"*'
