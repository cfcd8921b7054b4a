"""A user of the real `openai` SDK whose server is restarted between two turns; it has the SDK.

\b
    python openai_reconnect_script.py http://127.0.0.1:8000/v1

Prints the first response's id, waits for a line on standard input, by which time the server has
been another, and prints the second one's answer and how often the SDK has come back.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Any

openai: Any = importlib.import_module("openai")
ENDS = ("response.completed", "response.incomplete", "response.failed")


async def main(base_url: str) -> None:
    """Two turns over one SDK connection."""
    came_back: list[int] = []

    def reconnecting(event: Any) -> None:
        came_back.append(event.close_code)

    async with (
        openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client,
        client.responses.connect(on_reconnecting=reconnecting, max_retries=20) as connection,
    ):
        events = aiter(connection)
        await connection.response.create(input="One", max_output_tokens=8, stream_id="main")
        first = await end(events)
        reading = asyncio.create_task(end(events))  # it notices that the socket goes
        sys.stdout.write(f"{first.id}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        await connection.response.create(
            input="Two", max_output_tokens=8, previous_response_id=first.id, stream_id="main"
        )
        second = await reading
        assert second.previous_response_id == first.id
        sys.stdout.write(f"{len(second.output_text)} {came_back}\n")


async def end(events: Any) -> Any:
    """The response of the next terminal event."""
    async for event in events:
        assert event.type != "error", event
        assert event.stream_id == "main"
        if event.type in ENDS:
            return event.response
    raise AssertionError("the connection ended")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
