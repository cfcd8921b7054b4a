"""The text of one answer, as far as it is certain to be shown."""

from __future__ import annotations

from radixchat.engine.decode_stream import DecodeStream


class AnswerText:
    """Tokens in, text out, up to the first stop string."""

    def __init__(
        self, stream: DecodeStream, stop: tuple[str, ...] = (), min_tokens: int = 0
    ) -> None:
        self._stream = stream
        self.stopped_by: str | None = None
        self.num_kept = 0

    def push(self, token: int) -> str:
        """The text that this token makes certain."""
        self.num_kept += 1
        return self._stream.push(token)

    def finish(self) -> str:
        """What was held back; the answer has ended."""
        return self._stream.finish()
