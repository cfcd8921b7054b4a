"""What the server takes from a client, at most: the numbers, with their defaults.

Standard library only. Knows no connection: whoever admits, reads or writes looks here. What
somebody may ask of an answer is ResponseOptions'.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from radixchat.engine.errors import ConfigError

_MEBIBYTE = 1 << 20
_OPTIONAL = ("max_open", "requests_per_minute", "tokens_per_day")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the edge; each is at least 1 (seconds: more than 0).

    A message: max_message_bytes of a WebSocket message and of an HTTP body, which has to be there
    body_seconds after its head; max_header_bytes of a request's head, which has to be there
    header_seconds after the connection.

    A connection: max_lanes in use at once; max_queued turns that wait in one lane; max_errors
    invalid messages in a row; max_queue_bytes or max_queue_events kept for a reader; a reader that
    takes nothing for stalled_seconds is cut; auth_seconds until the first message has the key,
    where that is asked; an open socket's key is looked at again every key_seconds.

    A principal: max_connections WebSockets at once; requests_per_minute that begin an answer;
    tokens_per_day generated (None: as many as it likes). All together: max_sockets, and max_open
    connections of any kind, those included that have not said what they want (None: twice as many
    as sockets). Sockets without their key yet are one principal, too.
    """

    max_message_bytes: int = 4 * _MEBIBYTE
    body_seconds: float = 30.0
    max_header_bytes: int = 64 << 10
    header_seconds: float = 20.0
    max_lanes: int = 8
    max_queued: int = 4
    max_errors: int = 10
    max_queue_bytes: int = _MEBIBYTE
    max_queue_events: int = 512
    stalled_seconds: float = 10.0
    auth_seconds: float = 10.0
    key_seconds: float = 10.0
    max_connections: int = 64
    max_sockets: int = 1000
    max_open: int | None = None
    requests_per_minute: int | None = None
    tokens_per_day: int | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None and field.name in _OPTIONAL:
                continue
            if isinstance(value, float):
                if not (value > 0 and math.isfinite(value)):
                    raise ConfigError(f"{field.name} is {value}; it must be more than 0")
            elif value < 1:
                raise ConfigError(f"{field.name} is {value}; it must be 1 or more")

    @property
    def open_connections(self) -> int:
        """How many connections may be open."""
        return 2 * self.max_sockets if self.max_open is None else self.max_open
