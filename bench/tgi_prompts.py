"""`TgiPrompts`: how TGI would cache the same traffic: prompts only.

Source: Text Generation Inference v3, `backends/v3/src/radix.rs` and `queue.rs`, with block size 1
(its default, FlashInfer). The mechanism:

- At admission the prompt is looked up, and room is made for all the rest of it and for the whole
  reply at once.
- Room is made from the leaf that was used longest ago, from its end, and no more than needed.
- At the end the prompt goes into the tree; the reply's K/V is freed. So the next turn of the
  conversation computes the reply again, now as a part of its prompt.
- Of a prompt that is cached as a whole the last token is computed again.

It knows nothing of our own index.
"""

from __future__ import annotations

from radixchat.bench.arm import UNIT_BYTES, computed_path
from radixchat.bench.leaf_tree import LeafTree
from radixchat.bench.trace_item import TraceRequest, TraceSignal


class TgiPrompts:
    """The tree of prompts, and the capacity."""

    name = "tgi"
    ignores = (
        "requests run one at a time, and the room reserved for a reply is its real length instead "
        "of the most that was allowed; it has no namespaces, they are kept apart all the same"
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
        """Match, make room for prompt and reply, keep the prompt."""
        num_needed, num_prompt = len(computed_path(request)), len(request.prompt)
        if num_needed > self._num_units:
            self.too_long += 1
            return 0
        units = request.prompt.tobytes()
        node, cached = self._tree.walk(request.namespace, units)
        self._tree.lock(node)
        self._make_room(num_needed - cached)
        if cached < num_prompt:
            node = self._tree.append(node, units[cached * UNIT_BYTES :])
        self._tree.unlock(node)
        return min(cached, num_prompt - 1)

    def signal(self, signal: TraceSignal) -> None:
        """The engine is not told."""

    def _make_room(self, count: int) -> None:
        """Trim leaves until `count` units are free."""
        while (missing := count - (self._num_units - self._tree.num_units)) > 0:
            leaf = self._tree.victim()
            assert leaf is not None, "what is not locked by the one request can be evicted"
            self.evicted_units += self._tree.trim(leaf, missing)
