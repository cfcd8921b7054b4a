"""Tests of the tests: random schedules find the seeded bugs of scheduling and speculation."""

from __future__ import annotations

import sys

import pytest

from radixchat.engine.engine import Engine
from radixchat.tests.engine.mutant import Mutant
from radixchat.tests.engine.mutants import MUTANTS, UNCHANGED, report, run
from radixchat.tests.engine.solo_answers import SoloAnswers


@pytest.mark.slow
def test_schedules_find_every_mutant(solos: SoloAnswers) -> None:
    """Each within two hundred schedules, most within ten; the engine itself lives as long."""
    fates = [run(mutant, solos) for mutant in MUTANTS]
    sys.stdout.write(f"\n{report(fates)}\n")  # pytest -s
    assert [fate.mutant.name for fate in fates if not fate.found_by] == []
    assert run(UNCHANGED, solos).found_by == ""


def test_mutants_apply() -> None:
    """The text that each mutant replaces is still there, once, and what results is Python."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20
    for mutant in MUTANTS:
        compile(mutant.changed(), mutant.name, "exec")
    assert UNCHANGED.load() is not Engine


def test_mutant_that_does_not_apply() -> None:
    """A mutant whose text is gone, or whose module the engine does without, fails loudly."""
    with pytest.raises(LookupError, match="gone: not once in scheduler"):
        Mutant("gone", "scheduler", "no such text", "").load()
    with pytest.raises(AssertionError, match=r"away: engine\.py does without it"):
        Mutant("away", "template_lint", '"""', "").load()
