"""Chat templates for the tests, and the tiny model with one of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

_GENERATE = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    + _GENERATE
)
# Reasoning is cut out of every answer of the past.
STRIPS_REASONING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content.split('</think>')[-1] }}<|im_end|>\n{% endfor %}" + _GENERATE
)
# As above, and every answer begins with its reasoning.
THINKS = STRIPS_REASONING.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
# As STRIPS_REASONING, with the day in the head.
DATED = "<|im_start|>day\n{{ strftime_now('%d %B') }}<|im_end|>\n" + STRIPS_REASONING


def with_template(model: Path, path: Path, source: str) -> Path:
    """A copy of a model's folder at `path`, with another chat template."""
    shutil.copytree(model, path)
    config = json.loads((path / "tokenizer_config.json").read_text("utf-8"))
    config["chat_template"] = source
    (path / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    return path
