"""`--extract`: the first code block alone, and a failure if there is none."""

from __future__ import annotations

import pytest

from radixchat.chat_cli.exit_codes import ERROR, OK
from radixchat.chat_cli.extract import CodeOutput
from radixchat.chat_cli.render import TextOutput
from radixchat.server.protocol import ErrorInfo, ResponseDone
from radixchat.tests.chat_cli.consoles import Recording, console, notes
from radixchat.tests.chat_cli.turns import turn

CODE = "Here:\n\n```py\nprint(1)\n```\n\nOr:\n\n```py\nprint(2)\n```\n"


def shown(done: ResponseDone, *, raw: bool = False) -> tuple[str, str, int]:
    """Standard output, standard error and the exit code after one answer, in two deltas."""
    stream = Recording()
    speaker, errors = notes()
    beside = TextOutput(console(stream), speaker)
    output = CodeOutput(stream, beside, speaker, raw=raw)
    answer = output.begin()
    answer.feed(done.output_text[:9])
    answer.tick()
    assert not output.remark("wait")
    answer.feed(done.output_text[9:])
    answer.close()
    answer.close()
    output.conclude(done)
    return stream.getvalue(), errors.getvalue(), output.exit_code


def test_the_first_block_alone() -> None:
    """Its lines and nothing else; the status line is beside it as ever."""
    printed, said, code = shown(turn(text=CODE))
    assert (printed, code) == ("print(1)\n", OK)
    assert said.startswith("cached 812/840")


def test_no_block() -> None:
    """Nothing is printed, one sentence says why, and the run has failed."""
    printed, said, code = shown(turn(text="No code today."))
    assert (printed, code) == ("", ERROR)
    assert "error: the answer has no code block" in said


def test_a_failed_answer_has_one_error() -> None:
    """What failed is told, not that it has no code besides."""
    error = ErrorInfo("engine_failed", 500, "it stopped", {})
    printed, said, code = shown(turn(text="", status="failed", error=error))
    assert (printed, code) == ("", OK)
    assert said.count("error: ") == 1


@pytest.mark.parametrize(("raw", "expected"), [(False, "␛[2J\n"), (True, "\x1b[2J\n")])
def test_control_characters(raw: bool, expected: str) -> None:
    """As a plain answer has them: as pictures, or as they are."""
    assert shown(turn(text="```\n\x1b[2J\n```"), raw=raw)[0] == expected


def test_what_a_command_was_asked_for() -> None:
    """It is no answer, and is shown as ever."""
    stream, (speaker, _) = Recording(), notes()
    CodeOutput(stream, TextOutput(console(stream), speaker), speaker).document("# A title")
    assert stream.getvalue() == "# A title\n"
