"""Trees of a chosen size for measurements of the index. Knows no clock and prints nothing.

    16 system prompts of 256 tokens
    ├── n chats, each of 64 tokens of its own: the leaves
    └── 32 long chats of 2,048 tokens, each left by another branch at every 256th: 8 nodes deep

A quarter each of the chats is connected, in the background, disconnected and closed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from radixchat.radix.allocation import Allocation
from radixchat.radix.cache import PrefixCache
from radixchat.radix.eviction import EvictionPolicy
from radixchat.radix.policies import make_policy
from radixchat.radix.use import Signal

Prompt = NDArray[np.int32]

PAGE_SIZE = 16
LONG = 2_048
OWN = 64
_NUM_SYSTEM, _SYSTEM = 16, 256
_NUM_LONG, _BRANCH = 32, 256
_VOCABULARY = 50_000
_AWAY = (Signal.CONNECTED, Signal.AWAY, Signal.DISCONNECTED, Signal.CLOSED)


def make_cache(policy: str, num_pages: int) -> PrefixCache:
    """An empty cache in pages of `PAGE_SIZE`, on the real clock."""
    return PrefixCache(num_pages, PAGE_SIZE, _policy(policy, num_pages))


def _policy(name: str, num_pages: int) -> EvictionPolicy:
    return make_policy(name, num_pages, time.monotonic)


def serve(cache: PrefixCache, prompt: Prompt, conversation: str | None = None) -> None:
    """Allocate, commit and release a prompt that fits: one whole turn."""
    allocation = hold(cache, prompt, conversation)
    if conversation is not None:
        cache.observe(conversation, Signal.STARTED)
    cache.commit(allocation, prompt)
    cache.release(allocation)
    if conversation is not None:
        cache.observe(conversation, Signal.FINISHED)


def hold(cache: PrefixCache, prompt: Prompt, conversation: str | None = None) -> Allocation:
    """Allocate a prompt that fits; the copy it may ask for is taken as done."""
    allocation = cache.allocate(prompt, b"", conversation)
    assert allocation is not None, "the pool was sized for more"
    allocation.copies.clear()
    return allocation


class GrownIndex:
    """A cache with `num_leaves` leaves and room for `spare_pages` more."""

    def __init__(self, num_leaves: int, policy: str, seed: int, spare_pages: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        branches = LONG // _BRANCH
        long_pages = (LONG + branches * (_BRANCH + OWN)) // PAGE_SIZE
        num_pages = _NUM_SYSTEM * _SYSTEM // PAGE_SIZE + num_leaves * (OWN // PAGE_SIZE + 1)
        num_pages += _NUM_LONG * long_pages + spare_pages
        self.policy = _policy(policy, num_pages)
        self.cache = PrefixCache(num_pages, PAGE_SIZE, self.policy)
        self._system = self.tokens(_NUM_SYSTEM, _SYSTEM)
        self.long = self.tokens(_NUM_LONG, LONG)
        self.long[:, :_SYSTEM] = self._system[np.arange(_NUM_LONG) % _NUM_SYSTEM]
        for number, prompt in enumerate(self.long):
            serve(self.cache, prompt, f"long {number}")
            for end in range(_SYSTEM + _BRANCH, LONG, _BRANCH):
                branch = np.concatenate([prompt[:end], self.tokens(1, OWN)[0]])
                serve(self.cache, branch, f"long {number}")
        self._add_chats(num_leaves)

    def tokens(self, count: int, length: int) -> Prompt:
        """Random tokens, in shape (count, length)."""
        return self.rng.integers(0, _VOCABULARY, (count, length), dtype=np.int32)

    def _add_chats(self, count: int) -> None:
        for number, prompt in enumerate(chats(self.rng, count, self._system)):
            serve(self.cache, prompt, f"chat {number}")
            self.cache.observe(f"chat {number}", _AWAY[number % len(_AWAY)])


def chats(rng: np.random.Generator, count: int, system: Prompt, own: int = OWN) -> Iterator[Prompt]:
    """Prompts that begin with one of the system prompts; no two go on with the same token."""
    prompt = np.empty(system.shape[1] + own, np.int32)
    for number in range(count):
        prompt[: system.shape[1]] = system[number % len(system)]
        prompt[system.shape[1] :] = rng.integers(0, _VOCABULARY, own)
        prompt[system.shape[1]] = _VOCABULARY + number
        yield prompt
