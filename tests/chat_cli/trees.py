"""Trees of messages, written as links: "parent-child". Knows no service."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from radixchat.server.protocol import TreeMessage

ROLES: Mapping[str, str] = MappingProxyType({"s": "system", "u": "user", "v": "user"})
NO_TEXTS: Mapping[str, str] = MappingProxyType({})
NO_WARMTH: Mapping[str, tuple[int, int]] = MappingProxyType({})


def tree(
    *links: str,
    path: str = "",
    after: float = 0.0,
    texts: Mapping[str, str] = NO_TEXTS,
    warmth: Mapping[str, tuple[int, int]] = NO_WARMTH,
    statuses: Mapping[str, str] = NO_TEXTS,
) -> tuple[TreeMessage, ...]:
    """Messages by their ids, one after another in time; s…: system, u… and v…: user, else: answers.

    path: the ids on it. texts: of those that do not say their id. warmth: tokens, and the cached.
    """
    on_path = path.split()
    messages = []
    for number, link in enumerate(links):
        parent, _, name = link.rpartition("-")
        tokens, cached = warmth.get(name, (None, None))
        messages.append(
            TreeMessage(
                id=name,
                parent=parent or None,
                role=ROLES.get(name[0], "assistant"),
                text=texts.get(name, f"text of {name}"),
                status=statuses.get(name, "complete"),
                on_path=name in on_path,
                responses=(),
                created_at=after + number,
                tokens=tokens,
                cached=cached,
            )
        )
    return tuple(messages)
