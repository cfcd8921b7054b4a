"""Single questions with flags that change what is asked, shown and kept."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest

from radixchat.chat_cli.run import run_chat
from radixchat.chat_cli.settings import ChatSettings
from radixchat.server.protocol import ResponseFormat
from radixchat.server.store import Store
from radixchat.tests.chat_cli.scripted import messages_of, tiny_settings
from radixchat.tests.server.turns import ME


@pytest.fixture
def settings(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChatSettings:
    """Answers as text, with nothing on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    return tiny_settings(tiny_model, tmp_path / "data" / "s.db", json=False, ids=False)


def says(settings: ChatSettings, pattern: str) -> ChatSettings:
    """Every answer is like the pattern."""
    answer = replace(
        settings.answer, response_format=ResponseFormat("regex", pattern), max_output_tokens=40
    )
    return replace(settings, answer=answer)


def test_extract(settings: ChatSettings, capsys: pytest.CaptureFixture[str]) -> None:
    """The code alone; a script can pipe it on."""
    code = says(replace(settings, extract=True), "Yes:\\n```sh\\nls -l\\n```\\nand so on")
    assert run_chat(code, "how") == 0
    shown = capsys.readouterr()
    assert shown.out == "ls -l\n"
    assert "cached 0/" in shown.err
    assert messages_of(settings)[-1].text.endswith("and so on")


def test_extract_of_nothing(settings: ChatSettings, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, one sentence, and no output; the answer is kept all the same."""
    assert run_chat(says(replace(settings, extract=True), "No code"), "how") == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "error: the answer has no code block" in shown.err
    assert messages_of(settings)[-1].text == "No code"


def test_quiet(settings: ChatSettings, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer and not a word beside it; errors stay."""
    assert run_chat(says(replace(settings, quiet=True), "Short"), "how") == 0
    assert capsys.readouterr() == ("Short\n", "")
    assert run_chat(replace(settings, quiet=True, session="ZZZZ"), "how") == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_attach(settings: ChatSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files come before the question, in their order; one that is not there ends the run."""
    names = ("a file.txt", "b.py")
    for name in names:
        (tmp_path / name).write_text(f"of {name}\n")
    files = tuple(str(tmp_path / name) for name in names)
    assert run_chat(replace(settings, attach=files), "what are these") == 0
    assert messages_of(settings)[0].text == (
        "a file.txt:\n```\nof a file.txt\n```\n\nb.py:\n```\nof b.py\n```\n\nwhat are these"
    )
    assert "attached b.py" in capsys.readouterr().err
    missing = replace(settings, attach=(*files, str(tmp_path / "none")), model="./none.gguf")
    with pytest.raises(click.BadParameter, match=f"there is no file {tmp_path / 'none'}"):
        run_chat(missing, "what")  # told before the model is looked for


def test_no_log(settings: ChatSettings, capsys: pytest.CaptureFixture[str]) -> None:
    """What was said is gone when the answer is there; what was kept before stays."""
    assert run_chat(says(settings, "Kept"), "one") == 0
    assert run_chat(says(replace(settings, log=False), "Forgotten"), "two") == 0
    assert capsys.readouterr().out == "Kept\nForgotten\n"
    with Store(settings.database) as store:
        (row,) = store.conversations(principal=ME, limit=9)
        assert row.opening == "one"
        assert store.search("two", principal=ME, limit=9) == []


def test_a_conversation_by_its_name(
    settings: ChatSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    """--session takes what `sessions` takes."""
    with Store(settings.database) as store:
        made = store.create_conversation(principal=ME, title="Of eggs")
        store.create_conversation(principal=ME, title="Of ham")
    assert run_chat(replace(settings, session="of e"), "hello") == 0
    assert f"continuing {made}" in capsys.readouterr().err
    assert run_chat(replace(settings, session="of"), "hello") == 1
    assert "may be" in capsys.readouterr().err
