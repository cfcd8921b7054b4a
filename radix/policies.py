"""`make_policy`: an eviction policy by its name. Knows what each needs, and how none decides."""

from __future__ import annotations

from collections.abc import Callable

from radixchat.radix.chat_policy import ChatPolicy
from radixchat.radix.conversation_table import MAX_CONVERSATIONS
from radixchat.radix.eviction import EvictionPolicy, LruPolicy
from radixchat.radix.slru import SlruPolicy
from radixchat.radix.tlru import TlruPolicy

POLICY_NAMES = ("lru", "slru", "tlru", "chat")


def make_policy(name: str, num_pages: int, clock: Callable[[], float]) -> EvictionPolicy:
    """The policy for a pool of `num_pages` pages whose uses are timed by `clock`, in seconds.

    Raises ValueError when there is no policy of that name.
    """
    match name:
        case "lru":
            return LruPolicy()
        case "slru":
            return SlruPolicy(num_pages)
        case "tlru":
            return TlruPolicy()
        case "chat":
            # What is remembered of conversations may not outgrow what is cached of them.
            return ChatPolicy(clock, min(MAX_CONVERSATIONS, max(1_000, 4 * num_pages)))
        case _:
            raise ValueError(f"policy is {name!r}; it must be one of {', '.join(POLICY_NAMES)}")
