"""What can be told of a response's options alone: refused when they are made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from radixchat.engine.errors import InvalidRequest
from radixchat.server.protocol import ResponseOptions

PLAIN = ResponseOptions()

REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"truncation": "middle"}, "truncation is 'middle'; allowed: disabled or auto"),
    ({"timeout_s": 0.0}, "timeout_s is 0.0; allowed: more than 0 seconds"),
    ({"timeout_s": float("nan")}, "timeout_s is nan"),
    ({"timeout_s": float("inf")}, "timeout_s is inf"),
    ({"priority": 101}, "priority is 101; allowed: -100 to 100"),
    ({"stop": ("a", "")}, "stop has ''.*one character"),
    ({"stop": ("x" * 257,)}, "stop has a text of 257 characters.*at most 256"),
    ({"stop": tuple(map(str, range(17)))}, "stop has 17 texts; allowed: at most 16"),
    ({"stop": ("\ud800",)}, "a text of stop is not valid Unicode"),
    ({"bad_words": ("a", " \n")}, r"bad_words has ' \\n'.*visible"),
    ({"bad_words": ("\ud800",)}, "a text of bad_words is not valid Unicode"),
    ({"bad_words": ("x",) * 257}, "bad_words has 257 texts; allowed: at most 256"),
    ({"logit_bias": tuple((i, 0.0) for i in range(1025))}, "logit_bias has 1025 tokens"),
    (
        {"min_output_tokens": 11, "max_output_tokens": 10},
        "min_output_tokens is 11; allowed: at most max_output_tokens, 10",
    ),
    ({"min_output_tokens": -1}, "min_output_tokens is -1; allowed: 0 or more$"),
    ({"max_output_tokens": 0}, "max_output_tokens is 0; allowed: 1 or more"),
    ({"top_logprobs": 21}, "top_logprobs is 21; allowed: 0 to 20"),
)


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    """With the value, and what would do; of a changed copy, too."""
    with pytest.raises(InvalidRequest, match=message):
        ResponseOptions(**changes)
    with pytest.raises(InvalidRequest, match=message):
        replace(PLAIN, **changes)


def test_the_limits_themselves_are_allowed() -> None:
    """One less than what is refused."""
    asked: dict[str, Any] = {
        "stop": (" ", *("x" * 255 + chr(65 + i) for i in range(15))),
        "bad_words": tuple(map(str, range(256))),
        "logit_bias": tuple((i, 0.0) for i in range(1024)),
        "top_logprobs": 20,
        "min_output_tokens": 10,
        "max_output_tokens": 10,
        "priority": -100,
        "timeout_s": 1e-3,
        "truncation": "auto",
    }
    options = ResponseOptions(**asked)
    assert {name: getattr(options, name) for name in asked} == asked
