"""Goes on with a response that its server's end cut short, or leaves it as it was.

Owns that step's undoing: what is in progress has somebody who works on it. Knows no socket.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from radixchat.server.acceptance import Acceptance
from radixchat.server.response import LiveResponse
from radixchat.server.rows import KILLED

if TYPE_CHECKING:
    from radixchat.server.host import ChatHost


async def reopen(
    host: ChatHost, principal: str, acceptance: Acceptance, response: str, detach_s: float | None
) -> LiveResponse:
    """The response, running again; where that fails it is stored as it was.

    acceptance: the principal's. Raises what `ChatService.continue_response` does.
    """
    row = await host.database(host.store.reopen_response, response, principal=principal)
    try:
        return await acceptance.resume(row, detach_s)
    except BaseException:
        as_it_was = replace(
            KILLED, answer=row.saved, usage=row.usage, timings=row.timings, sequence=row.sequence
        )
        await host.database(host.store.finish_response, response, as_it_was)
        raise
