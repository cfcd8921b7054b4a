"""The line under an answer: what was cached, how fast it came, why it ended early.

Knows the record of a turn, no terminal.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from radixchat.chat_cli.places_below import from_below
from radixchat.server.protocol import ResponseDone

_ENDINGS: Mapping[str | None, str] = MappingProxyType(
    {
        "max_output_tokens": "max tokens reached",
        "context_length": "context full",
        "deadline": "time limit reached",
        "server_shutdown": "the server has ended",
    }
)


def status_line(done: ResponseDone, stopped_by: str | None = None) -> str:
    """`cached 812/840 · first token 41 ms · 38 tok/s`, and the ending if it was not the end.

    After a restart `cached 812/840 (700 from disk)`.

    What the conversation has left of the model's context, when that is little. stopped_by: who
    asked for an interruption.
    """
    below = from_below(done.usage)
    parts = [
        f"cached {done.usage.cached_tokens}/{done.usage.input_tokens}"
        + (f" ({below})" if below else "")
    ]
    if done.timings.ttft_ms is not None:
        parts.append(f"first token {done.timings.ttft_ms:.0f} ms")
    rate = done.timings.predicted_per_second(done.usage)
    if rate is not None:
        parts.append(f"{rate:.0f} tok/s" if rate >= 10 else f"{rate:.1f} tok/s")
    if _is_nearly_full(done):
        parts.append(f"{done.tokens_left:,} of {done.n_ctx:,} tokens left")
    if done.reason == "interrupted" and stopped_by is not None:
        parts.append(f"stopped by {stopped_by}")
    elif done.status == "incomplete":
        parts.append(_ENDINGS.get(done.reason, done.reason or "incomplete"))
    elif done.status == "failed":
        parts.append("failed")
    return " · ".join(parts)


def _is_nearly_full(done: ResponseDone) -> bool:
    """Whether less than an eighth of the context is left, so that a turn or two may fill it."""
    return (
        done.n_ctx is not None
        and done.tokens_left is not None
        and done.tokens_left < done.n_ctx // 8
    )
