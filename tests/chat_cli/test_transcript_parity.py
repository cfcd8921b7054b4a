"""One script, two chats as people start them: with a model of their own, and at a server.

Owns the script, which has every command. What may differ is replaced by fixed words: ids, days,
times, rates, addresses, and the figures of an engine that only one of the two has.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from radixchat.chat_cli.command_line import COMMANDS
from radixchat.chat_cli.exit_codes import ERROR
from radixchat.tests.chat_cli.scripted import Run
from radixchat.tests.server.server_process import COMMAND, PATIENCE_S, environment, serving

# In a fixed order, since most lines act on what those before them have left. `/model NAME` is not
# here: only a chat with a model of its own can do that.
SCRIPT = r"""
/help
/help regen
/model
/set
/list
/tree
/cache
/why
/undo
/regen
/continue
/save early
/export md
/search nothing
/switch nowhere
/system Answer in short words.
first question
/why
/continue
/regen
/regen 3
/tree
/switch #1
/switch #99
second question, with emoji 👩‍👩‍👧 and 谢谢
/edit 1 another first question
/edit 9 nothing there
/edit one
/edit 1
third question
/cache
/undo
//slash, a message and no command
/multi
a message
/tree
of three lines
/multi
/rename the talk
/system
/system Answer in long words.
fourth question
/why
/system ""
fifth question
/set temperature
/set temperature hot
/set max_tokens 5
/set stop ["zz"]
/set choice ["yes", "no"]
sixth question
/continue
/set choice default
/set colour 3
/save
/export md
/export json
/export md export.md
/export md export.md
/export txt
/attach note.txt
/attach missing.txt
a question about a file
/fork the other talk
seventh question
/list
/switch the talk
/switch the
/search question
/search "
/copy
/copy code 1
/paste
/clear
/stats
/regen 9
/regen none
/undo now
/bogus
/edti 1
/new
/new
/list
eighth question
/rename the talk
/save
/delete the other talk
/delete nobody
/switch conv_
/delete
/list
/exit
never sent
"""
LINES = SCRIPT.strip().splitlines()

# What a server is called. And what depends on which of several answers was a step ahead: how many
# steps there were, what was guessed in them, and in which pages the tokens lie.
_ONLY_ONE = re.compile(r"^server .*\n|^  pool .*\n|^  guessed .*\n|^work\n(  .*\n)+", re.MULTILINE)
_REPLACED = (
    (r"\b(conv|resp)_[0-9A-Z]{10,26}", r"\1_ID"),
    (r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?(Z|\+00:00)?)?)?", "DAY"),
    (r", about \d[\d.,]* (ms|s|min)\b", ""),
    (r"\b\d[\d.,]* (ms|s|min|tok/s)\b", "TIME"),
    (r'("\w+_(ms|at|per_second)": )[0-9][0-9.e+-]*', r"\1TIME"),
    (r'("(draft|accepted)_tokens": |"draft_n(_accepted)?": )\d+', r"\1GUESSED"),
    (r'("seed": )\d{6,}', r"\1DRAWN"),
    (r" --url \S+", ""),
)


def replaced(text: str) -> str:
    """The text without what differs from run to run."""
    text = _ONLY_ONE.sub("", text)
    for pattern, word in _REPLACED:
        text = re.sub(pattern, word, text)
    return text


def run(folder: Path, *flags: str) -> Run:
    """The script's run as a process of its own, in a folder of its own."""
    folder.mkdir()
    (folder / "note.txt").write_text("what the file says\n", encoding="utf-8")
    done = subprocess.run(
        [*COMMAND, "chat", "--max-tokens", "9", *flags],
        env=environment(folder),
        cwd=folder,
        input=SCRIPT,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=3 * PATIENCE_S,
    )
    return Run(done.stdout, done.stderr, done.returncode)


def test_the_script_has_every_command() -> None:
    """None is left out, and there are far more lines than thirty."""
    assert {line.split()[0] for line in LINES if line.startswith("/")} >= set(COMMANDS)
    assert len(LINES) > 80


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [("--temperature", "0"), ("--temperature", "1", "--seed", "3"), ("--json", "--seed", "3")],
    ids=["greedy", "seeded", "json"],
)
def test_the_same_transcript(flags: tuple[str, ...], tiny_model: Path, tmp_path: Path) -> None:
    """Standard output, standard error and exit code are the same in process and at a server."""
    here = run(tmp_path / "here", "-m", str(tiny_model), "--threads", "1", *flags)
    with serving(tiny_model, tmp_path / "server") as server:
        there = run(tmp_path / "there", "--url", server.url, *flags)
        assert server.url not in here.stdout + here.stderr
        assert server.url in there.stderr  # how to come back, and where /stats comes from
    assert replaced(there.stdout) == replaced(here.stdout)
    assert replaced(there.stderr) == replaced(here.stderr)
    assert there.code == here.code == ERROR
    files = [(tmp_path / place / "export.md").read_text("utf-8") for place in ("here", "there")]
    assert replaced(files[1]) == replaced(files[0])
    assert "Traceback" not in here.stderr
    assert LINES[-1] not in here.stdout + here.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cached 3/4 · first token 12 ms · 37 tok/s", "cached 3/4 · first token TIME · TIME"),
        ("recomputes 35 tokens, about 2.1 s", "recomputes 35 tokens"),
        ("work\n  steps  3\n  stalls  0\nnext\n", "next\n"),
        ('"seed": 3, "draft_n": 7, "prompt_n": 7', '"seed": 3, "draft_n": GUESSED, "prompt_n": 7'),
    ],
)
def test_what_is_replaced(text: str, expected: str) -> None:
    """Times, and what an engine guessed; no count of tokens."""
    assert replaced(text) == expected
