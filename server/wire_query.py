"""The queries of GET requests. Wire values, standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from radixchat.server.wire_input import Id
from radixchat.server.wire_value import Bound

PageSize = Annotated[int, Bound(ge=1, le=100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseQuery:
    """Of GET /v1/responses/{id}; starting_after: only the events after that number, of a stream.

    continue: a response that the server's end cut short goes on where it stopped; of a stream.
    """

    stream: bool = False
    starting_after: Annotated[int, Bound(ge=-1)] = -1
    continue_: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """One page of a list; after: the id that the page before ended with."""

    limit: PageSize = 20
    after: Id | None = None
    order: Literal["asc", "desc"] = "desc"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """query: words, all of which a message has."""

    query: Annotated[str, Bound(min_length=1, max_length=1000)]
    limit: PageSize = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportQuery:
    """format: "json" has everything, "markdown" is to be read."""

    format: Literal["json", "markdown"] = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheQuery:
    """conversation: whose path is marked in the tree."""

    conversation: Id | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushQuery:
    """scope: "own", what is cached for the caller; "all", of everybody: an operator's."""

    scope: Literal["own", "all"] = "own"
