"""Which stream is what: where answers go, and where a prompt can be drawn."""

from __future__ import annotations

import io
import sys
from typing import TextIO

import pytest

from radixchat.chat_cli.render import JsonOutput, TextOutput
from radixchat.chat_cli.streams import Streams
from radixchat.tests.chat_cli.consoles import Recording

TERMINAL, PIPE = Recording(terminal=True), Recording()


def streams(
    monkeypatch: pytest.MonkeyPatch,
    stdin: TextIO | None,
    stdout: TextIO | None,
    stderr: TextIO | None,
    *,
    json: bool = False,
) -> Streams:
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(sys, "stderr", stderr)
    return Streams.of_this_process(json=json, ids=False)


def test_where_a_prompt_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """On standard output if that is a terminal, else on standard error, else nowhere."""
    other = Recording(terminal=True)
    assert streams(monkeypatch, TERMINAL, TERMINAL, other).screen is TERMINAL
    assert streams(monkeypatch, TERMINAL, TERMINAL, PIPE).screen is TERMINAL
    assert streams(monkeypatch, TERMINAL, PIPE, other).screen is other
    assert streams(monkeypatch, TERMINAL, PIPE, PIPE).screen is None
    assert streams(monkeypatch, PIPE, TERMINAL, TERMINAL).screen is None


def test_answers_on_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal shows the answers unless they are JSON: the prompt stays apart from that."""
    other = Recording(terminal=True)
    shown = streams(monkeypatch, TERMINAL, TERMINAL, other)
    assert shown.answers_on_screen
    assert isinstance(shown.output, TextOutput)
    as_json = streams(monkeypatch, TERMINAL, TERMINAL, other, json=True)
    assert as_json.screen is other
    assert not as_json.answers_on_screen
    assert isinstance(as_json.output, JsonOutput)


def test_missing_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed streams swallow what is written, and there is no input."""
    closed = streams(monkeypatch, None, None, None)
    assert not closed.has_input
    closed.notes.note("nobody hears")
    closed.answers.file.close()
    closed.errors.file.close()


def test_what_the_encoding_cannot_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text is written as well as the locale allows; JSON is UTF-8 in any."""
    for json, expected in ((False, "? caf\xe9".encode("latin-1")), (True, "漢 café".encode())):
        raw = io.BytesIO()
        stdout = io.TextIOWrapper(raw, encoding="latin-1")
        streams(monkeypatch, PIPE, stdout, PIPE, json=json)
        stdout.write("漢 café")
        stdout.flush()
        assert raw.getvalue() == expected
