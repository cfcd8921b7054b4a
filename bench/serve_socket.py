"""`SocketClient`: one user of a server that speaks OpenAI's Responses API over a WebSocket.

One socket for as long as the conversation lasts; a turn sends the new message only and names the
response that it follows. Knows no load and no table.
"""

from __future__ import annotations

import json
import time
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from radixchat.bench.serve_answer import (
    Answer,
    AskFailed,
    OptionRefused,
    Question,
    TokenCount,
    token_count,
)
from radixchat.bench.serve_http import Address

_TERMINAL = ("response.completed", "response.incomplete", "response.failed")
_REASONS = {"max_output_tokens": "length"}
_USAGE_KEYS = ("input_tokens", "output_tokens")


class SocketClient:
    """Asks over one socket, opened when it is first used."""

    def __init__(self, address: Address, key: str | None, model: str, *, is_plain: bool) -> None:
        self._url = address.websocket_url("/v1/responses")
        self._headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
        self._model = model
        self._is_plain = is_plain
        self._socket: ClientConnection | None = None

    async def ask(self, question: Question) -> Answer:
        """Stream one answer. Raises AskFailed, and OptionRefused where fewer options may do."""
        try:
            if self._socket is None:
                self._socket = await connect(
                    self._url, additional_headers=self._headers, compression=None
                )
            sent = time.perf_counter()
            await self._socket.send(json.dumps(self._event(question)))
            return await self._read(self._socket, sent)
        except (OSError, WebSocketException) as error:
            await self.close()
            raise AskFailed(f"the socket broke: {error}") from error

    async def close(self) -> None:
        """Hang up."""
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()

    def _event(self, question: Question) -> dict[str, object]:
        system, *_, last = question.messages
        event: dict[str, object] = {
            "type": "response.create",
            "model": self._model,
            "instructions": system.text,
            "input": last.text,
            "max_output_tokens": question.tokens,
            "temperature": 0,
        }
        if question.after is not None:
            event["previous_response_id"] = question.after
        if not self._is_plain:
            event["x"] = {"ignore_eos": True, "min_output_tokens": question.tokens}
        return event

    async def _read(self, socket: ClientConnection, sent: float) -> Answer:
        pieces: list[tuple[float, str]] = []
        while True:
            data = await socket.recv()
            moment = time.perf_counter()
            event = json.loads(data)
            kind = event.get("type")
            if kind == "response.output_text.delta" and event["delta"]:
                pieces.append((moment, event["delta"]))
            elif kind == "error":
                self._refuse(event)
            elif kind in _TERMINAL:
                return _answer(event["response"], pieces, sent, moment)

    def _refuse(self, event: dict[str, Any]) -> None:
        may_retry = event.get("status") == 400 and not self._is_plain
        kind = OptionRefused if may_retry else AskFailed
        raise kind(f"status {event.get('status')}: {event.get('error')}")


def _answer(
    response: dict[str, Any], pieces: list[tuple[float, str]], sent: float, ended: float
) -> Answer:
    reason = str((response.get("incomplete_details") or {}).get("reason"))
    finish = "stop" if response["status"] == "completed" else _REASONS.get(reason, reason)
    if response["status"] == "failed" or not pieces:
        raise AskFailed(f"a response {response['status']}: {response.get('error') or 'no text'}")
    usage = response.get("usage")
    counts = token_count(usage, _USAGE_KEYS) if usage else TokenCount()
    text = "".join(text for _, text in pieces)
    return Answer(text, sent, tuple(pieces), ended, finish, counts, response["id"])
