"""Records of turns for tests of what is shown. Knows no service."""

from __future__ import annotations

from radixchat.server.protocol import (
    ErrorInfo,
    MissReport,
    ResponseDone,
    ResponseTimings,
    ResponseUsage,
)


def turn(
    *,
    status: str = "completed",
    reason: str | None = None,
    error: ErrorInfo | None = None,
    text: str = "Grüß Gott 👋",
    output_tokens: int = 39,
    ttft_ms: float | None = 41.4,
    predicted_ms: float | None = 1000.0,
    miss: MissReport | None = None,
) -> ResponseDone:
    """A finished response of 840 tokens, 812 of them cached."""
    return ResponseDone(
        conversation="conv_1",
        response="resp_1",
        status=status,
        reason=reason,
        output_text=text,
        usage=ResponseUsage(840, 812, 28, output_tokens),
        timings=ResponseTimings(ttft_ms, ttft_ms, predicted_ms),
        input_ids=(1, 2),
        output_ids=(3,),
        error=error,
        miss=miss,
    )
