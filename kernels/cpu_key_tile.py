"""A tile of 256 keys of one request and KV head, made readable for the row blocks.

Finds what lies in whole vectors in its page; copies K only where a page size is no multiple of 16
or its layout is not that of the CPU. Knows no query.

```
  scratch:  K addresses [32] | V addresses [256 + AHEAD] | K scales [256] | V scales [256] | K copy
            of 16 keys each, then   of one key each, then
            V's first               the next tile's K        what is wanted next, to be fetched
```
"""

from __future__ import annotations

from typing import Any

from radixchat.kernels import cpu_kv as f
from radixchat.kernels.cpu_bytes import copy_byte, load_word, prefetch, store_word
from radixchat.kernels.cpu_jit import jit
from radixchat.kernels.cpu_plan import KEY_TILE
from radixchat.kernels.cpu_row_block import AHEAD, VECTORS
from radixchat.kernels.cpu_simd import (
    LANE_BYTES,
    WIDTH,
    load_half,
    load_half_scalar,
    load_scalar,
    store,
    store_scalar,
)

K_AT = 0
V_AT = 8 * 2 * WIDTH
K_SCALES = V_AT + 8 * (KEY_TILE + AHEAD)
V_SCALES = K_SCALES + 4 * KEY_TILE
_K_COPY = V_SCALES + 4 * KEY_TILE


def tile_bytes(dim: int) -> int:
    """Bytes of scratch that `find_tile` fills."""
    return _K_COPY + 4 * KEY_TILE * dim


@jit
def find_tile(kv: Any, table: Any, head: int, start: int, end: int, last: int, scratch: int) -> int:
    """Addresses and scales of the keys start..end-1, at most a tile; returns K's bytes per dim.

    kv: a row of `describe_kv`; table: the request's pages; last: where the keys end that will be
    read after this tile, or `end`. K addresses come for 16 keys each, the last one repeated up to
    a multiple of VECTORS; the lanes behind the last key hold anything.
    """
    page_size, count = kv[f.PAGE_SIZE], end - start
    size = 1 if kv[f.K_SCALE] else 4
    direct = page_size % WIDTH == 0 and kv[f.K_SLOT] == size
    i = 0
    while i < count:  # a run of keys of one page
        page, offset = table[(start + i) // page_size], (start + i) % page_size
        k = kv[f.K] + page * kv[f.K_PAGE] + head * kv[f.K_HEAD] + offset * kv[f.K_SLOT]
        v = kv[f.V] + page * kv[f.V_PAGE] + head * kv[f.V_HEAD] + offset * kv[f.V_SLOT]
        run = min(count - i, page_size - offset)
        for j in range(run):
            store_word(scratch + V_AT + 8 * (i + j), v + j * kv[f.V_SLOT])
        if direct:
            for j in range(0, run, WIDTH):
                store_word(scratch + K_AT + (i + j) // 2, k + j * size)
        else:
            for j in range(run):
                _copy_key(kv, k + j * kv[f.K_SLOT], i + j, size, scratch + _K_COPY)
        i += run
    if not direct:
        for i in range(0, count, WIDTH):
            k = scratch + _K_COPY + i * kv[f.DIM] * size
            store_word(scratch + K_AT + 8 * (i // WIDTH), k)
    vectors = (count + WIDTH - 1) // WIDTH
    whole = (vectors + VECTORS - 1) // VECTORS * VECTORS
    final = load_word(scratch + K_AT + 8 * (vectors - 1))
    for i in range(vectors, whole):
        store_word(scratch + K_AT + 8 * i, final)
    for i in range(VECTORS):
        v = load_word(scratch + V_AT + 8 * min(WIDTH * i, count - 1))
        store_word(scratch + K_AT + 8 * (whole + i), v)
    for i in range(AHEAD):
        store_word(scratch + V_AT + 8 * (count + i), v)
    if direct and last > end:
        _expect(kv, table, head, end, min(last, end + KEY_TILE), size, scratch + V_AT + 8 * count)
    if kv[f.K_SCALE]:
        _take_scales(kv, table, head, start, end, scratch)
    return kv[f.K_DIM] if direct else WIDTH * size


@jit
def _expect(kv: Any, table: Any, head: int, start: int, end: int, size: int, entries: int) -> None:
    """Have the next tile come: its first K rows behind the table of V rows, its scales at once."""
    page_size, line = kv[f.PAGE_SIZE], kv[f.DIM] * size
    for position in range(start, end, page_size):
        page = table[position // page_size]
        if position - start < AHEAD:
            k = kv[f.K] + page * kv[f.K_PAGE] + head * kv[f.K_HEAD]
            for i in range(min(page_size, AHEAD - (position - start))):
                store_word(entries + 8 * (position - start + i), k + i * line)
        if size == 1:
            scales = page * kv[f.SCALE_PAGE] + head * kv[f.SCALE_HEAD]
            prefetch(kv[f.K_SCALE] + scales)
            prefetch(kv[f.V_SCALE] + scales)


@jit
def _copy_key(kv: Any, k: int, i: int, size: int, copy: int) -> None:
    """K of one position into the copy, whose blocks [dim, 16] hold 16 keys each."""
    dim, k_dim = kv[f.DIM], kv[f.K_DIM]
    target = copy + (i // WIDTH) * dim * WIDTH * size + (i % WIDTH) * size
    for d in range(dim):
        if size == 1:
            copy_byte(k + d * k_dim, target + d * WIDTH)
        else:
            store_scalar(target + d * LANE_BYTES, load_scalar(k + d * k_dim))


@jit
def _take_scales(kv: Any, table: Any, head: int, start: int, end: int, scratch: int) -> None:
    page_size = kv[f.PAGE_SIZE]
    together = WIDTH if page_size % WIDTH == 0 and kv[f.SCALE_SLOT] == 2 else 1
    for i in range(0, end - start, together):
        page, offset = table[(start + i) // page_size], (start + i) % page_size
        at = page * kv[f.SCALE_PAGE] + head * kv[f.SCALE_HEAD] + offset * kv[f.SCALE_SLOT]
        k, v = scratch + K_SCALES + 4 * i, scratch + V_SCALES + 4 * i
        if together == 1:
            store_scalar(k, load_half_scalar(kv[f.K_SCALE] + at))
            store_scalar(v, load_half_scalar(kv[f.V_SCALE] + at))
        else:
            store(k, load_half(kv[f.K_SCALE] + at))
            store(v, load_half(kv[f.V_SCALE] + at))
