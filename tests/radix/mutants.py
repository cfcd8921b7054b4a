"""`MUTANTS`: the seeded bugs of the index, and what kills each.

`python -m radixchat.tests.radix.mutants` prints the table: mutant, killed by, examples it took.

A mutant that names a directed check is killed by that check; otherwise, and if it is not, by the
state machine within a number of examples, as many as the fast suite gives it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from radixchat.radix.cache import PrefixCache
from radixchat.tests.radix.machine import EXAMPLES_PER_SIZE, PAGE_SIZES, CacheMachine
from radixchat.tests.radix.mutant import Mutant
from radixchat.tests.radix.structure_mutants import STRUCTURE_MUTANTS
from radixchat.tests.radix.use_mutants import USE_MUTANTS

MUTANTS = STRUCTURE_MUTANTS + USE_MUTANTS
UNCHANGED = Mutant("nothing", "cache", "class PrefixCache:", "class PrefixCache:")

_FAILURES = (AssertionError, LookupError)  # an invariant, or a table that is too short


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant: killed_by is empty when it survived so many examples."""

    mutant: Mutant
    killed_by: str
    examples: int


class _CountingMachine(CacheMachine):
    """Counts its examples."""

    examples: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).examples += 1


def _machine(cache: type[PrefixCache], page_size: int) -> type[_CountingMachine]:
    class MutantMachine(_CountingMachine):
        cache_class = cache
        page_sizes = (page_size,)

    return MutantMachine


def run(mutant: Mutant, examples_per_size: int, number: int = 0) -> Fate:
    """Try to kill a mutant; `number` seeds the examples."""
    cache = mutant.load()
    if mutant.check is not None and _fails(mutant, cache):
        return Fate(mutant, mutant.check.__name__, 0)
    bounded = settings(
        max_examples=examples_per_size,
        stateful_step_count=50,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    examples = 0
    for page_size in PAGE_SIZES:
        machine = _machine(cache, page_size)
        try:
            run_state_machine_as_test(seed(number)(machine), settings=bounded)
        except _FAILURES:
            return Fate(mutant, "the state machine", examples + machine.examples)
        examples += machine.examples
    return Fate(mutant, "", examples)


def _fails(mutant: Mutant, cache: type[PrefixCache]) -> bool:
    assert mutant.check is not None
    try:
        mutant.check(cache)
    except _FAILURES:
        return True
    return False


def report(fates: list[Fate]) -> str:
    """A line for each mutant, and how many were killed."""
    lines = [
        f"{fate.mutant.name:32} {fate.killed_by or 'SURVIVES':42} {fate.examples:4}"
        for fate in fates
    ]
    killed = sum(fate.killed_by != "" for fate in fates)
    return "\n".join([*lines, f"killed {killed} of {len(fates)} with the fast suite's budget"])


if __name__ == "__main__":
    sys.stdout.write(report([run(mutant, EXAMPLES_PER_SIZE) for mutant in MUTANTS]) + "\n")
