"""The flags and settings that say what an answer is asked for, and what they ask together.

Owns their names, ranges and defaults on the command line; what they mean is the engine's, and how
many texts there may be is ResponseOptions'.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, MutableMapping
from types import MappingProxyType
from typing import Any

import click

from radixchat.chat_cli.flag import Number, count, option, options
from radixchat.chat_cli.named_option import named, named_options
from radixchat.chat_cli.settings import DEFAULT_ANSWER
from radixchat.chat_cli.shell_completion import files
from radixchat.chat_cli.value_types import (
    Text,
    choices,
    json_schema,
    lark_grammar,
    text_list,
    token_bias,
)
from radixchat.server.protocol import (
    TRUNCATIONS,
    InvalidRequest,
    ResponseFormat,
    ResponseOptions,
)

# What says what an answer looks like, by parameter, with its kind.
FORMATS: Mapping[str, str] = MappingProxyType(
    {"schema": "json_schema", "regex": "regex", "choice": "choice", "grammar": "lark"}
)

_SAMPLING = options(
    option(
        "--temperature",
        type=Number(0, 10),
        metavar="X",
        default=DEFAULT_ANSWER.temperature,
        show_default=True,
        help="0 is greedy.",
    ),
    option(
        "--top-p",
        type=Number(0, 1, min_open=True),
        metavar="X",
        default=DEFAULT_ANSWER.top_p,
        show_default=True,
    ),
    option(
        "--top-k",
        type=click.IntRange(0),
        metavar="N",
        default=DEFAULT_ANSWER.top_k,
        show_default="off",
    ),
    option(
        "--min-p",
        type=Number(0, 1, max_open=True),
        metavar="X",
        default=DEFAULT_ANSWER.min_p,
        show_default="off",
    ),
    option(
        "--seed", type=click.IntRange(0, 2**63 - 1), metavar="N", help="Makes answers repeatable."
    ),
)
_EXTENT = options(
    count(
        "--max-tokens",
        "max_output_tokens",
        default=DEFAULT_ANSWER.max_output_tokens,
        show_default=True,
        help="Longest answer.",
    ),
    option(
        "--stop",
        type=Text(),
        metavar="TEXT",
        multiple=True,
        help="Ends an answer before this text; repeatable.",
    ),
    option(
        "--schema",
        type=json_schema,
        metavar="FILE|JSON",
        shell_complete=files,
        help="Answers are JSON of this schema.",
    ),
    option(
        "--timeout",
        "timeout_s",
        type=Number(0, min_open=True),
        metavar="SECONDS",
        help="Ends an answer that is not done by then, and keeps it.",
    ),
    option(
        "--truncation",
        type=click.Choice(TRUNCATIONS),
        default=DEFAULT_ANSWER.truncation,
        show_default=True,
        help="auto: a conversation that is too long for the model is answered without its oldest "
        "turns, instead of refused.",
    ),
    option(
        "--no-speculation",
        is_flag=True,
        help="Never guess tokens from the conversation: the same answers, more slowly.",
    ),
    named_options(),
)
_NAMED = options(
    named(
        "typical_p",
        type=Number(1e-6, 1),
        metavar="X",
        show_default="off",
        help="Keeps the tokens that surprise as much as expected, up to this share.",
    ),
    named(
        "repetition_penalty",
        type=Number(0.01, 10),
        metavar="X",
        show_default="1, off",
        help="Divides the logits of all tokens so far.",
    ),
    named(
        "presence_penalty",
        type=Number(-2, 2),
        metavar="X",
        show_default="off",
        help="Subtracted from the logits of the answer's tokens.",
    ),
    named(
        "frequency_penalty",
        type=Number(-2, 2),
        metavar="X",
        show_default="off",
        help="The same, as often as each occurred.",
    ),
    named(
        "dry_multiplier",
        type=Number(0, 100),
        metavar="X",
        show_default="off",
        help="Against repeating sequences: how much a token loses that prolongs one.",
    ),
    named(
        "dry_base",
        type=Number(1, 10),
        metavar="X",
        show_default=str(DEFAULT_ANSWER.dry_base),
        help="The loss, multiplied for each token that the sequence is longer.",
    ),
    named(
        "dry_allowed_length",
        type=click.IntRange(1, 2**31 - 1),
        metavar="N",
        show_default=str(DEFAULT_ANSWER.dry_allowed_length),
        help="Shorter sequences may be repeated.",
    ),
    named(
        "logit_bias",
        type=token_bias,
        metavar="JSON",
        help="""Added to the logits of token ids: '{"198": -100}'.""",
    ),
    named(
        "bad_words",
        type=text_list,
        metavar="JSON",
        help="""Texts that no answer has: '["sorry"]'.""",
    ),
    named(
        "min_tokens",
        "min_output_tokens",
        type=click.IntRange(0),
        metavar="N",
        help="Shortest answer.",
    ),
    named("ignore_eos", type=bool, metavar="BOOL", help="Go on when the model would end."),
    named(
        "logprobs",
        "top_logprobs",
        type=click.IntRange(0, 20),
        metavar="N",
        help="With --json: each token's log-probability, and those of the N likeliest.",
    ),
    named("regex", type=Text(), metavar="REGEX", help="What answers look like."),
    named(
        "choice",
        type=choices,
        metavar="JSON",
        help="""Answers are one of these: '["yes", "no"]'.""",
    ),
    named(
        "grammar",
        type=lark_grammar,
        metavar="FILE|LARK",
        help="Answers are sentences of this grammar.",
    ),
)
answer_flags = options(_SAMPLING, _EXTENT, _NAMED)
"""Decorates a command with all of them."""


def take_answer(values: MutableMapping[str, Any], nearness: Mapping[str, int]) -> ResponseOptions:
    """What the flags ask of an answer; their values are taken out of `values`.

    nearness: where each value came from, less is nearer to the user. Raises click.UsageError:
    values that contradict each other, more or longer texts than there may be.
    """
    formats = {name: value for name in FORMATS if (value := values.pop(name)) is not None}
    names = {field.name for field in dataclasses.fields(ResponseOptions)}
    asked = {name: values.pop(name) for name in list(values) if name in names}
    try:
        return dataclasses.replace(
            DEFAULT_ANSWER,
            **{name: value for name, value in asked.items() if value is not None},
            response_format=_format(formats, nearness),
            speculate=not values.pop("no_speculation"),
        )
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from error


def _format(formats: Mapping[str, Any], nearness: Mapping[str, int]) -> ResponseFormat | None:
    """The format that is nearest to the user. Raises click.UsageError: two are equally near."""
    if not formats:
        return None
    nearest = min(nearness[name] for name in formats)
    name, *others = (name for name in formats if nearness[name] == nearest)
    if others:
        raise click.UsageError(
            f"{name} and {others[0]} both say what an answer looks like; give one of them"
        )
    value = formats[name]
    text = json.dumps(value, ensure_ascii=False) if name == "choice" else value
    return ResponseFormat(FORMATS[name], text)
