"""The sandbox that chat templates run in: Jinja, with the helpers that templates expect.

What it renders is what transformers renders (a test compares them), whose import takes half a
second, this one's 30 ms. A template is foreign code: it sees plain values and changes nothing.
Knows no message and no token.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace


def compile_template(source: str) -> Template:
    """The template, ready to render. Raises what Jinja raises, and what constant folding may."""
    sandbox = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    sandbox.filters["tojson"] = _tojson
    sandbox.globals.update(
        raise_exception=_raise,
        strftime_now=_now,
        dict=_Dict(),
        namespace=_Namespace,
    )
    return sandbox.from_string(source)


class _Generation(Extension):
    """`{% generation %}` marks what the model is trained to say; it renders as what it holds."""

    tags = {"generation"}  # noqa: RUF012  # jinja2 reads it from the class

    def parse(self, parser: Parser) -> nodes.Node:
        """The block as a call, so that what it sets stays inside, as in transformers."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method("_content")
        return nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _content(self, caller: Macro) -> str:
        return caller()


class _Dict:
    """`dict` without the class's own attributes, which lead out of the sandbox."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        """As dict.fromkeys."""
        return dict.fromkeys(*args)


class _Namespace(Namespace):
    """`namespace` that takes no name of Python's own."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        # So that `namespace(self=1)` works, as it does in Jinja.
        self, *values = args
        attributes = dict(*values, **kwargs)
        for name in attributes:
            _check_name(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a chat template may not set {name!r}: it begins with an underscore")


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own would escape for HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _now(format: str) -> str:  # noqa: A002  # the name by which templates may pass it
    return datetime.now().strftime(format)  # local time, as transformers has it
