"""The words of a text as full-text search sees them, and of a question as it asks for them.

SQLite's tokenizer ends a word at a space or a mark. Scripts that are written without spaces would
be one word a sentence, so each of their characters is made one: a word of theirs is then found as
the phrase of its characters. Knows no database.

What was indexed is taken out by giving the same text again: a change of `searchable_text` needs a
migration that fills the index anew.
"""

from __future__ import annotations

import re

from radixchat.engine.errors import InvalidRequest
from radixchat.server.message import check_text

MAX_QUERY = 1000

# Thai and Lao, Myanmar, Khmer, then from the CJK radicals over kana to the ideographs, and these
# again where Unicode had no room left.
UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff])"
)
_PART = re.compile(r'"([^"]*)"|(\S+)')


def searchable_text(text: str) -> str:
    """What is indexed for a text. A NUL would end it there."""
    return UNSPACED.sub(r" \1 ", text.replace("\0", " "))


def search_terms(query: str) -> list[str]:
    """The words and "quoted phrases" of a query, all of which have to be found.

    Those without a letter or a digit are nothing to look for. Raises InvalidRequest for a query
    that is too long or not valid Unicode.
    """
    check_text("the query", query)
    if len(query) > MAX_QUERY:
        raise InvalidRequest(f"the query has {len(query)} characters; at most {MAX_QUERY} will do")
    parts = (phrase or word for phrase, word in _PART.findall(query.replace("\0", " ")))
    terms = (" ".join(part.replace('"', " ").split()) for part in parts)
    return [term for term in terms if any(map(str.isalnum, term))]


def match_expression(terms: list[str]) -> str:
    """The terms in FTS5's own language: each a quoted string, and a beginning of a word will do.

    Quoted, nothing in it is an operator.
    """
    return " ".join(f'"{searchable_text(term)}"*' for term in terms)
