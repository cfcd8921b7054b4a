"""`radixchat bench start` measures real starts, and says what of."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from radixchat.bench.start import arms, lines, main
from radixchat.bench.start_terminal import StartFailed, StartTerminal
from radixchat.tests.tiny_model import endless_model_directory


@pytest.mark.slow
def test_every_arm_is_measured(tmp_path: Path) -> None:
    """The table and the JSON have the same arms; the prompt comes before the first token."""
    model = endless_model_directory(tmp_path / "tiny", 512)
    done = CliRunner().invoke(main, ["--model", str(model), "--starts", "1", "--json"])
    *table, last = [line for line in done.output.splitlines() if not line.startswith("Error: ")]
    document = json.loads(last)
    names = ["chat", "chat -c", "behind", "waiting", "echo"]
    assert list(document["seconds"]) == names
    assert [line[:10].strip() for line in table[2:]] == names
    assert document["seconds"]["chat"][0] < document["seconds"]["behind"][0]
    assert document["seconds"]["echo"][0] > 0


def test_a_chat_that_ends(tmp_path: Path) -> None:
    """Its last words are in the error."""
    environment = {**os.environ, "RADIXCHAT_CONFIG_DIR": str(tmp_path)}
    with (
        StartTerminal(["--no-such-flag"], environment) as chat,
        pytest.raises(StartFailed, match="no-such-flag"),
    ):
        chat.prompt_s()


def test_the_table() -> None:
    """A line an arm: the median, the fastest and the slowest start."""
    assert list(lines({"chat": [0.5, 0.25, 1.0]}))[1].split() == ["chat", "0.500", "0.250", "1.000"]


def test_the_arms(tmp_path: Path) -> None:
    """They measure nothing before they are called."""
    assert len(arms("nothing", None, tmp_path)) == 5
    assert list(tmp_path.iterdir()) == []
