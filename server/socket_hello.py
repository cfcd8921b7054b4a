"""What a connection says of itself and of the server: hello, heartbeat, draining.

Owns the version of the protocol and the names of its features.
"""

from __future__ import annotations

from importlib import metadata

from radixchat.server.departure import Departure
from radixchat.server.gate import RECONNECT_AFTER_MS
from radixchat.server.host import KEEP_S
from radixchat.server.limits import Limits
from radixchat.server.outbox import HEARTBEAT_S
from radixchat.server.service import ChatService
from radixchat.server.wire_server_events import (
    HelloLimits,
    HelloResume,
    ServerDrainingEvent,
    ServerHello,
)

PROTOCOL = 1
FEATURES = ("cache", "drafts", "resume", "sessions")


def server_hello(
    service: ChatService, limits: Limits, boot_id: str, in_reply_to: str | None
) -> ServerHello:
    """What a client that said hello is told first; boot_id: the host's."""
    return ServerHello(
        in_reply_to=in_reply_to,
        protocol=PROTOCOL,
        server_version=metadata.version("radixchat"),
        features=FEATURES,
        limits=HelloLimits(
            max_message_bytes=limits.max_message_bytes,
            max_lanes=limits.max_lanes,
            max_queued_per_lane=limits.max_queued,
            n_ctx=service.n_ctx,
        ),
        resume=HelloResume(ttl_s=KEEP_S),
        heartbeat_s=HEARTBEAT_S,
        boot_id=boot_id,
        model=service.model_name,
        notices=service.notices,
    )


def draining_event(departure: Departure) -> ServerDrainingEvent:
    """The server leaves when what runs has ended, or at the deadline."""
    return ServerDrainingEvent(
        deadline_s=round(departure.seconds_left, 3), retry_after_ms=RECONNECT_AFTER_MS
    )
