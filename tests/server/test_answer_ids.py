"""The tokens of a shown text: they decode to it, and are the sampled ones as far as can be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixchat.engine.answer_text import AnswerText
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.answer_ids import answer_ids
from radixchat.tests.engine.small_tokenizers import BYTE_LEVEL, SENTENCEPIECE, TOKENIZERS
from radixchat.tests.engine.vocabularies import (
    SENTENCES,
)


def ids_of(text: AnswerText, tokenizer: Tokenizer, ids: Sequence[int], shown: str) -> list[int]:
    """The ids of what an answer has shown."""
    kept = ids[: text.num_kept]
    return list(answer_ids(tokenizer, kept, shown, text.num_kept_characters))


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
    text, shown = AnswerText(tokenizer.stream(), stop), ""
    for token in ids:
        shown += text.push(token)
        assert tokenizer.decode(ids_of(text, tokenizer, ids, shown)) == shown
    shown += text.finish()
    stored = ids_of(text, tokenizer, ids, shown)
    assert tokenizer.decode(stored) == shown
    assert stored[: text.num_kept] == ids[: text.num_kept]


def test_the_first_part_of_a_token_is_encoded() -> None:
    """ "Hel" of the token "Hello": the tokens before it are kept as they were sampled."""
    ids = BYTE_LEVEL.encode("Hello there, how")
    whole = [BYTE_LEVEL.decode([token]) for token in ids]
    straddled = next(n for n, text in enumerate(whole) if n and len(text) > 2)
    shown = "".join(whole[:straddled]) + whole[straddled][:2]
    length = len("".join(whole[:straddled]))
    found = answer_ids(BYTE_LEVEL, ids[:straddled], shown, length)
    assert found[:straddled] == tuple(ids[:straddled])
    assert BYTE_LEVEL.decode(found[straddled:]) == whole[straddled][:2]


@pytest.mark.parametrize("space", ["  ", "    "])
def test_spaces_that_no_text_begins_with_leave_the_tokens_before_them(space: str) -> None:
    """SentencePiece writes them as one token with a line, and by themselves with a space more."""
    tokenizer = SENTENCEPIECE
    letter = tokenizer.token_bytes.index(b"a")
    ids = answer_ids(tokenizer, [letter], f"a{space}", 1)
    assert ids[0] == letter
    assert tokenizer.decode(ids) == f"a{space}"


def test_a_text_that_ends_within_a_character_has_all_its_tokens() -> None:
    """A limit in an emoji: U+FFFD was shown, and the bytes stay what they were."""
    whole = BYTE_LEVEL.encode("ok 👍")
    for count in range(1, len(whole) + 1):
        text = AnswerText(BYTE_LEVEL.stream())
        shown = "".join([text.push(token) for token in whole[:count]])
        before = ids_of(text, BYTE_LEVEL, whole, shown)
        assert BYTE_LEVEL.decode(before) == shown
        shown += text.finish()
        assert ids_of(text, BYTE_LEVEL, whole[:count], shown) == whole[:count]
