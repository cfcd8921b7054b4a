"""Standard output: Markdown, plain text or JSON, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from radixchat.chat_cli.control_characters import without_controls
from radixchat.chat_cli.markdown_answer import MarkdownAnswer
from radixchat.chat_cli.render import Answer, JsonOutput, PlainAnswer, TextOutput
from radixchat.chat_cli.turn import failed
from radixchat.server.protocol import ErrorInfo, OutputLogprob
from radixchat.tests.chat_cli.consoles import Recording, console, notes
from radixchat.tests.chat_cli.turns import turn

HOSTILE = ("# T\n\x1b]52;c;eA==\x07", "a\rb\x9b2J", " &amp;\n")


def begin(stream: Recording) -> Answer:
    return TextOutput(console(stream), notes()[0]).begin()


def written(stream: Recording) -> str:
    answer = begin(stream)
    for delta in HOSTILE:
        answer.feed(delta)
    answer.close()
    answer.close()
    return stream.getvalue()


def test_pipe() -> None:
    """A pipe gets the text as it comes and a newline, without control characters."""
    stream = Recording()
    answer = begin(stream)
    answer.feed("one")
    assert stream.getvalue() == "one"
    answer.close()
    assert stream.getvalue() == "one\n"
    assert written(Recording()) == "# T\n␛]52;c;eA==␇ab\ufffd2J &amp;\n\n"


def test_reasoning_on_a_pipe() -> None:
    """A pipe gets the reasoning like the rest, as text."""
    stream = Recording()
    answer = begin(stream)
    answer.feed("<think>hm</think>\n\nYes")
    answer.close()
    assert stream.getvalue() == "<think>hm</think>\n\nYes\n"


def test_raw() -> None:
    """Asked for, a pipe gets exactly the model's text; a terminal never gets its escapes."""
    for terminal in (False, True):
        stream = Recording(terminal=terminal)
        output = TextOutput(console(stream), notes()[0], raw=True)
        answer = output.begin()
        for delta in HOSTILE:
            answer.feed(delta)
        answer.close()
        output.document("\x1b[2J")
        text = "".join(HOSTILE) + "\n\x1b[2J\n"
        assert stream.getvalue() == (without_controls(text) if terminal else text)


def test_dumb_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """TERM=dumb gets the text as it is written, without control characters."""
    monkeypatch.setenv("TERM", "dumb")
    assert written(Recording(terminal=True)) == "# T\n␛]52;c;eA==␇ab�2J &amp;\n\n"


def test_terminal() -> None:
    """A terminal gets Markdown that is redrawn; no escape of the model's survives."""
    assert isinstance(begin(Recording(terminal=True)), MarkdownAnswer)
    text = written(Recording(terminal=True))
    assert "\x1b]" not in text
    assert "\x9b" not in text
    assert "&amp;" not in text


@pytest.mark.parametrize("color", ["", "1"])
def test_data_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch, color: str) -> None:
    """Data loses no character to Markdown, on a terminal and on a pipe; controls are no data."""
    text = '{\n  "a": "*a* __b__ <br> \u2028"\n}\x1b'
    shown = text.replace("\x1b", "␛")
    monkeypatch.setenv("FORCE_COLOR", color)
    for terminal in (True, False):
        stream = Recording(terminal=terminal)
        answer = TextOutput(console(stream), notes()[0], verbatim=True).begin()
        answer.feed(text[:5])
        answer.feed(text[5:])
        answer.close()
        assert stream.getvalue() == shown + "\n"


