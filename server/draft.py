"""What is computed of a message that is still being typed: `Draft`, and how much of it is certain.

Owns which tokens a longer text cannot change. Knows no engine and no conversation's store.
"""

from __future__ import annotations

from dataclasses import dataclass

from radixchat.engine.common_prefix import common_prefix
from radixchat.engine.errors import InvalidRequest
from radixchat.server.conversation import Conversation
from radixchat.server.prompt import PromptBuilder

# What may be typed next: a letter or digit that joins the last word, a new word, an end of the
# sentence, a new line. The tokens that none of these changes are kept.
CONTINUATIONS = ("", "a", "1", " a", ".", "\n\n", "'s")


@dataclass(frozen=True, slots=True)
class Draft:
    """The last draft of a conversation.

    request: the engine's id of it. tokens: those it computes; the first `history` of them are the
    conversation's, whether they were cached or not.
    """

    revision: int
    request: int
    tokens: tuple[int, ...]
    history: int


def certain_tokens(prompts: PromptBuilder, history: Conversation, text: str) -> tuple[int, ...]:
    """The prompt's tokens, the history's included, that typing on does not change.

    Raises InvalidRequest for text that cannot be sent. Slow for long texts: call it off the loop.
    """
    kept: tuple[int, ...] | None = None
    for more in CONTINUATIONS:
        typed = text + more
        if not typed.strip():
            continue
        ids = prompts.user_turn(history, typed).prompt_ids
        kept = ids if kept is None else kept[: common_prefix(kept, ids)]
    if kept is None:
        raise InvalidRequest("there is nothing to compute yet")
    return kept
