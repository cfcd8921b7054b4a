"""The tokens of a shown text: they decode to it, and are the sampled ones as far as can be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixchat.engine.answer_text import AnswerText
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.answer_ids import AnswerIds
from radixchat.tests.engine.vocabularies import (
    SENTENCES,
    byte_level_fields,
    sentencepiece_fields,
)

BYTE_LEVEL = Tokenizer.from_gguf(byte_level_fields())
SENTENCEPIECE = Tokenizer.from_gguf(sentencepiece_fields())
TOKENIZERS = [
    pytest.param(BYTE_LEVEL, id="byte-level"),
    pytest.param(SENTENCEPIECE, id="sentencepiece"),
]


def answer_ids(
    tokenizer: Tokenizer, sampled: Sequence[int], text: str, num_kept: int | None = None
) -> tuple[int, ...]:
    """The ids of `text`, all of it shown at once, after all tokens."""
    ids = AnswerIds(tokenizer)
    for token in sampled:
        ids.push(token)
    return ids.of(text, num_kept)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@settings(deadline=None)
@given(data=st.data())
def test_the_ids_decode_to_the_text_wherever_a_stop_string_cuts(
    tokenizer: Tokenizer, data: st.DataObject
) -> None:
    """Real text or any ids, cut at any character: decode(ids) is the text, its head as sampled."""
    ids = data.draw(
        st.one_of(
            st.sampled_from(SENTENCES).map(tokenizer.encode),
            st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=12),
        )
    )
    whole = tokenizer.decode(ids)
    cut = data.draw(st.integers(0, len(whole)))
    stop = (whole[cut:],) if cut < len(whole) else ()
    text, found, shown = AnswerText(tokenizer.stream(), stop), AnswerIds(tokenizer), ""
    for token in ids:
        shown += text.push(token)
        found.push(token)
        assert tokenizer.decode(found.of(shown)) == shown
    shown += text.finish()
    stored = found.of(shown, text.num_kept)
    assert tokenizer.decode(stored) == shown
    assert stored[: text.num_kept] == tuple(ids[: text.num_kept])
    assert answer_ids(tokenizer, ids, shown, text.num_kept) == stored


def test_a_stop_token_is_not_of_the_text() -> None:
    """It shows nothing, so only the count of kept tokens tells it from one that belongs there."""
    control = BYTE_LEVEL.control_tokens["<|im_end|>"]
    ids = BYTE_LEVEL.encode("ok")
    assert answer_ids(BYTE_LEVEL, [*ids, control], "ok", len(ids)) == tuple(ids)
    assert answer_ids(BYTE_LEVEL, [*ids, control], "ok") == (*ids, control)


def test_the_first_part_of_a_token_is_encoded() -> None:
    """ "Hel" of the token "Hello": the tokens before it are kept as they were sampled."""
    ids = BYTE_LEVEL.encode("Hello there, how")
    whole = [BYTE_LEVEL.decode([token]) for token in ids]
    straddled = next(n for n, text in enumerate(whole) if n and len(text) > 2)
    shown = "".join(whole[:straddled]) + whole[straddled][:2]
    found = answer_ids(BYTE_LEVEL, ids, shown)
    assert found[:straddled] == tuple(ids[:straddled])
    assert BYTE_LEVEL.decode(found[straddled:]) == whole[straddled][:2]


@pytest.mark.parametrize("space", ["  ", "    "])
def test_spaces_that_no_text_begins_with_leave_the_tokens_before_them(space: str) -> None:
    """SentencePiece writes them as one token with a line, and by themselves with a space more."""
    tokenizer, known = SENTENCEPIECE, SENTENCEPIECE.token_bytes
    letter = known.index(b"a")
    cut = next(id_ for id_, data in enumerate(known) if data.strip() and data[:4] == b"    ")
    ids = answer_ids(tokenizer, [letter, cut], f"a{space}")
    assert ids[0] == letter
    assert tokenizer.decode(ids) == f"a{space}"


def test_a_text_that_ends_within_a_character_has_all_its_tokens() -> None:
    """A limit in an emoji: U+FFFD was shown, and the bytes stay what they were."""
    ids = BYTE_LEVEL.encode("ok 👍")
    for count in range(1, len(ids) + 1):
        sampled = ids[:count]
        text = BYTE_LEVEL.decode(sampled)
        assert answer_ids(BYTE_LEVEL, sampled, text, count) == tuple(sampled)


def test_text_that_is_not_shown_yet_has_no_tokens_yet() -> None:
    """While a character or a stop string is incomplete, the ids are those of the text before."""
    emoji = BYTE_LEVEL.encode("👍")
    ids = [*BYTE_LEVEL.encode("ok"), *emoji[:-1]]
    assert answer_ids(BYTE_LEVEL, ids, "ok") == tuple(ids[: len(ids) - len(emoji) + 1])
    assert answer_ids(BYTE_LEVEL, ids, "") == ()
