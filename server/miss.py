"""Why a prompt's tokens were not in the cache: `explain_miss`, a pure function.

It compares a prompt with what an earlier response of the conversation had computed, token by
token, and says only what that walk proves; whatever else may have happened is "unknown". Knows
no store and no engine: it is given both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radixchat.engine.request import Usage
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.comparison import Comparison
from radixchat.server.conversation import Conversation
from radixchat.server.excerpt import excerpt
from radixchat.server.message import Message
from radixchat.server.prompt_layout import Place, PromptLayout
from radixchat.server.protocol import MissReport


@dataclass(frozen=True, slots=True)
class AskedPrompt:
    """The prompt whose tokens were looked for.

    path: its messages, the one to be answered last. cache_began: when the cache that was asked
    was empty last, in seconds since the epoch. page_size: only whole pages outlive it.
    """

    path: Conversation
    token_ids: tuple[int, ...]
    render_hash: str
    principal: str
    cache_began: float
    page_size: int = 1


def explain_miss(
    asked: AskedPrompt,
    comparison: Comparison | None,
    usage: Usage,
    layout: PromptLayout,
    tokenizer: Tokenizer,
) -> MissReport | None:
    """Why the cache had less than the comparison promises; None where it had all of that.

    The comparison promises its tokens as far as the prompt begins with them, and else as many as
    stand before the message to be answered: what differs there is not what was asked for now.
    MissReport says what each number counts.
    """
    index, limit = usage.cached_tokens, len(asked.token_ids) - 1
    if comparison is None:
        return None if index == limit else _report("cold", index, 0, 0, asked, layout)
    if min(comparison.num_tokens, limit) <= index:
        return None
    if comparison.render_hash != asked.render_hash:
        missed = _promised(comparison, layout) - index
        return _report("model", 0, missed, 0, asked, layout) if missed > 0 else None
    if comparison.token_ids is None:
        missed = _promised(comparison, layout) - index
        return _report("unknown", index, missed, None, asked, layout) if missed > 0 else None
    common = comparison.common(asked.token_ids, asked.render_hash)
    lost = min(common, limit) - index
    missed = max(lost, _promised(comparison, layout) - index)
    if missed <= 0:
        return None
    if comparison.principal != asked.principal:
        return _report("namespace", index, missed, common, asked, layout)
    if lost <= 0:
        return _explain_difference(asked, comparison, common, missed, layout, tokenizer)
    if usage.device_tokens < usage.cached_tokens and lost < asked.page_size:
        return _report("partial_page", index, lost, common, asked, layout)
    if usage.not_restored is not None:
        return _report("not_restored", index, lost, common, asked, layout)
    if usage.evicted_tokens > 0:
        ago = usage.evicted_seconds_ago
        return _report("evicted", index, lost, common, asked, layout, evicted_seconds_ago=ago)
    expired = not comparison.here and comparison.began < asked.cache_began
    return _report("expired" if expired else "unknown", index, lost, common, asked, layout)


def _promised(comparison: Comparison, layout: PromptLayout) -> int:
    """Tokens before the message to be answered, as many as the comparison has."""
    return min(comparison.num_tokens, layout.start(layout.last) or 0)


def _explain_difference(
    asked: AskedPrompt,
    comparison: Comparison,
    index: int,
    missed: int,
    layout: PromptLayout,
    tokenizer: Tokenizer,
) -> MissReport:
    """The prompts differ at `index`, before the message to be answered."""
    assert comparison.token_ids is not None
    place = layout.place(index)
    if asked.path.left_out != comparison.path.left_out:
        reason = "truncated"
    else:
        reason = _difference(asked.path.shown, comparison.path.shown, place)
    if reason == "unknown":
        return _report(reason, index, missed, index, asked, layout)
    return _report(
        reason,
        index,
        missed,
        index,
        asked,
        layout,
        expected_text=excerpt(tokenizer, comparison.token_ids, index),
        got_text=excerpt(tokenizer, asked.token_ids, index),
    )


def _difference(new: Sequence[Message], old: Sequence[Message], place: Place | None) -> str:
    """Whether a message or the template made the difference at that place of the new prompt."""
    if place is None:
        return "unknown"
    as_before = [
        (one.role, one.text) == (other.role, other.text)
        for one, other in zip(new, old, strict=False)
    ]
    if place.position >= len(as_before):  # where the comparison ended, if all was rendered alike
        return "template" if all(as_before) else "unknown"
    if as_before[place.position]:
        return "template"
    same_role = new[place.position].role == old[place.position].role
    return "template" if same_role and not place.in_text else "changed"


def _report(
    reason: str,
    index: int,
    missed: int,
    reusable: int | None,
    asked: AskedPrompt,
    layout: PromptLayout,
    *,
    expected_text: str | None = None,
    got_text: str | None = None,
    evicted_seconds_ago: float | None = None,
) -> MissReport:
    place = layout.place(index)
    return MissReport(
        reason=reason,
        index=index,
        message=None if place is None else asked.path.shown[place.position].id,
        expected_text=expected_text,
        got_text=got_text,
        cache_missed_tokens=missed,
        comparison_reusable_tokens=reusable,
        evicted_seconds_ago=evicted_seconds_ago,
    )
