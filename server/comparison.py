"""What an earlier response left in a cache: what a prompt can be compared with to explain a miss.

Reads rows and paths of the store. Knows no cache: what is still there is for `miss.py` to tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from radixchat.engine.common_prefix import common_prefix
from radixchat.engine.errors import ResponseNotFound
from radixchat.server.conversation import Conversation
from radixchat.server.rows import ResponseRow
from radixchat.server.store import Store


@dataclass(frozen=True, slots=True)
class Comparison:
    """The tokens of an earlier response that have KV, if nothing was lost since.

    path: its messages, its answer last. num_tokens: prompt and answer, as far as they have KV.
    token_ids: just these; None where they are not stored. here: it was computed by this process.
    began: seconds since the epoch.
    """

    path: Conversation
    num_tokens: int
    token_ids: tuple[int, ...] | None
    render_hash: str
    principal: str
    here: bool
    began: float

    @classmethod
    def of(cls, row: ResponseRow, path: Conversation, *, here: bool) -> Comparison:
        """What that response, whose answer ends the path, has computed."""
        ids = path.token_ids
        # Rendered anew for this response, by another model than its path's, is not stored.
        is_stored = all(m.render_hash == row.render_hash for m in path.since_absolute)
        # The last token that was sampled has no KV: it was never forwarded. Of a process that was
        # killed the last token saved is the last one known.
        num_tokens = len(ids) - 1
        if row.usage:
            num_tokens = row.usage["input_tokens"] + _num_computed(row.usage)
        return cls(
            path=path,
            num_tokens=num_tokens,
            token_ids=ids[:num_tokens] if is_stored else None,
            render_hash=row.render_hash,
            principal=row.principal,
            here=here,
            began=row.created_at,
        )

    def common(self, token_ids: Sequence[int], render_hash: str) -> int:
        """How many leading tokens of a prompt it has, as far as that is known."""
        if self.token_ids is None or self.render_hash != render_hash:
            return 0
        return common_prefix(self.token_ids, token_ids)


def _num_computed(usage: Mapping[str, Any]) -> int:
    """Of a response's output, the tokens that have KV: neither the last, nor any of a stop text.

    Where a stop text begins within a token, what was shown of that was encoded and not computed.
    """
    computed: int = usage["output_tokens"] - 1
    kept: int | None = usage.get("output_tokens_details", {}).get("kept_tokens")
    return computed if kept is None else min(computed, kept)


def load_comparisons(
    store: Store, response: str, principal: str, path: Conversation
) -> list[Comparison]:
    """What a response, which answers the end of the path, can be compared with: at most two.

    The conversation's last response before it; and the one that made the last answer on the path,
    which is another after a return to an older branch, and in a conversation that was forked.
    Raises ResponseNotFound, StoreError.
    """
    own = store.response(response, principal=principal)
    answers = [message.id for message in path.messages if message.role == "assistant"]
    found = []
    for row in store.earlier_responses(own, answers[-1] if answers else None):
        assert row.answer is not None, "only what was answered can be compared with"
        if row.answer in answers:
            its_path = path.until(row.answer)
        else:
            messages = store.path(row.answer, principal=principal)
            its_path = Conversation(row.conversation, tuple(messages))
        found.append(Comparison.of(row, its_path, here=row.owner == own.owner))
    return found


def load_comparison(
    store: Store, response: str, principal: str, path: Conversation, *, compared: str
) -> list[Comparison]:
    """The response that a client names to compare with; none where there is no such answer.

    Raises StoreError.
    """
    try:
        row = store.response(compared, principal=principal)
    except ResponseNotFound:
        return []
    if row.answer is None:
        return []
    its_path = Conversation(row.conversation, tuple(store.path(row.answer, principal=principal)))
    own = store.response(response, principal=principal)
    return [Comparison.of(row, its_path, here=row.owner == own.owner)]


def closest(
    candidates: Sequence[Comparison], token_ids: Sequence[int], render_hash: str
) -> Comparison | None:
    """The one that has most of the prompt; of equals the first. None of none."""
    return max(candidates, key=lambda one: one.common(token_ids, render_hash), default=None)
