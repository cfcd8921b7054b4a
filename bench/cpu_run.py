"""The arms of `bench cpu` and their turns: who runs, and what each load took. Knows no table."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click

from radixchat.bench.cpu_arm import ArmProcess
from radixchat.bench.cpu_bandwidth import bandwidth
from radixchat.bench.cpu_load import Effort, Load
from radixchat.bench.cpu_result import LLAMA_CPP, NO_EXACT, OURS, CpuResult
from radixchat.bench.cpu_start import QUESTION, StartArm, our_start, peer_start
from radixchat.bench.trace_template import TemplateEncoder
from radixchat.engine.prompt import ChatMessage

_PEER = Path(__file__).with_name("cpu_peer.py")


@dataclass(frozen=True, slots=True)
class Arms:
    """Which arms run, on which file. peers: their names. peer_python: llama-cpp's."""

    model: Path
    threads: int
    peers: tuple[str, ...]
    peer_python: str

    def open(self, stack: ExitStack) -> list[ArmProcess]:
        """Ours and the peers, loaded; they end with the stack. Raises ArmFailed."""
        arms = [stack.enter_context(ArmProcess(OURS, self._ours(exact=True)))]
        for name in self.peers:
            if name == NO_EXACT:
                arm = ArmProcess(name, self._ours(exact=False))
            else:
                arm = ArmProcess(name, self._llama(), _plain_environment())
            arms.append(stack.enter_context(arm))
        return arms

    def starts(self, folder: Path) -> list[StartArm]:
        """Processes to be started; ours keep their files in the folder."""
        arms = [our_start(OURS, str(self.model), self.threads, folder)]
        if LLAMA_CPP in self.peers:
            encoder = TemplateEncoder.load(str(self.model))
            prompt, _ = encoder.begin().turn([ChatMessage("user", QUESTION)], None)
            arms.append(peer_start(LLAMA_CPP, self._llama(), prompt, _plain_environment()))
        return arms

    def _ours(self, *, exact: bool) -> list[str]:
        settings = {"model": str(self.model), "threads": self.threads, "exact": exact}
        return [sys.executable, "-m", "radixchat.bench.cpu_ours", json.dumps(settings)]

    def _llama(self) -> list[str]:
        # -P: this folder has modules that are named like those of the standard library.
        return [self.peer_python, "-P", str(_PEER), str(self.model), str(self.threads)]


def _plain_environment() -> dict[str, str]:
    """Without what `radixchat` sets for itself: the peer's threads wait as they always do."""
    return {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}


def measure_loads(
    arms: Sequence[ArmProcess], loads: Sequence[Load], effort: Effort, seed: int
) -> dict[Load, dict[str, tuple[float, ...]]]:
    """Seconds by load and arm; raises ArmFailed."""
    found: dict[Load, dict[str, tuple[float, ...]]] = {}
    vocab_size = min(arm.info.vocab_size for arm in arms)
    for load in loads:
        rng = random.Random(seed)
        times: dict[str, list[float]] = {arm.name: [] for arm in arms}
        prompts = load.prompts(rng, vocab_size)
        for repeat in range(1 + effort.repeats):
            if load.kind == "prefill":
                prompts = load.prompts(rng, vocab_size)
            # What the one left in the caches, or the machine's clock, the other is to have too.
            for arm in arms if repeat % 2 else reversed(arms):
                time.sleep(effort.pause)
                seconds = arm.measure(load, prompts, effort.steps)
                if repeat > 0:
                    times[arm.name] += seconds
        found[load] = {name: tuple(seconds) for name, seconds in times.items()}
        click.echo(f"{load.name} is done", err=True)
    return found


def measure_starts(arms: Sequence[StartArm], rounds: int) -> dict[str, tuple[float, ...]]:
    """Seconds by arm, arms in turn, after one round that does not count; raises ArmFailed."""
    times = [{arm.name: arm.seconds() for arm in arms} for _ in range(1 + rounds)]
    return {arm.name: tuple(each[arm.name] for each in times[1:]) for arm in arms}


def run(arms: Arms, effort: Effort, parts: Sequence[str], seed: int) -> CpuResult:
    """Everything; raises ArmFailed and ModelLoadError."""
    loads = [load for load in effort.loads if load.part in parts]
    with ExitStack() as stack:
        opened = arms.open(stack)
        ceiling = bandwidth(arms.threads)
        seconds = measure_loads(opened, loads, effort, seed)
        infos = {arm.name: arm.info for arm in opened}
    starts: dict[str, tuple[float, ...]] = {}
    if "start" in parts:
        with tempfile.TemporaryDirectory(prefix="radixchat-bench-") as folder:
            starts = measure_starts(arms.starts(Path(folder)), effort.starts)
    return CpuResult(infos, seconds, starts, ceiling)
