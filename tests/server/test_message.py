"""Message ids, token ids as bytes, and text that cannot be stored."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixchat.engine.errors import InvalidRequest, StoreError
from radixchat.server.message import LeftOut, check_text, message_id, pack_ids, unpack_ids

CONTENT = {
    "parent": "msg_0",
    "role": "user",
    "text": "Hi",
    "token_ids": (1, 2),
    "absolute": False,
    "status": "complete",
    "render_hash": "r",
}


def an_id(**changes: object) -> str:
    return message_id(**{**CONTENT, **changes})  # type: ignore[arg-type]  # the point is to vary all


def test_id_is_pinned() -> None:
    """The id is blake2b-16 of this very JSON, and never changes: files hold it."""
    canonical = (
        b'{"absolute":false,"parent":"msg_0","render_hash":"r","role":"user",'
        b'"status":"complete","text":"Hi","token_ids":[1,2]}'
    )
    assert an_id() == f"msg_{hashlib.blake2b(canonical, digest_size=16).hexdigest()}"
    assert an_id() == "msg_03f7b092315d90aeeffc29151bdfd888"


def test_id_of_a_message_that_leaves_others_out_is_pinned() -> None:
    """It has one part more; where nothing is left out it is as it was before there was that."""
    canonical = (
        b'{"absolute":true,"left_out":[2,30],"parent":"msg_0","render_hash":"r","role":"user",'
        b'"status":"complete","text":"Hi","token_ids":[1,2]}'
    )
    digest = hashlib.blake2b(canonical, digest_size=16).hexdigest()
    assert an_id(absolute=True, left_out=LeftOut(2, 30)) == f"msg_{digest}"
    assert an_id(left_out=LeftOut(0, 0)) == an_id()


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("parent", None),
        ("role", "assistant"),
        ("text", "Hi "),
        ("token_ids", (12,)),
        ("absolute", True),
        ("status", "interrupted"),
        ("render_hash", "s"),
        ("left_out", LeftOut(2, 30)),
    ],
)
def test_id_depends_on(field: str, other: object) -> None:
    """Each part of the content makes another node."""
    assert an_id(**{field: other}) != an_id()


def test_id_parts_do_not_run_together() -> None:
    """Moving a character from one part to the next makes another node."""
    assert an_id(role="user", text="xHi") != an_id(role="userx", text="Hi")
    assert an_id(token_ids=(1, 23)) != an_id(token_ids=(12, 3))


@given(st.lists(st.integers(0, 2**31 - 1)))
def test_ids_round_trip(token_ids: list[int]) -> None:
    """Any token ids come back as they were, from four little-endian bytes each."""
    packed = pack_ids(token_ids)
    assert unpack_ids(packed) == tuple(token_ids)
    assert packed == b"".join(token.to_bytes(4, "little") for token in token_ids)


@pytest.mark.parametrize("wrong", [-1, 2**31])
def test_ids_out_of_range_are_refused(wrong: int) -> None:
    """An id that has no place in an int32 is refused, and shown."""
    with pytest.raises(InvalidRequest, match=rf"token id {wrong} is out of range"):
        pack_ids([5, wrong])


def test_damaged_ids_are_reported() -> None:
    """Bytes that are no whole number of ids are damage, not a crash."""
    with pytest.raises(StoreError, match="5 bytes"):
        unpack_ids(b"12345")


@given(st.text())
def test_text_without_surrogates_passes(text: str) -> None:
    """Any valid Unicode is left as it is, NUL and all planes included."""
    assert check_text("the message", text) is text


@pytest.mark.parametrize(
    "text", ["ab\ud800", "ab\udfff!", b"ab\xff".decode(errors="surrogateescape")]
)
def test_lone_surrogate_is_refused(text: str) -> None:
    """Half a character, and an undecodable byte, are refused with their place."""
    with pytest.raises(InvalidRequest, match=r"the message .* lone surrogate, U\+D.* character 2"):
        check_text("the message", text)
