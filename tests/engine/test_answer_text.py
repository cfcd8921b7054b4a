"""The text of an answer: whole characters, nothing of a stop string, nothing held for long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixchat.engine.answer_text import AnswerText
from radixchat.engine.decode_stream import DecodeStream
from radixchat.engine.tokenizer import Tokenizer
from radixchat.tests.engine.small_tokenizers import TOKENIZERS
from radixchat.tests.engine.vocabularies import (
    SENTENCES,
)

# Characters of one to four bytes, U+FFFD, and what joins emoji.
ALPHABET = "ab \n\u05d0ď猫👍\u200d\ufffd"
BYTES = st.one_of(
    st.text(alphabet=ALPHABET, max_size=4).map(str.encode),
    st.binary(max_size=3),  # broken characters
    st.sampled_from([b"", b"\xf0\x9f", b"\xe7\x8c", b"\xab", b"\x91\x8d"]),  # parts of characters
)
CHUNKS = st.lists(BYTES, max_size=12)
STOPS = st.lists(st.text(alphabet=ALPHABET, min_size=1, max_size=4), max_size=4)


@dataclass(frozen=True, slots=True)
class Reference:
    """An answer's text by its definition, from all of its tokens at once."""

    chunks: Sequence[bytes]
    stops: Sequence[str]
    min_tokens: int = 0

    def whole(self) -> int:
        """How many characters the first `min_tokens` tokens have or begin: not searched."""
        return len(b"".join(self.chunks[: self.min_tokens]).decode(errors="replace"))

    def cut(self, text: str) -> tuple[str, str | None]:
        """The text up to the first stop string that is complete, and which that is."""
        places = ((text.find(stop, self.whole()), stop) for stop in self.stops)
        ends = [(at + len(stop), at, stop) for at, stop in places if at >= 0]
        if not ends:
            return text, None
        _, at, stop = min(ends)
        return text[:at], stop

    def text(self) -> tuple[str, str | None]:
        """What is shown in the end."""
        return self.cut(b"".join(self.chunks).decode(errors="replace"))

    def kept(self, shown: str) -> int:
        """The most leading tokens that are whole characters, all of them shown."""
        counts = range(len(self.chunks), -1, -1)
        heads = ((n, b"".join(self.chunks[:n])) for n in counts)
        return next(
            n
            for n, head in heads
            if not _ends_within(head) and len(head.decode(errors="replace")) <= len(shown)
        )


def _ends_within(data: bytes) -> bool:
    """Whether the data ends with the beginning of a character."""
    stream = DecodeStream([data], skip_space=False)
    stream.push(0)
    return stream.finish() != ""


def answer(
    chunks: Sequence[bytes], *stop: str, min_tokens: int = 0
) -> tuple[AnswerText, list[str]]:
    """Tokens that stand for `chunks`, one by one: what is shown with each, and at the end."""
    text = AnswerText(DecodeStream(chunks, skip_space=False), stop, min_tokens)
    shown = [text.push(token) for token in range(len(chunks))]
    return text, [*shown, text.finish()]


@settings(deadline=None, max_examples=400)
@given(chunks=CHUNKS, stops=STOPS, min_tokens=st.integers(0, 4))
def test_any_stop_strings_under_any_chunking_cut_as_in_the_whole_text(
    chunks: list[bytes], stops: list[str], min_tokens: int
) -> None:
    """The deltas join to the offline answer, and as many tokens are kept as fit in it."""
    reference = Reference(chunks, stops, min_tokens)
    text, deltas = answer(chunks, *stops, min_tokens=min_tokens)
    shown, stop = reference.text()
    assert ("".join(deltas), text.stopped_by) == (shown, stop)
    assert text.num_kept == (len(chunks) if stop is None else reference.kept(shown))


@settings(deadline=None, max_examples=200)
@given(chunks=CHUNKS, stops=STOPS, more=STOPS)
def test_what_is_shown_early_is_final_and_what_is_held_back_has_a_reason(
    chunks: list[bytes], stops: list[str], more: list[str]
) -> None:
    """At every token: certain whatever comes, all of the rest may be a stop string's beginning."""
    text = AnswerText(DecodeStream(chunks, skip_space=False), tuple(stops))
    shown = ""
    for token, chunk in enumerate(chunks):
        shown += text.push(token)
        reference = Reference(chunks[: token + 1], stops)
        final, stop = reference.text()
        assert final.startswith(shown)
        assert text.num_kept == reference.kept(shown)
        if stop is None and not _ends_within(b"".join(chunks[: token + 1])):
            held = final[len(shown) :]
            assert not held or any(s.startswith(held) and s != held for s in stops), chunk


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@settings(deadline=None)
@given(data=st.data())
def test_any_ids_join_to_their_decoding_at_every_cut(
    tokenizer: Tokenizer, data: st.DataObject
) -> None:
    """Nonsense of a real vocabulary, ended anywhere: the decoding of all ids, all of them kept."""
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size + 3), max_size=20))
    text = AnswerText(tokenizer.stream())
    shown = "".join(text.push(token) for token in ids)
    final = shown + text.copy().finish()
    assert final == tokenizer.decode(ids)
    assert final.startswith(tokenizer.decode(ids[: text.num_kept]))
    assert shown + text.finish() == final
    assert text.num_kept == len(ids)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@settings(deadline=None)
