"""`VllmBlocks`: how vLLM would cache the same traffic: full blocks, freed tail first.

Source: vLLM's V1 engine, `vllm/v1/core/block_pool.py` and `single_type_kv_cache_manager.py`; the
paged pool is of the paper (SOSP'23, arXiv 2309.06180). The mechanism:

- Only full blocks are cached, under a hash chained over all blocks before; so a prompt's partly
  filled tail is never found. Blocks that fill up while decoding are cached too.
- A hit ends before the prompt's last token, which must be computed: of a prompt that is cached
  as a whole, and ends with a block, the last block is computed again. Its duplicate is kept.
- Free blocks wait in one queue, cached ones among them. A finished request's blocks join its end,
  the last one first; a hit takes its blocks out; who needs room takes blocks from the front, and
  what was cached in them is lost. So it is LRU by block, and of one request the tail goes first.

It knows nothing of our own index.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

from radixchat.bench.arm import UNIT_BYTES, computed_path
from radixchat.bench.trace_item import TraceRequest, TraceSignal


class _Block:
    """A block of the pool; `key` is its chained hash while it is cached, else empty."""

    __slots__ = ("key",)

    def __init__(self) -> None:
        self.key = b""


class VllmBlocks:
    """A pool of blocks, a map from chained hashes, and the queue of free blocks."""

    name = "vllm"
    ignores = (
        "requests run one at a time, so no preemption and no batch competes for blocks; the null "
        "block, sliding windows, speculative slots and KV connectors are left out"
    )

    def __init__(self, num_units: int, block_size: int) -> None:
        self.page_size = block_size
        self.evicted_units = 0
        self.too_long = 0
        self._num_blocks = num_units // block_size
        self._unused = self._num_blocks  # they stand before all others in the queue
        self._free: OrderedDict[_Block, None] = OrderedDict()
        self._cached: dict[bytes, list[_Block]] = {}
        self._num_cached = 0

    @property
    def num_cached_units(self) -> int:
        """Units in cached blocks, duplicates counted each."""
        return self._num_cached * self.page_size

    def serve(self, request: TraceRequest) -> int:
        """Take the cached blocks, compute the rest, free all."""
        path = computed_path(request)
        needed = -(-len(path) // self.page_size)
        if needed > self._num_blocks:
            self.too_long += 1
            return 0
        keys = chained_hashes(request.namespace, path.tobytes(), self.page_size)
        blocks: list[_Block] = []
        for key in keys[: max(0, len(request.prompt) - 1) // self.page_size]:
            cached = self._cached.get(key)
            if cached is None:
                break
            blocks.append(cached[0])
        num_hits = len(blocks)
        for block in blocks:
            del self._free[block]
        blocks += [self._take() for _ in range(needed - num_hits)]
        for block, key in zip(blocks[num_hits:], keys[num_hits:], strict=False):
            block.key = key
            self._cached.setdefault(key, []).append(block)
            self._num_cached += 1
        self._free.update((block, None) for block in reversed(blocks))
        return num_hits * self.page_size

    def signal(self, signal: TraceSignal) -> None:
        """The engine is not told."""

    def _take(self) -> _Block:
        """The block at the front of the queue, without what was cached in it."""
        if self._unused:
            self._unused -= 1
            return _Block()
        block, _ = self._free.popitem(last=False)
        if block.key:
            same = self._cached[block.key]
            same.remove(block)
            if not same:
                del self._cached[block.key]
            block.key = b""
            self._num_cached -= 1
            self.evicted_units += self.page_size
        return block


def chained_hashes(namespace: bytes, units: bytes, block_size: int) -> list[bytes]:
    """One hash for each full block of int32 `units`, over it and all before it."""
    step = block_size * UNIT_BYTES
    parent = blake2b(namespace, digest_size=16).digest()
    hashes = []
    for start in range(0, len(units) - step + 1, step):
        parent = blake2b(parent + units[start : start + step], digest_size=16).digest()
        hashes.append(parent)
    return hashes
