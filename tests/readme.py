"""The parts of README.md that are derived from the code, between `<!-- name -->` markers.

`python -m radixchat.tests.readme` writes them anew; test_readme.py fails while they differ.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from click import Command, Context

from radixchat.chat_cli.chat_command import chat
from radixchat.chat_cli.command_line import HELP
from radixchat.chat_cli.main import cli
from radixchat.chat_cli.serve_command import serve

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PACKAGES = ("radix", "kernels", "engine", "server", "chat_cli", "bench")
HELP_WIDTH = 96


def tree() -> str:
    """Every package and module with the first line of its docstring."""
    lines = []
    for package in PACKAGES:
        modules = sorted(p for p in (ROOT / package).rglob("*.py") if p.name != "__init__.py")
        names = [path.relative_to(ROOT / package).as_posix() for path in modules]
        width = max(map(len, names), default=0)
        init = ROOT / package / "__init__.py"
        summary = f"  {first_line(init)}" if init.exists() else ""
        lines.append(f"{package}/{summary}")
        lines += [
            f"  {name:<{width}}  {first_line(path)}"
            for name, path in zip(names, modules, strict=True)
        ]
    return "\n".join(lines)


def first_line(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring, path
    return docstring.splitlines()[0]


def help_of(command: Command) -> str:
    """What `radixchat COMMAND --help` prints, at a fixed width."""
    parent = Context(cli, info_name="radixchat", **cli.context_settings)
    context = Context(command, info_name=command.name, parent=parent, terminal_width=HELP_WIDTH)
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())


def commands() -> str:
    """What can be typed in a chat, as /help shows it."""
    width = max(map(len, HELP))
    return "\n".join(f"{usage:<{width}}  {help_}" for usage, help_ in HELP.items())


def derived(text: str) -> str:
    """README's text with its derived parts as they should be."""
    blocks = (
        ("tree", tree()),
        ("help", help_of(chat)),
        ("commands", commands()),
        ("serve-help", help_of(serve)),
    )
    for name, content in blocks:
        text = replaced_block(text, name, content)
    return text


def replaced_block(text: str, name: str, content: str) -> str:
    """README's text with another content of one block."""
    longest = max(map(len, re.findall("`{3,}", content)), default=2)
    fence = "`" * (longest + 1)
    block = f"<!-- {name} -->\n{fence}\n{content}\n{fence}\n<!-- /{name} -->"
    pattern = re.compile(f"<!-- {name} -->.*<!-- /{name} -->", re.DOTALL)
    text, found = pattern.subn(lambda _: block, text)
    assert found == 1, f"README.md has {found} blocks named {name}"
    return text


def block(text: str, name: str) -> str:
    """What stands between the fences of one block of README's text."""
    found = re.search(f"<!-- {name} -->\n(`+).*?\n(.*)\n\\1\n<!-- /{name} -->", text, re.DOTALL)
    assert found is not None, f"README.md has no block named {name}"
    return found[2]


if __name__ == "__main__":
    README.write_text(derived(README.read_text(encoding="utf-8")), encoding="utf-8")
