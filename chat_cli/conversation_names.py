"""What conversations are called, and which one a name or the beginning of an id means.

Takes the list of them. Knows no terminal: names are shown through Notes, which neutralise them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from radixchat.server.heading import heading
from radixchat.server.protocol import ConversationView, InvalidRequest

MAX_NAME = 200
SHORT_ID = 17
"""Characters of an id that are shown: the time it was made, and then some."""
_MIN_PREFIX = 4
_CANDIDATES = 5
_PAGE = 100


class HasConversations(Protocol):
    """A client, or whatever else has a list of them."""

    async def conversations(
        self, limit: int = 20, after: str | None = None
    ) -> list[ConversationView]:
        """The last changed first; after: those that follow that one."""


async def all_conversations(
    source: HasConversations, limit: int | None = None
) -> list[ConversationView]:
    """The last changed first, at most `limit`; None: all. Raises RadixChatError."""
    views: list[ConversationView] = []
    while True:
        size = _PAGE if limit is None else min(_PAGE, limit - len(views))
        page = await source.conversations(size, views[-1].id if views else None)
        views += page
        if len(page) < size or len(views) == limit:
            return views


def checked_name(name: str) -> str:
    """The name on one line. Raises InvalidRequest where it has nothing to see, or too much."""
    line = " ".join(name.split())
    if not line or not any(character.isprintable() for character in line):
        raise InvalidRequest(f"a name has at least one visible character, {name!r} has none")
    if len(line) > MAX_NAME:
        raise InvalidRequest(f"a name has at most {MAX_NAME} characters, this has {len(line):,}")
    if line.startswith("#"):
        raise InvalidRequest("a name does not begin with #: `/switch #N` goes to a branch")
    return line


def meant(name: str, views: Sequence[ConversationView]) -> list[ConversationView]:
    """Those of that name; or else with an id that begins so; or else with such a name.

    Capitals count only for whole names that differ in nothing else.
    """
    wanted = " ".join(name.split())
    folded = wanted.casefold()
    prefix = f"conv_{wanted.upper().removeprefix('CONV_')}"
    has_prefix = len(prefix) >= len("conv_") + _MIN_PREFIX
    rules: tuple[Callable[[ConversationView], bool], ...] = (
        lambda view: view.title == wanted,
        lambda view: " ".join(view.title.split()).casefold() == folded,
        lambda view: has_prefix and view.id.startswith(prefix),
        lambda view: " ".join(view.title.split()).casefold().startswith(folded),
    )
    for rule in rules if wanted else ():
        if found := [view for view in views if rule(view)]:
            return found
    return []


def named(name: str, views: Sequence[ConversationView]) -> ConversationView:
    """The one that is meant. Raises InvalidRequest where there is none, and where several are."""
    found = meant(name, views)
    if not found:
        raise InvalidRequest(
            f"no conversation's name or id begins with {name!r}; /list shows the last"
        )
    if len(found) > 1:
        some = ", ".join(described(view) for view in found[:_CANDIDATES])
        more = f" and {len(found) - _CANDIDATES} more" if len(found) > _CANDIDATES else ""
        raise InvalidRequest(f"{name!r} may be {some}{more}: say more of the name or the id")
    return found[0]


def called(view: ConversationView) -> str:
    """Its name, or how it begins."""
    return heading(view.title, view.opening) or "(nothing said yet)"


def described(view: ConversationView) -> str:
    """`"name" (conv_01M8P0RP7K0D, 3 turns)`."""
    return f'"{called(view)}" ({view.id[:SHORT_ID]}, {turns(view.num_turns)})'


def turns(count: int) -> str:
    """`1 turn`, `2 turns`."""
    return "1 turn" if count == 1 else f"{count:,} turns"
