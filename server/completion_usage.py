"""What a stateless answer cost, as its last words: usage, timings, finish. Knows no socket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from radixchat.server.completions import ChoiceEnd, Run
from radixchat.server.response_usage import ResponseUsage
from radixchat.server.wire_chat_completion import CompletionUsage


def completion_usage(
    run: Run, ends: Sequence[ChoiceEnd], *, with_output: bool = True
) -> CompletionUsage:
    """Of all choices; what several choices share is counted once, with the first of them.

    with_output: what was sampled had been asked for.
    """
    prompts = [end for end in ends if end.sample.index % run.choices_per_prompt == 0]
    usages = [end.sample.usage for end in ends]
    given = sum(end.sample.usage.input_tokens for end in prompts)
    sampled = sum(usage.output_tokens for usage in usages) if with_output else 0
    accepted = sum(usage.accepted_tokens for usage in usages)
    return CompletionUsage(
        prompt_tokens=given,
        completion_tokens=sampled,
        total_tokens=given + sampled,
        prompt_tokens_details={
            "cached_tokens": sum(end.sample.usage.cached_tokens for end in prompts),
            "cache_write_tokens": sum(usage.cache_write_tokens for usage in usages),
        },
        completion_tokens_details={
            "reasoning_tokens": 0,
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": sum(usage.draft_tokens for usage in usages) - accepted,
        },
    )


def completion_timings(ends: Sequence[ChoiceEnd]) -> dict[str, Any] | None:
    """Milliseconds of the first choice, with llama.cpp's names; None without a token."""
    sample = min(ends, key=lambda end: end.sample.index).sample
    usage, prompt_ms = sample.usage, sample.timings.prompt_ms
    if prompt_ms is None:
        return None
    spent = ResponseUsage(
        usage.input_tokens,
        usage.cached_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
        usage.draft_tokens,
        usage.accepted_tokens,
        host_tokens=usage.host_tokens,
        disk_tokens=usage.disk_tokens,
        store_tokens=usage.store_tokens,
        not_restored=usage.not_restored,
    )
    speed = round(usage.computed_tokens / prompt_ms * 1000, 3) if prompt_ms else None
    return {**sample.timings.to_dict(spent), "prompt_per_second": speed}
