"""The configuration file: its values checked, each against the flag of the same name.

A key is a flag's long name; `top-p` and `top_p` are the same key. Knows no flag by itself, and not
what a value is for: precedence is click's (flag, then variable, then this file, then default).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from radixchat.chat_cli.control_characters import neutral_line

_EXPECTED: Mapping[type, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
}


def load_config(path: Path, options: Iterable[click.Option]) -> dict[str, object]:
    """The file's values by parameter name; {} if there is no file.

    Raises click.UsageError, naming the file and the key: unreadable, not TOML, an unknown key, a
    value of the wrong type or out of range.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise click.UsageError(f"{_name(path)}: {neutral_line(str(error))}") from error
    known = {flag_name(option): option for option in options if option.name != "help"}
    return dict(_entry(path, key, value, known) for key, value in document.items())


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
    expected = _type_of(option)
    fits = type(value) is expected or (expected is float and type(value) is int)
    if not fits:
        raise click.UsageError(f"{where}: {value!r} is not {_EXPECTED[expected]}")
    if expected is not bool:
        try:
            option.type.convert(value, option, None)
        except click.BadParameter as error:
            raise click.UsageError(f"{where}: {error.message}") from error
    assert option.name is not None
    return option.name, value


def _type_of(option: click.Option) -> type:
    if option.is_flag:
        return bool
    if isinstance(option.type, click.IntRange):
        return int
    return float if isinstance(option.type, click.FloatRange) else str


def _name(path: Path) -> str:
    return neutral_line(str(path))