def test_force_color(monkeypatch: pytest.MonkeyPatch) -> None:
    """FORCE_COLOR gives a pipe the styles, but never a cursor movement."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = Recording()
    answer = begin(stream)
    answer.feed("**bold**\n\nmore")
    answer.close()
    assert stream.getvalue() == "\x1b[1mbold\x1b[0m\n\nmore\n"


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR keeps the Markdown and drops the colours."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = Recording()
    answer = begin(stream)
    answer.feed("[link](http://x.y)")
    answer.close()
    assert "\x1b[3" not in stream.getvalue()
    assert "\x1b[9" not in stream.getvalue()


def test_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """COLUMNS decides where lines break."""
    from rich.console import Console

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "12")
    stream = Recording()
    answer = TextOutput(Console(file=stream), notes()[0]).begin()
    answer.feed("some words to wrap")
    answer.close()
    assert stream.getvalue() == "some words\nto wrap\n"


def test_plain_answer_without_text() -> None:
    """An empty answer is an empty line: answers can be counted."""
    stream = Recording()
    PlainAnswer(stream).close()
    assert stream.getvalue() == "\n"


def test_text_conclusion() -> None:
    """A status line; for a failure also the error; for a refused turn only the error."""
    speaker, errors = notes()
    output = TextOutput(console(Recording()), speaker)
    output.conclude(turn())
    output.conclude(turn(status="failed", error=ErrorInfo("engine_failed", 500, "it broke", {})))
    output.conclude(failed("conv_1", None, ErrorInfo("invalid_value", 400, "no", {})))
    assert errors.getvalue().splitlines() == [
        "cached 812/840 · first token 41 ms · 38 tok/s",
        "cached 812/840 · first token 41 ms · 38 tok/s · failed",
        "error: it broke",
        "error: no",
    ]


def test_json() -> None:
    """One line per turn, its letters as they are; the deltas are not shown."""
    stream = Recording()
    output = JsonOutput(stream, ids=False)
    answer = output.begin()
    answer.feed("Grüß")
    answer.tick()
    answer.close()
    output.conclude(turn())
    (line,) = stream.getvalue().splitlines()
    assert "Grüß Gott 👋" in line
    assert json.loads(line) == turn().to_turn()


def test_json_has_no_control_characters() -> None:
    """What JSON allows and a terminal obeys is escaped; a reader gets the model's text."""
    stream = Recording()
    text = "\x1b]52;c;eA==\x07\x9b2J\x7f\u2028"
    JsonOutput(stream, ids=False).conclude(replace(turn(), output_text=text))
    assert stream.getvalue().rstrip("\n").isprintable()
    assert json.loads(stream.getvalue())["output_text"] == text


def test_json_answer() -> None:
    """What ended an answer, its log-probabilities and its guessed tokens are in the object."""
    stream = Recording()
    logprob = OutputLogprob("Hi", b"Hi", -0.5)
    usage = replace(turn().usage, draft_tokens=8, accepted_tokens=5)
    done = replace(turn(), stop="END", logprobs=(logprob,), usage=usage)
    JsonOutput(stream, ids=False).conclude(done)
    record = json.loads(stream.getvalue())
    assert record["stop"] == "END"
    assert [entry["token"] for entry in record["logprobs"]] == ["Hi"]
    assert (record["timings"]["draft_n"], record["timings"]["draft_n_accepted"]) == (8, 5)


def test_json_ids() -> None:
    """With ids the exact tokens are there too."""
    stream = Recording()
    JsonOutput(stream, ids=True).conclude(turn())
    record = json.loads(stream.getvalue())
    assert (record["input_ids"], record["output_ids"]) == ([1, 2], [3])


def test_json_refused() -> None:
    """A refused turn has every key of a turn, no response, and the error with its numbers."""
    stream = Recording()
    error = ErrorInfo("context_length_exceeded", 400, "too long", {"n_prompt_tokens": 9})
    JsonOutput(stream, ids=False).conclude(failed(None, None, error))
    record = json.loads(stream.getvalue())
    assert record["status"] == "failed"
    assert (record["conversation"], record["response"]) == (None, None)
    assert record["error"]["code"] == "context_length_exceeded"
    assert record["error"]["n_prompt_tokens"] == 9
    assert set(turn().to_turn()) <= set(record)


def test_a_remark_beside_plain_text() -> None:
    """It is said elsewhere; on the same terminal it begins a line of its own."""
    for terminal, end in ((True, "\n"), (False, "")):
        stream = Recording(terminal=terminal)
        output = TextOutput(console(stream), notes()[0], raw=True)
        assert not output.remark("nothing is drawn")
        answer = output.begin()
        answer.feed("some")
        assert not output.remark("wait")
        assert stream.getvalue() == f"some{end}"
        answer.close()
        assert not output.remark("it is over")
        assert stream.getvalue() == f"some{end}\n"
