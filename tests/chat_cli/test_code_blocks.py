"""Code between fences: found as CommonMark finds it, whole and as it is."""

from __future__ import annotations

import pytest

from radixchat.chat_cli.code_blocks import CodeBlock, code_blocks


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("no code, `only this`", []),
        (
            "```python title=x\na = 1\n\n  b\n```\nand\n~~~\nc\n~~~",
            [("python", "a = 1\n\n  b\n"), ("", "c\n")],
        ),
        (
            "- a list\n  ```sh\n  ls\n  ```\n> ```\n> quoted\n> ```",
            [("sh", "ls\n"), ("", "quoted\n")],
        ),
        ("````md\n```py\nx\n```\n````", [("md", "```py\nx\n```\n")]),
        ("```py\nstopped here", [("py", "stopped here\n")]),
        ("```\n```", [("", "")]),
        ("<div>\n```\n*a*\n```\n</div>", [("", "*a*\n")]),
        ("    indented is not fenced", []),
        ("inline ``` is none ``` either", []),
    ],
)  # fmt: skip
def test_blocks(text: str, blocks: list[tuple[str, str]]) -> None:
    """Every fence counts, wherever it stands, even one that is not closed."""
    assert code_blocks(text) == tuple(CodeBlock(*block) for block in blocks)
