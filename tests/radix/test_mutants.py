"""Tests of the tests: the state machine and the directed checks find the seeded bugs."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from radixchat.radix.cache import PrefixCache
from radixchat.tests.radix.directed_checks import DIRECTED_CHECKS
from radixchat.tests.radix.machine import EXAMPLES_PER_SIZE
from radixchat.tests.radix.mutant import Mutant
from radixchat.tests.radix.mutants import MUTANTS, UNCHANGED, report, run


@pytest.mark.slow
def test_fast_suite_kills_nine_mutants_in_ten() -> None:
    """As many examples as the fast suite has kill 90 % of the mutants, ten times as many all."""
    fates = [run(mutant, EXAMPLES_PER_SIZE) for mutant in MUTANTS]
    sys.stdout.write(f"\n{report(fates)}\n")  # pytest -s
    survivors = [fate.mutant for fate in fates if not fate.killed_by]
    assert len(survivors) <= 0.1 * len(MUTANTS)
    immortal = [m.name for m in survivors if not run(m, 10 * EXAMPLES_PER_SIZE, 1).killed_by]
    assert not immortal


@pytest.mark.slow
def test_unchanged_index_survives() -> None:
    """Loaded the same way, with the same examples and more, the index itself lives: the control."""
    for number in (0, 1):
        assert run(UNCHANGED, EXAMPLES_PER_SIZE, number).killed_by == ""


@pytest.mark.parametrize("check", DIRECTED_CHECKS, ids=lambda check: check.__name__)
def test_directed_check(check: Callable[[type[PrefixCache]], None]) -> None:
    """What the machine cannot see is so."""
    check(PrefixCache)


def test_mutants_apply() -> None:
    """The text that each mutant replaces is still there, once, and what results is Python."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 30
    for mutant in MUTANTS:
        compile(mutant.changed(), mutant.name, "exec")
    assert UNCHANGED.load() is not PrefixCache


def test_each_directed_check_is_for_a_mutant() -> None:
    """No check is idle, and none runs only on mutants."""
    assert set(DIRECTED_CHECKS) == {mutant.check for mutant in MUTANTS if mutant.check is not None}


def test_mutant_that_does_not_apply() -> None:
    """A mutant whose text is gone, or whose module the index does without, fails loudly."""
    with pytest.raises(LookupError, match="gone: not once in tree"):
        Mutant("gone", "tree", "no such text", "").load()
    with pytest.raises(AssertionError, match=r"away: cache\.py does without it"):
        Mutant("away", "slru", "class", "").load()
