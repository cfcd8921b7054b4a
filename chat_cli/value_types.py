"""Values of flags that are more than a word: texts, lists and objects in JSON, files.

Checks their form; what they mean is the service's. A value that is not right is refused with it
and with one that would do. Each takes what the configuration file has in its place, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
from click.types import StringParamType

from radixchat.chat_cli.control_characters import neutral_line

MAX_BIAS = 100
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)
_SHOWN = 60


class Text(StringParamType):
    """A text, not empty. In the variable of a flag that is repeatable: one, or a JSON list."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text as it is. Fails: empty, or no text."""
        if not isinstance(value, str) or not value:
            self.fail(f"{value!r} is not a text of at least one character", param, ctx)
        return super().convert(value, param, ctx)

    def split_envvar_value(self, rv: str) -> list[str]:
        """Not at spaces, which belong to a text."""
        texts = _parsed(rv)
        return texts if isinstance(texts, list) else [rv]


def text_list(value: Any) -> tuple[str, ...]:
    """The texts of a JSON list, none of them empty. Raises click.BadParameter."""
    texts = _parsed(value)
    if not isinstance(texts, list | tuple) or not all(isinstance(t, str) and t for t in texts):
        raise click.BadParameter(f"""{_shown(value)} is not a JSON list of texts, like '["a"]'""")
    return tuple(texts)


def choices(value: Any) -> tuple[str, ...]:
    """The texts of a JSON list, at least one. Raises click.BadParameter."""
    texts = text_list(value)
    if not texts:
        raise click.BadParameter("""there is nothing to choose from; try '["yes", "no"]'""")
    return texts


def token_bias(value: Any) -> tuple[tuple[int, float], ...]:
    """Pairs of token id and number, of a JSON object. Raises click.BadParameter."""
    biases = _parsed(value)
    if not isinstance(biases, dict) or not all(map(_is_bias, biases, biases.values())):
        raise click.BadParameter(
            f"{_shown(value)} is not a JSON object of token ids and numbers of "
            f"""-{MAX_BIAS} to {MAX_BIAS}, like '{{"198": -100}}'"""
        )
    return tuple((int(token), float(bias)) for token, bias in biases.items())


def byte_size(value: Any) -> int:
    """Bytes, of their number or of `512M`, `1.5G`, by 1,024s. Raises click.BadParameter."""
    written = _SIZE.fullmatch(str(value).strip())
    if written is None:
        raise click.BadParameter(f"{_shown(value)} is no size, like 512M, 2G or a number of bytes")
    number, unit = written.groups()
    return int(Decimal(number) * (1 << _UNITS[unit.upper()]))


def json_schema(value: Any) -> str:
    """A JSON schema: this text or table, or the text of the file of this name.

    Raises click.BadParameter.
    """
    if isinstance(value, dict):
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:  # TOML has dates, nan and inf
            raise click.BadParameter(f"{_shown(value)} is not JSON: {error}") from error
    is_inline = str(value).lstrip().startswith("{")
    text = (
        str(value) if is_inline else _read(str(value), """a schema begins with {: '{"type": …'""")
    )
    try:
        document = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{_shown(value)} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise click.BadParameter(f"{_shown(value)} is not a JSON schema, which is an object")
    return text


def lark_grammar(value: Any) -> str:
    """A Lark grammar: this text, or that of the file of this name. Raises click.BadParameter."""
    # No grammar is without a rule, and no rule without a colon.
    if ":" in str(value):
        return str(value)
    return _read(str(value), """a grammar has rules: 'start: "yes" | "no"'""")


def _read(name: str, hint: str) -> str:
    try:
        text = Path(name).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise click.BadParameter(f"cannot read {_shown(name)}: {reason}; {hint}") from error
    return text


def _parsed(value: Any) -> Any:
    """JSON, or what the configuration file has parsed already; None: it is neither."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def _is_bias(token: str, bias: object) -> bool:
    if isinstance(bias, bool) or not isinstance(bias, int | float):
        return False
    # JSON's own way to write a number: "07" would be another key for the same token.
    is_id = token.isascii() and token.isdigit() and str(int(token)) == token
    return is_id and -MAX_BIAS <= bias <= MAX_BIAS


def _shown(value: object) -> str:
    text = neutral_line(value if isinstance(value, str) else repr(value))
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


JSON_TYPES: Mapping[Callable[[Any], object], tuple[type, ...]] = MappingProxyType(
    {
        text_list: (list,),
        choices: (list,),
        token_bias: (dict,),
        json_schema: (str, dict),
        byte_size: (int, str),
    }
)
"""What the configuration file has in the place of JSON, by the function that checks it."""
