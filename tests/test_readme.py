"""README says what is true of the code."""

from __future__ import annotations

import re

from radixchat.tests.readme import README, ROOT, derived


def test_the_module_tree_and_the_help_text_are_current() -> None:
    """Both are what the code says; `python -m radixchat.tests.readme` brings them up to date."""
    text = README.read_text(encoding="utf-8")
    assert text == derived(text)


def test_the_commands_it_names_exist() -> None:
    """Every `make` target in README is one."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)", README.read_text(encoding="utf-8")))
    assert named <= targets
    assert {"chat", "test"} <= named


def test_nothing_is_left_to_be_filled_in() -> None:
    """No line is one word in capitals, which is how a place for later looks."""
    lines = README.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if re.fullmatch(r"\s*[A-Z_]+\s*", line)] == []
