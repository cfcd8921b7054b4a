"""What a look at an installation has found: sections of facts, and problems with what would help.

Owns how they are shown. Knows none of the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from radixchat.chat_cli.control_characters import neutral_line


@dataclass(frozen=True, slots=True)
class Problem:
    """What is not as it should be, and what would help."""

    what: str
    help: str


@dataclass(frozen=True, slots=True)
class Section:
    """Facts by name, in the order in which they are shown."""

    title: str
    facts: Mapping[str, str] = field(default_factory=dict)
    problems: Sequence[Problem] = ()


def looked_at(title: str, look: Callable[[], Section]) -> Section:
    """The section; what keeps it from being looked at is a problem of the machine's, too."""
    try:
        return look()
    except Exception as error:  # noqa: BLE001 - a page that a broken machine breaks is none
        what = f"{title} could not be looked at: {type(error).__name__}: {error}"
        return Section(title, {}, (Problem(what, "quote this line in a bug report"),))


def as_text(sections: Sequence[Section]) -> str:
    """A page for people: the facts aligned, then the problems, numbered."""
    width = max((len(name) for section in sections for name in section.facts), default=0)
    lines: list[str] = []
    for section in sections:
        lines += [section.title]
        lines += [
            f"  {name:<{width}}  {neutral_line(text)}".rstrip()
            for name, text in section.facts.items()
        ]
    problems = [problem for section in sections for problem in section.problems]
    for number, problem in enumerate(problems, start=1):
        lines.append(f"problem {number}: {neutral_line(problem.what)}")
        lines.append(f"  what would help: {neutral_line(problem.help)}")
    if not problems:
        lines.append("all is well")
    return "\n".join(lines)


def as_object(sections: Sequence[Section]) -> dict[str, object]:
    """The same for a script."""
    problems = [
        {"section": section.title, "what": problem.what, "help": problem.help}
        for section in sections
        for problem in section.problems
    ]
    return {
        "ok": not problems,
        "sections": {section.title: dict(section.facts) for section in sections},
        "problems": problems,
    }


def shown_path(path: Path) -> str:
    """A path that does not tell whose home it is in."""
    try:
        home = Path.home()
    except RuntimeError:  # a user without one
        return str(path)
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def shown_bytes(number: int) -> str:
    """A size with its unit."""
    size, units = float(number), iter(("B", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while size >= 1024 and unit != "TiB":
        size, unit = size / 1024, next(units)
    return f"{size:,.0f} {unit}" if unit == "B" or size >= 100 else f"{size:,.1f} {unit}"
