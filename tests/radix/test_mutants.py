"""Tests of the tests: the state machine finds every seeded bug."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from radixchat.radix.cache import PrefixCache
from radixchat.tests.radix.machine import CacheMachine
from radixchat.tests.radix.mutants import MUTANTS, Mutant

_BOUNDED = settings(
    max_examples=1500,
    stateful_step_count=50,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)


_KILLED = (AssertionError, LookupError)  # an invariant, or a table that is too short


def _machine(cache: type[PrefixCache]) -> type[CacheMachine]:
    return type("MutantMachine", (CacheMachine,), {"cache_class": cache})


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_state_machine_kills(mutant: Mutant) -> None:
    """The machine fails on the mutant within 1,500 examples, most of them within ten."""
    machine = _machine(mutant.load())
    with pytest.raises(_KILLED):
        run_state_machine_as_test(machine, settings=_BOUNDED)


@pytest.mark.slow
def test_state_machine_spares_the_original() -> None:
    """Loaded the same way, with the same examples, an unchanged index passes: the control."""
    unchanged = Mutant("nothing", "cache", "class PrefixCache:", "class PrefixCache:")
    fewer = settings(_BOUNDED, max_examples=500)
    run_state_machine_as_test(_machine(unchanged.load()), settings=fewer)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_applies(mutant: Mutant) -> None:
    """The text that each mutant replaces is still there, once, and what results can be loaded."""
    assert mutant.load() is not PrefixCache


def test_mutant_that_does_not_apply() -> None:
    """A mutant whose text is gone fails loudly."""
    with pytest.raises(LookupError, match="gone: not once in tree"):
        Mutant("gone", "tree", "no such text", "").load()
