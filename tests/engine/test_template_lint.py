"""What templates do to the prefix of a conversation, found by rendering."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.engine.template import ChatTemplate
from radixchat.engine.template_lint import (
    DATE_IN_HEAD,
    OPENS_THINKING,
    REWRITES_HISTORY,
    STRIPS_REASONING,
    TOOL_ORDER,
    TRIMS_WHITESPACE,
    TemplateLint,
)

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# What each is known to do; reasons in the order in which they are reported.
VERDICTS = {
    "SmolLM2-135M-Instruct": (),
    "Qwen-Qwen2.5-7B-Instruct": (),
    "google-gemma-2-2b-it": (TRIMS_WHITESPACE,),
    "HuggingFaceTB-SmolLM3-3B": (TRIMS_WHITESPACE,),
    "Mistral-Small-3.2-24B-Instruct-2506": (DATE_IN_HEAD, TOOL_ORDER),
    "Qwen-Qwen3-0.6B": (STRIPS_REASONING,),
    "Qwen3.5-4B": (STRIPS_REASONING, OPENS_THINKING, TRIMS_WHITESPACE),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": (STRIPS_REASONING, OPENS_THINKING),
    "GLM-4.6": (STRIPS_REASONING, TRIMS_WHITESPACE),
}


def lint(source: str) -> TemplateLint:
    """The verdict on a template."""
    return ChatTemplate(source, bos_token="<s>", eos_token="</s>").lint


@pytest.mark.shared_data
@pytest.mark.parametrize("name", VERDICTS)
def test_each_shared_template_gets_its_known_verdict(shared_data: Path, name: str) -> None:
    """Two keep the prefix; the others are told why not."""
    verdict = lint((shared_data / "templates" / f"{name}.jinja").read_text("utf-8"))
    assert verdict.preserves_prefix == (not VERDICTS[name])
    assert verdict.reason == ("; ".join(VERDICTS[name]) or None)
    assert verdict.appendable == (STRIPS_REASONING not in VERDICTS[name])


@pytest.mark.parametrize(
    ("change", "reason", "appendable"),
    [
        (("m.content", "m.content"), None, True),
        (("m.content", "m.content | trim"), TRIMS_WHITESPACE, True),
        (("m.content", "m.content.lstrip('\n')"), TRIMS_WHITESPACE, True),
        (("m.content", "m.content.split('</think>')[-1]"), STRIPS_REASONING, False),
        (("assistant\n", "assistant\n<think>\n"), OPENS_THINKING, False),
        (("{% for", "Today: {{ strftime_now('%d %B %Y') }}\n{% for"), DATE_IN_HEAD, True),
        (("{% for", "{{ messages | length }}{% for"), REWRITES_HISTORY, False),
    ],
)
def test_one_change_to_a_plain_template_is_found(
    change: tuple[str, str], reason: str | None, appendable: bool
) -> None:
    """And nothing else is."""
    verdict = lint(CHATML.replace(*change))
    assert verdict == TemplateLint(reason is None, reason, appendable)


def test_a_date_that_is_not_shown_is_no_finding() -> None:
    """A template may ask for the date and write it only into a default system message."""
    source = "{% set today = strftime_now('%Y-%m-%d') %}" + CHATML
    assert lint(source).preserves_prefix
