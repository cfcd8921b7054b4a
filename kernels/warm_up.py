"""The first run on a machine: compiles what a step on the CPU runs, and says so.

Numba keeps what it compiled in a folder; a stamp beside it tells the next start, before anything
is loaded, that nothing is left to do. Imports without Numba. Knows no model.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from radixchat.kernels.kv_pages import empty_pages
from radixchat.kernels.layers import LayerShape, LayerWeights
from radixchat.kernels.ragged import ragged

DIM = 16
SIZE = 32


def warm_up(report: Callable[[str], None]) -> None:
    """Compile the CPU's kernels unless an earlier run has; report gets a line before, one after."""
    from radixchat.kernels import cpu_jit  # Numba is slow to import, and a GPU needs none

    folder = cpu_jit.cache_folder()
    compile_once(None if folder is None else folder / cpu_jit.COMPLETE, report)


def compiled_folder() -> Path | None:
    """Where every kernel is kept; None: some are compiled yet. Compiles and makes nothing."""
    from radixchat.kernels import cpu_jit

    return cpu_jit.complete_folder()


def compile_once(stamp: Path | None, report: Callable[[str], None]) -> None:
    """As warm_up; stamp: the file that says it has been done, None where nothing is kept.

    Of several processes one compiles; the others wait for it, and say that instead.
    """
    if stamp is not None and stamp.exists():
        return
    with contextlib.nullcontext() if stamp is None else _alone(stamp.with_suffix(".lock"), report):
        if stamp is not None and stamp.exists():
            report("another process has compiled the kernels for this CPU")
            return
        _compile(stamp, report)


def _compile(stamp: Path | None, report: Callable[[str], None]) -> None:
    report("compiling kernels for this CPU, once, which takes about half a minute …")
    began = time.perf_counter()
    _run_everything()
    if stamp is not None:
        _leave(stamp)
    where = "; there is no folder to keep them in" if stamp is None else ""
    report(f"compiled in {time.perf_counter() - began:.0f} s{where}")


@contextlib.contextmanager
def _alone(lock: Path, report: Callable[[str], None]) -> Iterator[None]:
    """No other process is within the block; it is left with the process, however that ends."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # no such folder, or a file system without locks
            file = stack.enter_context(lock.open("w"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report("another process is compiling kernels for this CPU: waiting for it …")
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run_everything() -> None:
    """The smallest model there can be, its weights in every format that has code of its own.

    The kernels are compiled for addresses and numbers, so what is compiled here serves all shapes.
    """
    from radixchat.kernels import cpu_pack
    from radixchat.kernels.cpu_layers import CpuLayers
    from radixchat.kernels.cpu_product import product

    # Codes that lie in a row, of 4 and of 8 bits, and codes that a block mixes.
    for kind, num_bytes in (("Q4_1", 20), ("Q8_0", 34), ("Q4_K", 144)):
        cpu_pack.pack_blocks(kind, torch.zeros(1, 1, num_bytes, dtype=torch.uint8))
    four_bits = cpu_pack.pack_blocks("Q4_1", torch.zeros(2 * SIZE, 1, 20, dtype=torch.uint8))
    eight_bits = cpu_pack.pack_int8(torch.zeros(SIZE, SIZE))
    floats = cpu_pack.pack_fp32(torch.zeros(3 * DIM, SIZE))
    joined = cpu_pack.join([eight_bits, four_bits])
    cpu_pack.unpack(joined)
    hidden = cpu_pack.take_rows(joined, torch.zeros(1, dtype=torch.int64))
    ones = torch.ones(SIZE)
    attended = cpu_pack.pack_fp32(torch.zeros(SIZE, DIM))
    layer = LayerWeights(ones, floats, attended, ones, four_bits, eight_bits)
    stack = CpuLayers(LayerShape(1, 1, DIM, 1e-5), [layer], threads=1)
    pages = empty_pages(1, 1, 1, DIM, DIM, torch.float32, "cpu")
    angles = torch.zeros(1, DIM // 2)
    stack(hidden, angles, angles, pages, ragged([1], [1], [[0]], DIM, 1, "cpu"))
    product(hidden, joined)


def _leave(stamp: Path) -> None:
    try:
        stamp.touch()
    except OSError:
        return  # a full disk: Numba could not keep its code either, and the next start says so
