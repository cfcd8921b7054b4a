"""How fast this machine's threads read memory together: the ceiling of a decode step.

\b
    python -m radixchat.bench.cpu_bandwidth THREADS      bytes a second

A process of its own, as an arm is.
"""

from __future__ import annotations

import subprocess
import sys
import time

import torch

from radixchat.bench.cpu_arm import SHOWN_ERRORS, ArmFailed

ARRAY_BYTES = 512 * 2**20  # no cache holds it
ROUNDS = 8  # the fastest counts: a ceiling is what can be reached


def bandwidth(threads: int) -> float:
    """Bytes a second, measured by a fresh process; raises ArmFailed."""
    command = [sys.executable, "-m", "radixchat.bench.cpu_bandwidth", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ArmFailed(f"memory bandwidth: {done.stderr.strip()[-SHOWN_ERRORS:]}")
    return float(done.stdout)


def measure(threads: int, array_bytes: int = ARRAY_BYTES) -> float:
    """Bytes a second of so many threads, each adding up a part of an array.

    torch's sum of int64, two threads: 49.8 GB/s where a Numba loop of four sums reached 47.4.
    """
    torch.set_num_threads(threads)
    words = torch.ones(array_bytes // 8, dtype=torch.int64)
    best = 0.0
    for _ in range(ROUNDS):
        began = time.perf_counter()
        total = words.sum()
        best = max(best, words.nbytes / (time.perf_counter() - began))
        assert total == len(words)
    return best


if __name__ == "__main__":
    print(measure(int(sys.argv[1])))
