"""An answer that was cut short, and whether it can be gone on with.

Knows no store and no engine: a path and checked options go in, a refusal or nothing comes out.
"""

from __future__ import annotations

from radixchat.engine.answer_text import AnswerText
from radixchat.engine.errors import InvalidRequest
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.conversation import Conversation
from radixchat.server.message import Message
from radixchat.server.option_reader import AnswerTerms


def unfinished_answer(path: Conversation) -> Message:
    """The answer at the path's end that was cut short; raises InvalidRequest."""
    last = path.messages[-1] if path.messages else None
    if last is None or last.role != "assistant" or path.last_user is None:
        raise InvalidRequest("there is no answer to continue: the last message is not answered yet")
    if last.status == "complete":
        raise InvalidRequest("the last answer is complete: there is nothing to continue")
    return last


def check_begun(tokens: tuple[int, ...], terms: AnswerTerms, tokenizer: Tokenizer) -> None:
    """Raises InvalidRequest where an answer on these terms cannot begin with the tokens, or would
    have ended with them.
    """
    options = terms.options
    text = AnswerText(tokenizer.stream(), options.stop, options.min_output_tokens)
    for token in tokens:
        text.push(token)
    if text.stopped_by is not None:
        raise InvalidRequest(f"the answer has the stop text {text.stopped_by!r} already")
    if terms.grammar is not None and not terms.grammar.can_begin_with(tokens):
        raise InvalidRequest("the answer has not the form that is asked for: answer again instead")
