"""Keys and pastes as a terminal sends them, in pieces that end anywhere."""

from __future__ import annotations

import os
import pty
import tty

from hypothesis import example, given
from hypothesis import strategies as st
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from radixchat.chat_cli.paste_input import PasteInput, PasteParser

BEGIN, END = "\x1b[200~", "\x1b[201~"
PIECES = st.lists(
    st.sampled_from([BEGIN, END, "\x1b", "[20", "1~", "a", "漢", "\r", "x" * 50]), max_size=12
)


@given(PIECES, st.lists(st.integers(0, 200), max_size=6))
@example([BEGIN, "a", END, "b"], [7, 8, 9, 10, 11, 12])
def test_the_same_as_prompt_toolkit(pieces: list[str], cuts: list[int]) -> None:
    """However it is cut, the keys are those of prompt_toolkit's own parser, which gets it whole."""
    data = "".join(pieces)
    keys: list[KeyPress] = []
    parser = PasteParser(keys.append)
    ends = [*sorted(cut for cut in cuts if cut < len(data)), len(data)]
    for start, end in zip([0, *ends], ends, strict=False):
        parser.feed(data[start:end])
    expected: list[KeyPress] = []
    Vt100Parser(expected.append).feed(data)
    assert keys == expected


def test_a_terminal() -> None:
    """A paste in two reads is one key, with what was typed before and after it."""
    leader, follower = pty.openpty()
    tty.setraw(follower)
    with os.fdopen(follower, encoding="utf-8") as stdin:
        terminal = PasteInput(stdin)
        os.write(leader, b"a" + BEGIN.encode() + b"one\r")
        keys = terminal.read_keys()
        os.write(leader, b"two" + END.encode() + b"b")
        keys += terminal.read_keys()
        assert [(key.key, key.data) for key in keys] == [
            ("a", "a"),
            (Keys.BracketedPaste, "one\rtwo"),
            ("b", "b"),
        ]
    os.close(leader)
