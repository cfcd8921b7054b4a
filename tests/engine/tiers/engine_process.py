"""A process whose children answer over a disk tier until they are killed.

A line of input, `seed calls`, starts a child. It says `answer NUMBER DISK TOKEN TOKEN …` for each
prompt; with calls > 0 it kills itself at so many-th writes or flushes of a file, in the middle of a
write or just after. `ended STATUS` follows. The parent has loaded all that a child needs, and has
computed nothing: so a start takes no seconds.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from radixchat.engine.config import EngineConfig
from radixchat.engine.engine import Engine
from radixchat.engine.request import Request
from radixchat.engine.tiers import disk_slots
from radixchat.engine.tiers.disk_store import DiskStore
from radixchat.engine.weights import Checkpoint, load_checkpoint
from radixchat.tests.engine.driver import greedy, prompt

KIND = {"test": "kills"}
PROMPTS, LENGTH, ANSWER = 6, 180, 6
POOL, QUOTA = 512, 8 << 20
MANY = 10_000


def asked(number: int) -> list[int]:
    """The prompt of that number: one of PROMPTS, another, or what goes on after a beginning."""
    if number % 2 or number < PROMPTS:
        return prompt(LENGTH, number)
    return [*prompt(LENGTH - 20, number % PROMPTS), *prompt(20, number)]


def store_of(folder: Path, page_bytes: int) -> DiskStore:
    """The children's store."""
    return DiskStore(folder, KIND, page_bytes, QUOTA)


def tell(*words: object) -> None:
    """One line, whole."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def die_at(calls: int, rng: random.Random) -> None:
    """Kill this process at so many-th call that changes a file of pages."""
    left = calls

    def counted(call: Callable[..., Any], *, halves: bool) -> Callable[..., Any]:
        def counting(file: int, *arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                if halves and rng.random() < 0.7:
                    data, offset = arguments
                    call(file, data[: rng.randrange(len(data))], offset)
                elif rng.random() < 0.5:
                    call(file, *arguments)
                os.kill(os.getpid(), signal.SIGKILL)
            return call(file, *arguments)

        return counting

    os.pwrite = counted(os.pwrite, halves=True)
    disk_slots.flush_data = counted(disk_slots.flush_data, halves=False)


def serve(checkpoint: Checkpoint, folder: Path, seed: int, calls: int) -> None:
    """Answer for ever."""
    rng = random.Random(seed)
    if calls:
        die_at(calls, rng)
    config = EngineConfig(threads=1, pool_tokens=POOL, eviction="lru", tier_gate="always")
    engine = Engine(checkpoint, config, make_store=lambda _, size: store_of(folder, size))
    number = 0
    for turn in range(MANY):
        # What everybody asks; or what nobody has asked, and then once more: so it is written.
        if turn % 2 == 0:
            number = rng.randrange(rng.choice((PROMPTS, MANY)))
        request = Request(turn, asked(number), greedy(ANSWER))
        engine.submit(request)
        disk = 0
        while engine.has_work:
            for event in engine.step():
                disk = event.usage.disk_tokens if event.usage is not None else disk
        tell("answer", number, disk, *request.tokens[request.num_prompt :])
        while engine.has_chores:
            engine.do_chores()


def main() -> None:
    """For each line of input a child."""
    checkpoint, folder = load_checkpoint(Path(sys.argv[1])), Path(sys.argv[2])
    tell("ready")
    for line in sys.stdin:
        seed, calls = map(int, line.split())
        child = os.fork()
        if child == 0:
            try:
                serve(checkpoint, folder, seed, calls)
            finally:
                os._exit(1)
        tell("child", child)
        _, status = os.waitpid(child, 0)
        tell("ended", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
