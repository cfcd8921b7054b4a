"""What was found, as a page and as an object."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.chat_cli.checkup import (
    Problem,
    Section,
    as_object,
    as_text,
    looked_at,
    shown_bytes,
    shown_path,
)

WELL = Section("machine", {"cores": "2", "a long name": "x\x1b[2J\ny"})
ILL = Section("files", {"database": "there"}, (Problem("it is broken", "mend it"),))


def test_a_page() -> None:
    """Facts aligned over all sections, on one line each; then the problems, or that all is well."""
    assert as_text([WELL, ILL]).splitlines() == [
        "machine",
        "  cores        2",
        "  a long name  x␛[2J y",
        "files",
        "  database     there",
        "problem 1: it is broken",
        "  what would help: mend it",
    ]
    assert as_text([WELL]).endswith("\nall is well")


def test_an_object() -> None:
    """Whether all is well, the facts by section, the problems with theirs."""
    assert as_object([WELL]) == {
        "ok": True,
        "sections": {"machine": dict(WELL.facts)},
        "problems": [],
    }
    problem = {"section": "files", "what": "it is broken", "help": "mend it"}
    assert as_object([ILL])["problems"] == [problem]
    assert as_object([ILL])["ok"] is False


def test_a_section_that_cannot_be_looked_at() -> None:
    """Whatever is raised becomes its problem, and the other sections stay."""

    def look() -> Section:
        raise ZeroDivisionError("of all things")

    section = looked_at("engine", look)
    assert section.title == "engine"
    (problem,) = section.problems
    assert "ZeroDivisionError: of all things" in problem.what
    assert looked_at("machine", lambda: WELL) is WELL


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1,023 B"), (1536, "1.5 KiB"), (98 << 20, "98.0 MiB"), (3 << 40, "3.0 TiB"),
     (150 << 20, "150 MiB"), (5000 << 40, "5,000 TiB")],
)  # fmt: skip
def test_sizes(number: int, text: str) -> None:
    """With a unit in which they are short."""
    assert shown_bytes(number) == text


def test_paths_tell_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is quoted does not say whose home it is."""
    monkeypatch.setenv("HOME", "/home/somebody")
    assert shown_path(Path("/home/somebody/x/y.db")) == "~/x/y.db"
    assert shown_path(Path("/home/somebody-else/y.db")) == "/home/somebody-else/y.db"