@given(data=st.data())
def test_stop_strings_taken_from_a_text_end_it_there(
    tokenizer: Tokenizer, data: st.DataObject
) -> None:
    """A piece of real text, over any number of tokens; the tokens kept decode to its beginning."""
    sentence = data.draw(st.sampled_from(SENTENCES))
    begin = data.draw(st.integers(0, len(sentence) - 1))
    stop = sentence[begin : begin + data.draw(st.integers(1, 12))]
    ids = tokenizer.encode(sentence)
    text = AnswerText(tokenizer.stream(), (stop,))
    shown = "".join(text.push(token) for token in ids) + text.finish()
    assert text.stopped_by == stop
    assert shown == sentence[: sentence.index(stop)]
    assert shown.startswith(tokenizer.decode(ids[: text.num_kept]))
    assert not shown.startswith(tokenizer.decode(ids[: text.num_kept + 1]))


def test_half_a_stop_string_is_not_shown_before_it_is_certain() -> None:
    """A stop over two tokens never shows its first half; text that only looked like it comes."""
    assert answer([b"Hi.", b"\nUser", b":", b" no"], "\nUser:")[1] == ["Hi.", "", "", "", ""]
    assert answer([b"Hi.", b"\nUser", b"s"], "\nUser:")[1] == ["Hi.", "", "\nUsers", ""]


def test_a_stop_over_many_tokens_leaves_out_all_of_them() -> None:
    """Also one that begins within a token: that token is not kept, its first half is shown."""
    text, deltas = answer([b"a", b"lpha be", b"ta", b" ", b"gam", b"ma ray"], "beta gamma")
    assert "".join(deltas) == "alpha "
    assert (text.stopped_by, text.num_kept) == ("beta gamma", 1)


def test_only_what_may_be_a_stop_string_is_held_back() -> None:
    """Not as many characters as the longest has: the longest end that begins one."""
    deltas = answer([b"one ", b"two <", b"/x> <", b"/"], "</answer>")[1]
    assert deltas == ["one ", "two ", "</x> ", "", "</"]


def test_a_stop_string_ends_at_half_an_emoji_only_when_it_is_whole() -> None:
    """Bytes of a stop string's character, token by token."""
    text, deltas = answer([b"ok", b"\xf0\x9f", b"\x91", b"\x8d", b"!"], "👍")
    assert "".join(deltas) == "ok"
    assert (text.stopped_by, text.num_kept) == ("👍", 1)
    assert answer([b"ok", b"\xf0\x9f", b"\x91", b"\x8e", b"!"], "👍")[1][3:] == ["👎", "!", ""]


def test_the_end_within_a_character_is_flushed_once_and_through_the_same_filter() -> None:
    """A limit that cuts an emoji shows one U+FFFD; a stop string of it is still not shown."""
    text, deltas = answer([b"ok", b"\xf0\x9f\x91"])
    assert (deltas, text.num_kept) == (["ok", "", "\ufffd"], 2)
    text, deltas = answer([b"ok", b"\xf0\x9f\x91"], "k\ufffd")
    assert ("".join(deltas), text.stopped_by, text.num_kept) == ("o", "k\ufffd", 0)


def test_what_was_held_back_is_shown_at_the_end() -> None:
    """An answer that ends within a stop string says what it has said."""
    text, deltas = answer([b"x", b"END"], "END.")
    assert (deltas, text.stopped_by, text.num_kept) == (["x", "", "END"], None, 2)


def test_no_stop_string_is_looked_for_in_the_first_tokens() -> None:
    """Not in their text, not in a character that they begin, and not across their end."""
    assert answer([b"a.", b"b.", b"c"], ".", min_tokens=1)[1] == ["a.", "b", "", ""]
    assert answer([b"a", b"bc"], "ab", min_tokens=1)[1] == ["a", "bc", ""]
    half, rest = "👍".encode()[:2], "👍".encode()[2:]
    assert answer([half, rest, "👍".encode()], "👍", min_tokens=1)[1] == ["", "👍", "", ""]


def test_nothing_is_shown_or_counted_after_the_stop_string() -> None:
    """Tokens that come nevertheless change nothing."""
    text, deltas = answer([b"a", b"STOP", b"b", b"STOP"], "STOP")
    assert deltas == ["a", "", "", "", ""]
    assert text.num_kept == 1


def test_a_copy_goes_its_own_way() -> None:
    """Two answers from one beginning: within a character, and within a stop string."""
    chunks = [b"END\xf0\x9f", b"\x91\x8d", b"\x91\x8e"]
    text = AnswerText(DecodeStream(chunks, skip_space=False), ("END👍",))
    text.push(0)
    other = text.copy()
    assert (other.push(1), other.stopped_by, other.num_kept) == ("", "END👍", 0)
    assert (text.push(2), text.stopped_by, text.num_kept) == ("END👎", None, 2)

    chunks = [b"EN", b"D!", b"x"]
    text = AnswerText(DecodeStream(chunks, skip_space=False), ("END.", "D!."))
    text.push(0)
    other = text.copy()
    assert (other.push(2), other.num_kept) == ("ENx", 2)
    assert (text.push(1), text.num_kept) == ("EN", 1)
