"""Settings: what is refused, with which words, and what the defaults become."""

from __future__ import annotations

import pytest

from radixchat.engine.config import EngineConfig, memory_bytes, usable_cores
from radixchat.engine.errors import ConfigError, PromptTooLong
from radixchat.tests.engine.test_rope import config as model_config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"page_size": 0}, "page_size is 0"),
        ({"pool_tokens": -5}, "pool_tokens is -5"),
        ({"threads": 0}, "threads is 0"),
        ({"threads": 1025}, "threads is 1025.*1024"),
        ({"threads": 10**11}, "threads is 100000000000"),
        ({"max_waiting": -1}, "max_waiting is -1"),
        ({"max_step_tokens": 4, "max_running": 8}, "max_step_tokens is 4.*8 or more"),
    ],
)
def test_impossible_settings_are_named(settings: dict[str, int], message: str) -> None:
    """The error names the field, its value and what would do."""
    with pytest.raises(ConfigError, match=message):
        EngineConfig(**settings)  # type: ignore[arg-type]  # each case sets other fields


def test_a_pool_smaller_than_a_page_or_larger_than_memory_is_refused() -> None:
    """Both ends of pool_tokens are checked against the model and the machine."""
    model = model_config()
    with pytest.raises(ConfigError, match="less than one page of 16 tokens; set at least 16"):
        EngineConfig(pool_tokens=15).resolve(model)
    too_many = memory_bytes() // model.kv_bytes_per_token(4) + 1
    with pytest.raises(ConfigError, match=f"pool_tokens is {too_many}.*at most {too_many - 1}"):
        EngineConfig(pool_tokens=too_many).resolve(model)


def test_the_default_pool_is_four_contexts_in_whole_pages() -> None:
    """A small model's pool is bounded by its context, and the plan says so in a line."""
    plan = EngineConfig().resolve(model_config())
    assert plan.pool_tokens == 4 * 1024
    assert plan.threads == usable_cores()
    assert "256 pages of 16 tokens" in str(plan)
    assert EngineConfig(pool_tokens=100).resolve(model_config()).pool_tokens == 96


@pytest.mark.parametrize(
    ("pool_tokens", "longest", "limit"),
    [
        (None, 1023, "context admits at most 1023: shorten it, or leave out old turns"),
        (512, 511, "pool admits at most 511: shorten it, or give the pool more tokens"),
    ],
)
def test_a_prompt_must_leave_room_for_one_token(
    pool_tokens: int | None, longest: int, limit: str
) -> None:
    """The longest prompt is one less than what context and pool hold; one more is refused."""
    plan = EngineConfig(pool_tokens=pool_tokens).resolve(model_config())
    plan.validate_prompt(longest)
    with pytest.raises(PromptTooLong, match=f"{longest + 1} tokens, but the {limit}") as e:
        plan.validate_prompt(longest + 1)
    assert (e.value.num_tokens, e.value.limit) == (longest + 1, longest)
