"""What a chat template does to the prefix of a growing conversation.

Owns the question whether turn n + 1's prompt begins with turn n's prompt and answer, and the
words for what breaks it. It renders small chats and compares texts; it knows no tokens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from radixchat.engine.errors import InvalidRequest

Chat = Sequence[Mapping[str, str]]

OPENS_THINKING = "opens <think> in the generation prompt, which history lacks"
STRIPS_REASONING = "strips reasoning"
TRIMS_WHITESPACE = "trims whitespace"
DATE_IN_HEAD = "the date in the head"
TOOL_ORDER = "tool order"
REWRITES_HISTORY = "rewrites history"
_COSMETIC = frozenset((TRIMS_WHITESPACE, DATE_IN_HEAD, TOOL_ORDER))
_EXPLAINED = frozenset((STRIPS_REASONING, OPENS_THINKING))  # why a plain answer breaks it too


@dataclass(frozen=True, slots=True)
class TemplateLint:
    """The verdict on one template.

    preserves_prefix: every earlier prompt and answer is a prefix of the next prompt, whatever
    the answer says. reason: what breaks that, "; " between several; None where nothing does.
    appendable: a turn appended to the ids so far is still what the template means: a new
    rendering would differ from it only in an answer's outer whitespace, in a date, or in where
    the tool list stands.
    """

    preserves_prefix: bool
    reason: str | None
    appendable: bool


class Renderer(Protocol):
    """As much of `ChatTemplate` as is needed here."""

    source: str

    def render_plainly(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool,
        tools: list[dict[str, Any]] | None = None,
    ) -> str:
        """The prompt as text."""


def lint_template(template: Renderer) -> TemplateLint:
    """Render turn 1 and turn 2 with telling answers, and say what breaks the prefix."""
    checks = (
        (STRIPS_REASONING, _strips_reasoning),
        (OPENS_THINKING, _opens_thinking),
        (TRIMS_WHITESPACE, _trims_whitespace),
        (DATE_IN_HEAD, _dates_head),
        (TOOL_ORDER, _moves_tools),
    )
    found = [reason for reason, breaks in checks if breaks(template)]
    if not _keeps_prefix(template, _PLAIN) and not _EXPLAINED.intersection(found):
        found.append(REWRITES_HISTORY)
    return TemplateLint(
        preserves_prefix=not found,
        reason="; ".join(found) or None,
        appendable=_COSMETIC.issuperset(found),
    )


_QUESTION = {"role": "user", "content": "Name two colours."}
_FOLLOW_UP = {"role": "user", "content": "And a third?"}
_PLAIN = "Blue and red."
# More newlines than a template writes before or after a message of its own accord.
_PADDED = "\n" * 8 + " Blue and red. " + "\n" * 8
_REASONED = "<think>\nEasy enough.\n</think>\n\nBlue and red."
_TOOL = {
    "type": "function",
    "function": {
        "name": "mix",
        "description": "Mix two colours.",
        "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
    },
}
_DATE_FORMAT = re.compile(r"""strftime_now\(\s*(["'])(.+?)\1\s*\)""")


def _next_prompt(template: Renderer, answer: str) -> str:
    chat = [_QUESTION, {"role": "assistant", "content": answer}, _FOLLOW_UP]
    return template.render_plainly(chat, add_generation_prompt=True)


def _keeps_prefix(template: Renderer, answer: str) -> bool:
    prompt = template.render_plainly([_QUESTION], add_generation_prompt=True)
    return _next_prompt(template, answer).startswith(prompt + answer)


def _strips_reasoning(template: Renderer) -> bool:
    return "Easy enough." not in _next_prompt(template, _REASONED)


def _opens_thinking(template: Renderer) -> bool:
    prompt = template.render_plainly([_QUESTION], add_generation_prompt=True)
    _, thinks, _ = prompt.partition(_QUESTION["content"])[2].partition("<think>")
    return bool(thinks) and not _keeps_prefix(template, _PLAIN)


def _trims_whitespace(template: Renderer) -> bool:
    return _PADDED not in _next_prompt(template, _PADDED)


def _dates_head(template: Renderer) -> bool:
    now = datetime.now()
    dates = [now.strftime(match[2]) for match in _DATE_FORMAT.finditer(template.source)]
    prompt = template.render_plainly([_QUESTION], add_generation_prompt=True)
    head, _, _ = prompt.partition(_QUESTION["content"])
    return any(date in head for date in dates)


def _moves_tools(template: Renderer) -> bool:
    """Whether tools, which some templates put beside the last question, keep their place."""
    chat = [_QUESTION, {"role": "assistant", "content": _PLAIN}, _FOLLOW_UP]
    try:
        with_tools = [
            template.render_plainly(messages, add_generation_prompt=True, tools=[_TOOL])
            for messages in (chat[:1], chat)
        ]
    except InvalidRequest:
        return False  # it takes no tools
    first, second = with_tools
    return _keeps_prefix(template, _PLAIN) and not second.startswith(first + _PLAIN)
