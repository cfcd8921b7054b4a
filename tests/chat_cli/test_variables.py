"""Variables of the environment that look like a flag's, and are none."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from radixchat.chat_cli.main import cli
from radixchat.chat_cli.variables import misspelt

KNOWN = ("RADIXCHAT_MAX_TOKENS", "RADIXCHAT_ALLOW_HOST", "RADIXCHAT_DB")


def test_what_looks_like_a_flag() -> None:
    """With the nearest name; what is known, or like nothing, or not ours is passed over."""
    given = (
        "RADIXCHAT_MAX_TOKEN", "RADIXCHAT_ALLOW_HOSTS", "RADIXCHAT_DB",
        "RADIXCHAT_CACHE_DIR", "RADIXCHAT_OPENAI_PYTHON", "RADIXCHAT_", "MAX_TOKEN", "PATH",
    )  # fmt: skip
    assert list(misspelt(given, KNOWN)) == [
        ("RADIXCHAT_ALLOW_HOSTS", "RADIXCHAT_ALLOW_HOST"),
        ("RADIXCHAT_MAX_TOKEN", "RADIXCHAT_MAX_TOKENS"),
    ]


def test_a_command_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On standard error, and works; another command's variable, and one of our own, is none."""
    monkeypatch.setenv("RADIXCHAT_MAX_TOKEN", "5")
    monkeypatch.setenv("RADIXCHAT_MAX_QUEUED", "5")
    monkeypatch.setenv("RADIXCHAT_TYPICAL_P", "0.5")
    result = CliRunner().invoke(cli, ["keys", "list"])
    assert result.exit_code == 0
    assert "RADIXCHAT_MAX_TOKEN is no flag's variable; RADIXCHAT_MAX_TOKENS is" in result.stderr
    assert result.stderr.count("is no flag's variable") == 1
