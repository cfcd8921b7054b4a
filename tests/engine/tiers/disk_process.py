"""A process that works in a folder of pages: what it does is its argument, what came, its output.

write FOLDER QUOTA FIRST    writes pages from FIRST on for ever, a line for each 16 it has
fill FOLDER QUOTA FIRST N   the same for N pages, and keeps watch over the quota
"""

from __future__ import annotations

import os
import select
import sys
from itertools import count
from pathlib import Path

from radixchat.engine.tiers.disk_folder import bytes_on_disk
from radixchat.tests.engine.tiers.disk_page import got, make, pages


def tell(*numbers: int) -> None:
    sys.stdout.write(" ".join(map(str, numbers)) + "\n")
    sys.stdout.flush()


def write(folder: Path, quota: int, first: int) -> None:
    store = make(folder, quota)
    for start in count(first, 16):
        done = store.put(pages(*range(start, start + 16)))
        tell(start, done)


def read(folder: Path, quota: int, number: int) -> None:
    store = make(folder, quota)
    hits = rounds = 0
    tell(got(store, 0))
    waiting = select.poll()
    waiting.register(sys.stdin, select.POLLIN | select.POLLHUP)
    while not waiting.poll(0):
        hits += sum(got(store, *range(start, number)) for start in range(0, number, 8))
        rounds += 1
    assert store.problem is None
    store.close()
    tell(hits, rounds)


def fill(folder: Path, quota: int, first: int, number: int) -> None:
    most = 0
    allocate = os.posix_fallocate

    def watched(file: int, offset: int, length: int) -> None:
        nonlocal most
        allocate(file, offset, length)
        most = max(most, bytes_on_disk(folder))

    os.posix_fallocate = watched
    store = make(folder, quota)
    done = 0
    for start in range(first, first + number, 16):
        done += store.put(pages(*range(start, start + 16)))
        most = max(most, bytes_on_disk(folder))
    store.close()
    tell(done, most)


if __name__ == "__main__":
    command, place, *numbers = sys.argv[1:]
    if command == "write":
        write(Path(place), *map(int, numbers))
    elif command == "read":
        read(Path(place), *map(int, numbers))
    else:
        fill(Path(place), *map(int, numbers))
