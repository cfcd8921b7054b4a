"""How much of a conversation's tree is cached: the prompts that lead to its ends, and each share.

    root ── u1 ── a1 ── u2 ── a2      two ends, two prompts; what both begin with is told once,
                   └─── u3 ── a3      with the first

Knows no cache and no store: messages in, prompts out; lengths in, shares out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from radixchat.server.message import Message


@dataclass(frozen=True, slots=True)
class Branch:
    """A path from the root to an end, as the exact tokens of a prompt.

    shares: where the tokens begin and end of each message that has any here, and is in no branch
    before this one. after: the message of a branch before it that these follow.
    """

    token_ids: tuple[int, ...]
    shares: Mapping[str, tuple[int, int]]
    after: str | None


@dataclass(slots=True)
class _Prompt:
    """What a path has from its last absolute message on; all that branch off in it share it."""

    token_ids: list[int] = field(default_factory=list)
    shares: list[tuple[str, int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Step:
    """A message, and its parent's prompt: of that the first `tokens`, in the first `shares`."""

    message: Message
    prompt: _Prompt
    tokens: int
    shares: int
    is_ours: bool


def branches(messages: Sequence[Message], render_hash: str) -> Iterator[Branch]:
    """Those of a tree whose tokens are that rendering's, one by one; a large tree has megabytes.

    A branch comes right after the one that it leaves last.
    """
    children: dict[str | None, list[Message]] = {}
    known = {message.id for message in messages}
    for message in messages:
        parent = message.parent if message.parent in known else None
        children.setdefault(parent, []).append(message)
    told = set[str]()
    waiting = [_Step(root, _Prompt(), 0, 0, True) for root in reversed(children.get(None, []))]
    while waiting:
        step = waiting.pop()
        message, prompt = step.message, step.prompt
        is_ours = message.render_hash == render_hash and (message.absolute or step.is_ours)
        if message.absolute:
            prompt = _Prompt()
        else:
            del prompt.token_ids[step.tokens :], prompt.shares[step.shares :]
        start = len(prompt.token_ids)
        prompt.token_ids += message.token_ids
        end = len(prompt.token_ids)
        if end > start:
            prompt.shares.append((message.id, start, end))
        below = children.get(message.id, [])
        waiting += (
            _Step(child, prompt, end, len(prompt.shares), is_ours) for child in reversed(below)
        )
        if is_ours and not below:
            yield _branch(prompt, told)


def cached_tokens(branch: Branch, length: int) -> dict[str, tuple[int, int]]:
    """Of each message its tokens, and how many of these are among the branch's first `length`."""
    return {
        message: (end - start, min(max(length - start, 0), end - start))
        for message, (start, end) in branch.shares.items()
    }


def _branch(prompt: _Prompt, told: set[str]) -> Branch:
    """told: the messages of the branches so far; this one's are added."""
    index = len(prompt.shares)
    while index and prompt.shares[index - 1][0] not in told:
        index -= 1
    new = {message: (start, end) for message, start, end in prompt.shares[index:]}
    told.update(new)
    after = prompt.shares[index - 1][0] if index else None
    return Branch(tuple(prompt.token_ids), new, after)
