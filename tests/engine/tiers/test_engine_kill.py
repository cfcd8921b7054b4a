"""C6: an engine that is killed while its pages are written is followed by one that is right."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from radixchat.engine.tiers.disk_administration import verify
from radixchat.engine.tiers.disk_folder import bytes_on_disk
from radixchat.engine.weights import Checkpoint
from radixchat.tests.engine.driver import answer, greedy, make_engine
from radixchat.tests.engine.tiers.engine_process import ANSWER, QUOTA, asked
from radixchat.tests.tiny_model import tiny_model_directory

MODULE = "radixchat.tests.engine.tiers.engine_process"


class Engines:
    """The process whose children answer."""

    def __init__(self, model: Path, folder: Path) -> None:
        command = [sys.executable, "-m", MODULE, str(model), str(folder)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.line() == ["ready"]

    def line(self) -> list[str]:
        assert self.process.stdout is not None
        return self.process.stdout.readline().split()

    def start(self, seed: int, calls: int) -> int:
        """A child; it may answer before it is told of."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seed} {calls}\n")
        self.process.stdin.flush()
        kind, child = self.line()
        assert kind == "child"
        return int(child)


@contextmanager
def engines(model: Path, folder: Path) -> Iterator[Engines]:
    made = Engines(model, folder)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.communicate()


class ColdAnswers:
    """What a prompt is answered by an engine with nothing below it and nothing cached."""

    def __init__(self, tiny: Checkpoint) -> None:
        self._engine = make_engine(tiny, prefix_cache=False)

    def __call__(self, number: int) -> list[int]:
        return answer(self._engine, asked(number), greedy(ANSWER)).tokens


def run_killed(model: Path, folder: Path, cold: ColdAnswers, kills: int) -> tuple[int, int]:
    """Kill so many engines one after the other; answers, and tokens of them that were on disk."""
    rng = random.Random(7)
    answers = from_disk = 0
    with engines(model, folder) as made:
        for turn in range(kills):
            # By itself in the middle of a write, or from outside after some answers.
            calls = rng.randrange(1, 60) if turn % 2 else 0
            patience = rng.randrange(1, 12)
            child = made.start(turn, calls)
            heard = 0
            while (line := made.line())[0] == "answer":
                number, disk, *tokens = map(int, line[1:])
                assert tokens == cold(number), f"after {turn} kills"
                answers, from_disk, heard = answers + 1, from_disk + disk, heard + 1
                assert bytes_on_disk(folder) <= QUOTA
                if heard == patience and not calls:
                    os.kill(child, signal.SIGKILL)
                assert heard < 2_000, "it does not write any more"
            assert line == ["ended", str(-signal.SIGKILL)]
    return answers, from_disk


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fifty_engines_are_killed(tmp_path: Path, tiny: Checkpoint) -> None:
    """At random points of their writing: all that the next ones say is what a cold one says."""
    model, folder = tiny_model_directory(tmp_path / "model"), tmp_path / "kv"
    answers, from_disk = run_killed(model, folder, ColdAnswers(tiny), 50)
    assert answers > 100
    assert from_disk > 2_000
    found = verify(folder)
    assert found.damaged == {}
    assert found.pages > 0
