"""How much of a conversation's tree is cached: the prompts that lead to its ends, and each share.

    root ── u1 ── a1 ── u2 ── a2      two ends, two prompts; what both begin with is looked up twice
                   └─── u3 ── a3      and is the same

Knows no cache and no store: messages in, prompts out; lengths in, shares out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from radixchat.server.conversation import Conversation
from radixchat.server.message import Message
from radixchat.server.prompt import PromptBuilder


@dataclass(frozen=True, slots=True)
class Branch:
    """A path from the root to an end, as the exact tokens of a prompt.

    shares: of each message that has tokens of its own in it, where these begin and end.
    """

    token_ids: tuple[int, ...]
    shares: Mapping[str, tuple[int, int]]


def branches(messages: Sequence[Message], prompts: PromptBuilder) -> list[Branch]:
    """Those of a tree whose tokens are this model's; each message of it stands after its parent."""
    by_id = {message.id: message for message in messages}
    parents = {message.parent for message in messages}
    found: list[Branch] = []
    for end in (message for message in messages if message.id not in parents):
        path, at = [end], end.parent
        while at is not None and at in by_id:
            path.append(by_id[at])
            at = by_id[at].parent
        branch = Conversation("", tuple(reversed(path)))
        ids = prompts.stored_ids(branch)
        if ids is not None:
            found.append(Branch(ids, _shares(branch)))
    return found


def cached_tokens(branch: Branch, length: int) -> dict[str, tuple[int, int]]:
    """Of each message its tokens, and how many of these are among the branch's first `length`."""
    return {
        message: (end - start, min(max(length - start, 0), end - start))
        for message, (start, end) in branch.shares.items()
    }


def _shares(branch: Conversation) -> dict[str, tuple[int, int]]:
    shares: dict[str, tuple[int, int]] = {}
    start = 0
    for message in branch.since_absolute:
        end = start + len(message.token_ids)
        if end > start:
            shares[message.id] = (start, end)
        start = end
    return shares
