"""A step's size: the device's where nothing is asked, and what is asked wherever it is."""

from __future__ import annotations

import pytest

from radixchat.engine.config import EngineConfig
from radixchat.engine.step_budget import DEFAULT_BUDGETS, StepBudget, step_budget
from radixchat.tests.engine.test_rope import config as model_config


@pytest.mark.parametrize(
    ("device", "asked", "budget"),
    [
        ("cpu", (None, None, None), (16, 128, 64)),
        ("cuda", (None, None, None), (64, 4096, 1024)),
        ("cpu", (4, 32, 8), (4, 32, 8)),
        ("cuda", (4, 32, 8), (4, 32, 8)),
        # Few tokens are of few requests, many requests have a token each.
        ("cpu", (None, 12, None), (12, 12, 12)),
        ("cpu", (None, None, 12), (12, 128, 12)),
        ("cuda", (None, 32, None), (32, 32, 32)),
        ("cpu", (100, None, None), (100, 128, 100)),
        ("cpu", (200, None, None), (200, 200, 200)),
        ("cuda", (2000, None, None), (2000, 4096, 2000)),
        # Beside answers a step never has more than without.
        ("cpu", (8, 24, 64), (8, 24, 24)),
    ],
)
def test_what_is_not_asked_suits_the_device_and_what_is(
    device: str, asked: tuple[int | None, int | None, int | None], budget: tuple[int, int, int]
) -> None:
    """No answer waits for another: a step has room for a token of each request."""
    assert step_budget(device, *asked) == StepBudget(*budget)


def test_every_device_has_a_budget_that_fits_itself() -> None:
    """The devices are those that settings resolve to."""
    assert set(DEFAULT_BUDGETS) == {"cpu", "cuda"}
    for budget in DEFAULT_BUDGETS.values():
        assert budget.requests <= budget.mixed_tokens <= budget.tokens


def test_the_plan_has_the_device_s_budget_and_says_so() -> None:
    """Of the CPU here; what is asked comes through."""
    plan = EngineConfig(device="cpu").resolve(model_config())
    assert (plan.max_running, plan.max_step_tokens, plan.max_mixed_tokens) == (16, 128, 64)
    assert "16 requests and 128 tokens a step, 64 beside answers" in str(plan)
    asked = EngineConfig(device="cpu", max_running=3, max_step_tokens=40, max_mixed_tokens=9)
    plan = asked.resolve(model_config())
    assert (plan.max_running, plan.max_step_tokens, plan.max_mixed_tokens) == (3, 40, 9)
