"""`SglangLeaves`: how SGLang would cache the same traffic: a radix tree that loses whole leaves.

Source: RadixAttention (NeurIPS'24, arXiv 2312.07104) as in SGLang 0.5,
`python/sglang/srt/mem_cache/radix_cache.py`, page size 1 and the `lru` policy, its defaults. The
mechanism:

- A prompt is matched to the token, all but its last; the match splits the node where it ends, and
  the whole of that node counts as used.
- When the free tokens do not suffice for the rest of a prompt, leaves are evicted until as many
  tokens as the *rest* came free, whatever was free before; each leaf goes as a whole, the least
  recently used first. While decoding, the same for one token at a time.
- The prompt is in the tree after prefill, prompt and reply at the end.

It knows nothing of our own index.
"""

from __future__ import annotations

from radixchat.bench.arm import UNIT_BYTES, computed_path
from radixchat.bench.leaf_tree import LeafTree, Span
from radixchat.bench.trace_item import TraceRequest, TraceSignal


class SglangLeaves:
    """The tree, and how many units are free."""

    name = "sglang"
    ignores = (
        "requests run one at a time and in the order of the trace: no cache-aware scheduling, no "
        "retraction, no chunks; HiCache's host tier and sliding windows are left out"
    )
    page_size = 1

    def __init__(self, num_units: int) -> None:
        self.evicted_units = 0
        self.too_long = 0
        self._num_units = num_units
        self._tree = LeafTree()

    @property
    def num_cached_units(self) -> int:
        """Units in the tree."""
        return self._tree.num_units

    def serve(self, request: TraceRequest) -> int:
        """Match, make room, compute, insert."""
        path = computed_path(request)
        if len(path) > self._num_units:
            self.too_long += 1
            return 0
        units, num_prompt = path.tobytes(), len(request.prompt)
        known = units[: (num_prompt - 1) * UNIT_BYTES]
        node, cached = self._tree.walk(request.namespace, known)
        self._tree.lock(node)
        missing = num_prompt - cached
        if self._num_free < missing:
            self._evict(missing)
        node = self._insert(request.namespace, node, units[: num_prompt * UNIT_BYTES])
        while self._num_free < len(path) - num_prompt:
            self._evict(1)
        node = self._insert(request.namespace, node, units)
        self._tree.unlock(node)
        return cached

    def signal(self, signal: TraceSignal) -> None:
        """The engine is not told."""

    @property
    def _num_free(self) -> int:
        return self._num_units - self._tree.num_units

    def _evict(self, count: int) -> None:
        """Drop leaves until `count` units came free, or all that is left is locked."""
        while count > 0 and (leaf := self._tree.victim()) is not None:
            dropped = self._tree.remove(leaf)
            self.evicted_units += dropped
            count -= dropped

    def _insert(self, namespace: bytes, held: Span, units: bytes) -> Span:
        """Have the tree hold all `units`, and move the lock on `held` to where they end."""
        node, known = self._tree.walk(namespace, units)
        self._tree.lock(node)
        self._tree.unlock(held)
        rest = units[known * UNIT_BYTES :]
        return self._tree.append(node, rest) if rest else node
