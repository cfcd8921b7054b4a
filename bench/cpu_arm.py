"""`ArmProcess`: an engine under measurement, in a process of its own, driven over its pipes.

Two thread pools in one process would wait for each other. An arm writes one JSON object a line:
first what it is (`ArmInfo`), then for each line of input, a load with its prompts, the seconds of
each step; or {"error": text} instead. Knows no engine.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import IO, Any

from radixchat.bench.cpu_load import Load

SHOWN_ERRORS = 2000  # characters of what a failed process wrote to standard error


class ArmFailed(Exception):
    """An arm cannot run, or has ended: its name, and what it said."""


@dataclass(frozen=True, slots=True)
class ArmInfo:
    """What an arm says of itself. about: version and settings, for people. weight_bytes: read in
    every decode step; kv_bytes_per_token: of one token of an answer, in all layers."""

    about: str
    vocab_size: int
    weight_bytes: int
    kv_bytes_per_token: int


class ArmProcess:
    """A running arm, ready to measure; ended when the block is left."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Start it and wait until it has loaded its model. Raises ArmFailed.

        environment: of the process, instead of ours.
        """
        self.name = name
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment,
                text=True,
                encoding="utf-8",
            )
        except OSError as error:
            self._errors.close()
            raise ArmFailed(f"{name}: {command[0]} cannot be run: {error.strerror}") from error
        try:
            self.info = ArmInfo(**self._read())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ArmProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def measure(self, load: Load, prompts: Sequence[Sequence[int]], steps: int) -> list[float]:
        """Seconds of each of `steps` steps, or of the one prompt. Raises ArmFailed.

        A prompt that was in the request before need not be computed again, unless the load is of
        computing it.
        """
        request = {"load": asdict(load), "prompts": prompts, "steps": steps}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended; reading tells why
        seconds = self._read()["seconds"]
        expected = 1 if load.kind == "prefill" else steps
        if len(seconds) != expected or min(seconds) <= 0:
            raise ArmFailed(f"{self.name}: {load.name} gave {seconds}, not {expected} times")
        return list(map(float, seconds))

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise ArmFailed(f"{self.name} ended with status {code}: {last_of(self._errors)}")
        try:
            answer = json.loads(line)
        except json.JSONDecodeError as error:
            raise ArmFailed(f"{self.name} wrote {line[:200]!r}, which is no JSON") from error
        if "error" in answer:
            raise ArmFailed(f"{self.name}: {answer['error']}")
        assert isinstance(answer, dict)
        return answer


def last_of(errors: IO[bytes]) -> str:
    """The end of what a process wrote to standard error."""
    errors.seek(0)
    text = errors.read().decode(errors="replace").strip()
    return text[-SHOWN_ERRORS:] or "it said nothing"
