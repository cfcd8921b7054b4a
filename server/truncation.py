"""What a conversation that no longer fits the context leaves out: its oldest turns.

Owns the arithmetic: how long a prompt may be, and which turns go. Whole turns only, and in large
steps: each cut computes all that follows the system message again, so it makes room for many
turns. The system message and the newest turn always stay. Knows no engine and no store.
"""

from __future__ import annotations

import functools
from bisect import bisect_left

from radixchat.server.conversation import Conversation
from radixchat.server.message import LeftOut
from radixchat.server.prompt import PromptBuilder, UserTurn, whole_turn

# Of a context, what an answer without max_output_tokens finds free, and what any finds at most.
DEFAULT_ANSWER_SHARE = 8
MAX_ANSWER_SHARE = 2


def prompt_limit(n_ctx: int, max_output_tokens: int | None) -> int:
    """The longest prompt that leaves room for the answer in a context of `n_ctx` tokens."""
    room = n_ctx // DEFAULT_ANSWER_SHARE
    if max_output_tokens is not None:
        room = min(max_output_tokens, n_ctx // MAX_ANSWER_SHARE)
    return n_ctx - max(1, room)


def shortened_turn(
    prompts: PromptBuilder, asked: Conversation, num_tokens: int, limit: int
) -> UserTurn | None:
    """The last turn of a path, `asked`, after fewer turns; None: there are no older ones to go.

    num_tokens: of the prompt that answers all of the path. The turns that stay fill at most half
    of what the system message and the last turn leave of `limit`, in tokens; what the path's ids
    leave out already stays out. The prompt is longer than the limit where these two alone are.
    """
    question = asked.messages[-1]
    history = asked.until(question.parent)
    cuts = [cut for cut in _turn_starts(asked) if cut > asked.gap.messages]
    if not cuts:
        return None

    @functools.cache
    def prompt(cut: int) -> tuple[int, ...]:
        return prompts.render_without(history, question.text, cut)

    alone = len(prompt(cuts[-1]))
    most = alone + max(0, limit - alone) // 2
    cut = cuts[bisect_left(cuts, -most, key=lambda cut: -len(prompt(cut)))]
    left_out = LeftOut(cut, num_tokens - len(prompt(cut)))
    return whole_turn(question.text, prompt(cut), left_out)


def _turn_starts(path: Conversation) -> list[int]:
    """How many messages stand between the system message and each turn."""
    messages = path.messages[path.num_system :]
    return [count for count, message in enumerate(messages) if message.role == "user"]
