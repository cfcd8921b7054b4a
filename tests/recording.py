"""A session at a real terminal, tmux's, as README shows it: typed, answered, captured.

`python -m radixchat.tests.recording` writes README's block anew; test_recording.py plays the same
session, and compares. Owns what is typed and when, and what of it two machines may have different.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from radixchat.tests.readme import README, block, replaced_block

COLUMNS, ROWS = 80, 50
COMMAND = "radixchat chat --temperature 0"
BLOCK = "recording"
PATIENCE_S = 240.0

ENTRIES = (
    "Write a Python function that reverses a string.",
    "Which line does the work?",
    "/edit 2",
    "Does it change the old string?",
    "/tree",
    "/cache",
    "/why",
)
"""What is typed, an entry at a time; the one after `/edit 2` takes the place of the text there."""

_LOADING = "(loading)"
_PROMPT = re.compile(r"^(edit \d+)?> (?P<typed>.+)$")
_STATUS = re.compile(r"cached (\d+)/(\d+) · first token")
_TIMES = (
    (r"first token \d+ ms", "first token TIME"),
    (r"\b\d[\d.]* tok/s", "RATE"),
    (r", about \d[\d.,]* (ms|s|min)\b", ""),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """What was typed, and the lines that it was followed by."""

    typed: str
    lines: tuple[str, ...]

    @property
    def counts(self) -> tuple[int, int] | None:
        """Of an answer: tokens of its prompt that were cached, and all of them."""
        found = _STATUS.match(self.lines[-1]) if self.lines else None
        return None if found is None else (int(found[1]), int(found[2]))


@dataclass(frozen=True, slots=True)
class Recording:
    """A captured session, without the blanks that fill its lines."""

    text: str

    @property
    def entries(self) -> list[Entry]:
        """What was typed, in order; the line below the last prompt belongs to none."""
        typed: list[str] = []
        lines: list[list[str]] = []
        for line in self.text.splitlines()[:-2]:
            if (prompt := _PROMPT.match(line)) is not None:
                typed.append(prompt["typed"])
                lines.append([])
            elif lines:
                lines[-1].append(line)
        return [Entry(one, tuple(some)) for one, some in zip(typed, lines, strict=True)]

    @property
    def answers(self) -> list[tuple[str, ...]]:
        """The words of the answers: two kinds of CPU may round to other ones."""
        return [entry.lines[:-1] for entry in self.entries if entry.counts is not None]

    @property
    def timeless(self) -> str:
        """The text without times and rates, which no two runs share."""
        text = self.text
        for pattern, word in _TIMES:
            text = re.sub(pattern, word, text)
        return text

    @property
    def outline(self) -> list[tuple[str, str]]:
        """What any machine shows: what was typed, and the last line of each reply, uncounted."""
        return [
            (entry.typed, re.sub(r"\d+", "N", Recording(entry.lines[-1]).timeless))
            for entry in self.entries
        ]


def recorded() -> Recording:
    """README's."""
    return Recording(block(README.read_text(encoding="utf-8"), BLOCK))


def record() -> Recording:
    """Play the session in a tmux of its own; the user's files and settings play no part."""
    with tempfile.TemporaryDirectory() as folder, terminal(Path(folder)) as pane:
        pane.wait_for(lambda shown: _prompt_of(shown) == ">" and _LOADING not in shown)
        for entry in ENTRIES:
            if _prompt_of(pane.text).startswith("edit"):
                pane.press("C-u")
            pane.enter(entry)
        pane.wait_for(_has_settled)
        return Recording(f"$ {COMMAND}\n{pane.text}")


class Pane:
    """A window of tmux with a program in it. Waits for what it shows, never for a time."""

    def __init__(self, tmux: list[str]) -> None:
        self._tmux = tmux

    @property
    def text(self) -> str:
        """What it shows, and what has been scrolled away."""
        captured = subprocess.run(
            [*self._tmux, "capture-pane", "-p", "-S", "-"],
            capture_output=True,
            check=True,
            encoding="utf-8",
        )
        return "\n".join(line.rstrip() for line in captured.stdout.splitlines()).strip("\n")

    def press(self, *keys: str) -> None:
        """Keys by their names."""
        subprocess.run([*self._tmux, "send-keys", *keys], check=True)

    def enter(self, text: str) -> None:
        """Type a line, send it, and wait for the next prompt."""
        self.press("-l", text)
        self.wait_for(lambda shown: _prompt_of(shown).endswith(f"> {text}"))
        self.press("Enter")
        self.wait_for(lambda shown: self._has_replied(shown, text))

    def wait_for(self, holds: Callable[[str], bool]) -> None:
        """Return when it holds of the text."""
        give_up = time.monotonic() + PATIENCE_S
        while not holds(text := self.text):
            assert time.monotonic() < give_up, f"it never came:\n{text}"
            time.sleep(0.05)

    @staticmethod
    def _has_replied(shown: str, text: str) -> bool:
        prompt = _prompt_of(shown)
        return prompt == ">" or (text.startswith("/edit") and prompt.startswith("edit"))


def _has_settled(shown: str) -> bool:
    """Whether the line at the bottom is of the last turn: /cache counts as many tokens."""
    [total] = re.findall(r"^([\d,]+) of [\d,]+ tokens: ", shown, re.MULTILINE)
    return f" {total}/" in shown.splitlines()[-1] and "next turn" in shown.splitlines()[-1]


def _prompt_of(shown: str) -> str:
    """The line above the last one."""
    return (shown.splitlines() or [""])[-2:][0]


@contextlib.contextmanager
def terminal(folder: Path) -> Iterator[Pane]:
    """The command in a terminal of COLUMNS x ROWS, with no settings but tmux's own defaults."""
    configuration = folder / "tmux.conf"
    configuration.write_text("set -g status off\nset -g default-terminal screen-256color\n")
    ours = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "LC_ALL": "C.UTF-8",
        "RADIXCHAT_CONFIG_DIR": str(folder / "config"),
        "RADIXCHAT_DATA_DIR": str(folder / "data"),
        "RADIXCHAT_NO_HISTORY": "true",
        "RADIXCHAT_DISK_CACHE": "0",
    }
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in ("HOME", "XDG_CACHE_HOME", "RADIXCHAT_CACHE_DIR", "TMPDIR")
    }
    program = ["env", "-i", "TERM=screen-256color"]
    program += [f"{name}={value}" for name, value in (kept | ours).items()]
    tmux = [tmux_command(), "-u", "-S", str(folder / "socket"), "-f", str(configuration)]
    size = ["-x", str(COLUMNS), "-y", str(ROWS)]
    started = [*tmux, "new-session", "-d", *size, shlex.join([*program, *shlex.split(COMMAND)])]
    subprocess.run(started, check=True, env=kept | ours)
    try:
        yield Pane(tmux)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)


def tmux_command() -> str:
    """Raises FileNotFoundError."""
    command = shutil.which("tmux")
    if command is None:
        raise FileNotFoundError("no tmux here: on Debian `apt install tmux`")
    return command


def main() -> None:
    """Write README's block anew."""
    # Here, because these import torch, and who compares two recordings needs none of it.
    from radixchat.engine.config import EngineConfig
    from radixchat.engine.warm_up import warm_up

    warm_up(EngineConfig(device="cpu"), print)  # no machine's first run is recorded
    text = README.read_text(encoding="utf-8")
    README.write_text(replaced_block(text, BLOCK, record().text), encoding="utf-8")


if __name__ == "__main__":
    main()
