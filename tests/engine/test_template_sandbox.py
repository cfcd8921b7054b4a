"""The templates' sandbox: renders what transformers' does, and lets nothing out."""

from __future__ import annotations

from typing import Any

import pytest
from jinja2 import TemplateError
from jinja2.exceptions import SecurityError
from transformers.utils.chat_template_utils import render_jinja_template

from radixchat.engine.template_sandbox import compile_template

MESSAGES = [{"role": "user", "content": "<b>ä</b>"}, {"role": "assistant", "content": "y\n"}]
SOURCES = [
    "{{ messages | tojson }}",
    "{{ messages[0] | tojson(indent=2, ensure_ascii=true, sort_keys=true) }}",
    '{{ messages[0] | tojson(separators=(",", ":")) }}',
    "  {% for m in messages %}\n{{ loop.index }}{% if loop.first %}{% continue %}{% endif %}"
    "\n  {{- m.content -}}\n{% break %}{% endfor %}\n end ",
    "{% set ns = namespace(n=0, self=1) %}{% for m in messages %}{% set ns.n = ns.n + 2 %}"
    "{% endfor %}{{ ns.n }}{{ ns.self }}",
    "{{ dict(a=1, **{'b': 2}) }}{{ dict.fromkeys(['c'], 3) }}{{ dict([('d', 4)]) }}",
    "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}",
    "{{ strftime_now('%Y') }}{{ bos_token }}{{ tools }}{{ documents }}{{ absent }}",
    "{% macro say(m) %}<{{ m.role | upper | trim }}>{% endmacro %}{{ say(messages[1]) }}",
]


def render(source: str) -> str:
    """As ChatTemplate calls it."""
    return compile_template(source).render(
        messages=MESSAGES, tools=None, documents=None, add_generation_prompt=True, bos_token="<s>"
    )


def as_transformers(source: str) -> Any:
    """The same by transformers."""
    rendered, _ = render_jinja_template(
        conversations=[MESSAGES], chat_template=source, add_generation_prompt=True, bos_token="<s>"
    )
    return rendered[0]


@pytest.mark.parametrize("source", SOURCES)
def test_it_renders_as_transformers(source: str) -> None:
    """Whitespace, loop controls, JSON, namespaces, generation blocks, the date."""
    assert render(source) == as_transformers(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ dict.__init__.__globals__ }}",
        "{{ dict.mro() }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(a=1) }}",
        "{% set ns = namespace(__class__=1) %}",
        "{% set ns = namespace() %}{% set ns._x = 1 %}",
        "{{ namespace.__init__.__globals__ }}",
        "{{ raise_exception.__globals__['json'] }}",
    ],
)
def test_nothing_gets_out(source: str) -> None:
    """Neither Python's own names nor a change of what was passed; transformers refuses it, too."""
    with pytest.raises(TemplateError):
        render(source)
    with pytest.raises(TemplateError):
        as_transformers(source)


def test_a_template_can_refuse() -> None:
    """With its own words; what is not allowed to it is an error of its own."""
    with pytest.raises(TemplateError, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(SecurityError, match=r"'_x'.*underscore"):
        render("{% set ns = namespace(_x=1) %}")
