"""The configuration file: its values checked, each against the flag of the same name.

A key is a flag's long name; `top-p` and `top_p` are the same key. Knows no flag by itself, and not
what a value is for: precedence is click's (flag, then variable, then this file, then default).
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import click

from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.value_types import JSON_TYPES

_EXPECTED: Mapping[tuple[type, ...], str] = {
    (bool,): "true or false",
    (int,): "an integer",
    (float, int): "a number",
    (str,): "a string",
    (list,): "a list",
    (dict,): "a table",
    (str, dict): "a string or a table",
    (int, str): "a number of bytes, or a size in quotes",
}


def load_config(
    path: Path, options: Iterable[click.Option], others: Collection[str] = ()
) -> dict[str, object]:
    """The file's values by parameter name; {} if there is no file.

    others: keys that are somebody else's, and passed over. Raises click.UsageError, naming the
    file and the key: unreadable, not TOML, an unknown key, a value of the wrong type or out of
    range.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise click.UsageError(f"{_name(path)}: {neutral_line(_reason(error))}") from error
    # Of what has no value of its own, help and -o, nothing can be kept for another time.
    known = {flag_name(option): option for option in options if option.expose_value}
    return dict(
        _entry(path, key, value, known)
        for key, value in document.items()
        if (name := key.replace("-", "_")) in known or name not in others
    )


def flag_name(option: click.Option) -> str:
    """The long name of a flag, without its dashes: `max_tokens` for `--max-tokens`."""
    longest = max(option.opts, key=len)
    return longest.lstrip("-").replace("-", "_")


def _entry(
    path: Path, key: str, value: object, known: dict[str, click.Option]
) -> tuple[str, object]:
    option = known.get(key.replace("-", "_"))
    where = f"{_name(path)}: {neutral_line(key)}"
    if option is None:
        raise click.UsageError(f"{where}: unknown key; known: {', '.join(sorted(known))}")
    # A list of one need not be written as one.
    values = value if option.multiple and isinstance(value, list) else [value]
    expected = _types_of(option)
    for each in values:
        if type(each) not in expected:
            shown = "what is there" if option.hide_input else repr(each)
            raise click.UsageError(f"{where}: {shown} is not {_EXPECTED[expected]}")
        try:
            option.type.convert(each, option, None)
        except click.BadParameter as error:
            raise click.UsageError(f"{where}: {error.message}") from error
    assert option.name is not None
    return option.name, values if option.multiple else value


def _types_of(option: click.Option) -> tuple[type, ...]:
    match option.type:
        case click.types.BoolParamType():
            return (bool,)
        case click.IntRange():
            return (int,)
        case click.FloatRange():
            return (float, int)
        case click.types.FuncParamType(func=function):
            return JSON_TYPES.get(function, (str,))
    return (str,)


def _reason(error: OSError | UnicodeDecodeError | tomllib.TOMLDecodeError) -> str:
    match error:
        case IsADirectoryError():
            return "it is a folder, and has to be a file in TOML"
        case OSError():
            return f"it cannot be read: {error.strerror}"
        case UnicodeDecodeError():
            wrong = f"byte {error.object[error.start]:#04x} at {error.start:,}"
            return f"it is no text in UTF-8, as TOML is: {wrong}"
    return f"it is not TOML: {error}"


def _name(path: Path) -> str:
    return neutral_line(str(path))
