"""`radixchat models`: what is installed, where it is, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from radixchat.chat_cli.main import cli
from radixchat.chat_cli.paths import config_file
from radixchat.engine.model_store import DEFAULT_MODEL


@pytest.fixture(autouse=True)
def empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is installed."""
    monkeypatch.setenv("RADIXCHAT_CACHE_DIR", str(tmp_path / "cache"))


def models(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["models", *arguments])


def test_empty_list() -> None:
    """An empty list is empty on standard output, and says how to fill it elsewhere."""
    result = models("list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "models pull" in result.stderr


def test_path_of_a_missing_model() -> None:
    """A model that is not there exits with 69 and names the command that fetches it."""
    result = models("path")
    assert (result.exit_code, result.stdout) == (69, "")
    assert f"radixchat models pull {DEFAULT_MODEL}" in result.stderr


def test_path_and_pull_of_a_folder(tiny_model: Path) -> None:
    """A folder is a model as it is: its path is itself, and there is nothing to fetch."""
    for command in ("path", "pull"):
        result = models(command, str(tiny_model))
        assert (result.exit_code, result.stdout) == (0, f"{tiny_model}\n")


@pytest.mark.parametrize("command", ["pull", "path"])
@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("./nowhere.gguf", "error: there is no file ./nowhere.gguf\n"),
        ("nosuch", "error: 'nosuch' is no model: "),
        ("a/b/c", "error: 'a/b/c' is no model: "),
    ],
)
def test_a_name_that_is_no_model(command: str, name: str, complaint: str) -> None:
    """It exits with 69 at once: nothing says that it would be fetched, or how to."""
    result = models(command, name)
    assert (result.exit_code, result.stdout) == (69, "")
    assert result.stderr.startswith(complaint)
    assert "fetch" not in result.stderr


def test_which_model_is_meant(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The argument, or RADIXCHAT_MODEL, or the configuration file's."""
    config_file().parent.mkdir()
    config_file().write_text("model = './from_the_file.gguf'")
    assert "from_the_file" in models("path").stderr
    monkeypatch.setenv("RADIXCHAT_MODEL", str(tiny_model))
    assert models("path").stdout == f"{tiny_model}\n"


@pytest.mark.model
def test_installed(default_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed model is listed with its size and path, tab-separated."""
    monkeypatch.setenv("RADIXCHAT_CACHE_DIR", str(default_model.parent.parent))
    fields = [line.split("\t") for line in models("list").stdout.splitlines()]
    assert [DEFAULT_MODEL, str(default_model.stat().st_size), str(default_model)] in fields
    assert models("path").stdout == f"{default_model}\n"
