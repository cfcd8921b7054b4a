"""The engines that a replay can compare: our own cache, and simulations of four others.

Owns their names and how each is set up for a capacity. What an engine does is told in its own
module, and what its simulation leaves out in its `ignores`.
"""

from __future__ import annotations

from radixchat.bench.arm import CacheArm
from radixchat.bench.llamacpp_slots import LlamaCppSlots
from radixchat.bench.ours import OurCache
from radixchat.bench.sglang_leaves import SglangLeaves
from radixchat.bench.tgi_prompts import TgiPrompts
from radixchat.bench.vllm_blocks import VllmBlocks

ENGINE_NAMES = ("ours", "vllm", "sglang", "tgi", "llamacpp")

LLAMACPP_SLOTS = 4  # llama-server's default for --parallel; each holds as many units of its own


def make_arm(engine: str, *, capacity_units: int, page_size: int, policy: str = "lru") -> CacheArm:
    """An empty cache of `engine` for `capacity_units` units.

    page_size: units of a page of ours and of a block of vLLM's, whose own default is 16; the
    others keep single units. policy: of ours; the others have theirs. Raises ValueError for an
    unknown engine or policy, and for a capacity that holds no page.
    """
    if engine not in ENGINE_NAMES:
        raise ValueError(f"engine is {engine!r}; choose one of {', '.join(ENGINE_NAMES)}")
    if page_size < 1:
        raise ValueError(f"page_size is {page_size}; it must be at least 1")
    if capacity_units < page_size:
        raise ValueError(f"a capacity of {capacity_units} units holds no page of {page_size}")
    match engine:
        case "vllm":
            return VllmBlocks(capacity_units, page_size)
        case "sglang":
            return SglangLeaves(capacity_units)
        case "tgi":
            return TgiPrompts(capacity_units)
        case "llamacpp":
            return LlamaCppSlots(capacity_units, LLAMACPP_SLOTS, host_units=capacity_units)
        case _:
            return OurCache(capacity_units // page_size, page_size, policy)
