"""Conversations and found messages in lines."""

from __future__ import annotations

from dataclasses import replace

from rich.cells import cell_len

from radixchat.chat_cli.conversation_lists import conversation_lines, hit_line
from radixchat.server.protocol import ConversationView, SearchHit

FIRST = ConversationView(
    "conv_01ABCDEFGHJKMNPQRSTVWXYZ00", "first", None, None, 0.0, 86400.0 * 365, 1
)
SECOND = replace(
    FIRST, id="conv_01ABCDEFGHJKMNPQRSTVWXYZ11", title="", opening="how\nit begins", num_turns=1234
)


def test_columns() -> None:
    """Ids as long as it takes to tell them apart, numbers below each other, the current marked."""
    other = replace(SECOND, id="conv_02ABCDEFGHJKMNPQRSTVWXYZ11")
    first, second = (line.plain for line in conversation_lines([FIRST, other], other.id, 80))
    assert first.startswith("  conv_01ABCDEFGHJK       1 turn  197")
    assert first.endswith("  first")
    assert second.startswith("* conv_02ABCDEFGHJK  1,234 turns  197")
    assert second.endswith("  how it begins")
    assert cell_len(first) - len("first") == cell_len(second) - len("how it begins")


def test_ids_that_begin_alike() -> None:
    """Those made at one moment are shown as far as they differ."""
    first, second = (line.plain for line in conversation_lines([FIRST, SECOND], None, 200))
    assert first.startswith("  conv_01ABCDEFGHJKMNPQRSTVWXYZ0 ")
    assert second.startswith("  conv_01ABCDEFGHJKMNPQRSTVWXYZ1 ")


def test_no_conversation() -> None:
    """No lines."""
    assert conversation_lines([], None, 80) == []


def test_long_and_hostile_names() -> None:
    """Wide characters are cut by cells; what a terminal obeys is seen and does nothing."""
    long = replace(FIRST, title="漢字" * 100)
    evil = replace(FIRST, title="\x1b[2J\u202eevil\n")
    cut, seen = (line.plain for line in conversation_lines([long, evil], None, 80))
    assert cell_len(cut) <= 80
    assert cut.endswith("…")
    assert not {"\x1b", "\n", "\u202e"} & set(seen)
    assert cell_len(conversation_lines([long], None, 20)[0].plain) < 80  # some of it all the same


def test_a_found_message() -> None:
    """The words stand out; a title is said where there is one."""
    hit = SearchHit(FIRST.id, "title\x1b", "msg_1", "user", "a «word» and « another «two»")
    line = hit_line(hit)
    assert line.plain == ("conv_01ABCDEFGHJK  title␛: user: a «word» and « another «two»")
    bold = [line.plain[s.start : s.end] for s in line.spans if "bold" in str(s.style)]
    assert bold == ["«word»", "«two»"]
    assert hit_line(replace(hit, title="")).plain.startswith("conv_01ABCDEFGHJK  user: ")
