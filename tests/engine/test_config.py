"""Settings: what is refused, with which words, and what the defaults become."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from radixchat.engine.config import EngineConfig, memory_bytes
from radixchat.engine.cores import usable_cores
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
        ({"weights": "int4"}, "weights is 'int4'; it must be one of auto, fp32, int8"),
        ({"kv": "fp8"}, "kv is 'fp8'; it must be one of auto, int8"),
        ({"device": "tpu"}, "device is 'tpu'; it must be one of auto, cpu, cuda"),
        ({"max_step_tokens": 4, "max_running": 8}, "max_step_tokens is 4.*8 or more"),
        ({"max_mixed_tokens": 4, "max_running": 8}, "max_mixed_tokens is 4.*8 or more"),
        ({"max_running": 0}, "max_running is 0; it must be 1 or more"),
    ],
)
def test_impossible_settings_are_named(settings: dict[str, Any], message: str) -> None:
    """The error names the field, its value and what would do."""
    with pytest.raises(ConfigError, match=message):
        EngineConfig(**settings)


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


def test_int8_kv_counts_codes_and_scales() -> None:
    """66 bytes of 64 numbers instead of 256, so a pool of given memory holds 3.9 times as many."""
    model = replace(model_config(), head_dim=64)
    plain, int8 = (EngineConfig(device="cpu", kv=kv).resolve(model) for kv in ("auto", "int8"))
    heads = 2 * model.num_layers * model.num_kv_heads
    assert plain.kv_bytes_per_token == heads * 256
    assert int8.kv_bytes_per_token == heads * 66
    assert (plain.kv, int8.kv) == ("fp32", "int8")


def test_the_cpu_is_exact_unless_told_otherwise() -> None:
    """And the plan says with which arithmetic it runs, in itself and in its text."""
    plan = EngineConfig(device="cpu").resolve(model_config(), "blocks")
    assert plan.exact
    assert plan.arithmetic == "cpu, blocks weights, fp32 KV, exact"
    assert plan.arithmetic in str(plan)
    fast = EngineConfig(device="cpu", exact=False, kv="int8").resolve(model_config())
    assert fast.arithmetic == "cpu, fp32 weights, int8 KV, not exact"


def test_a_checkpoint_must_have_the_weights_that_are_asked_for() -> None:
    """What the engine's settings say of weights is never what somebody else computes with."""
    with pytest.raises(ConfigError, match="weights is 'int8', but the checkpoint's are 'fp32'"):
        EngineConfig(device="cpu", weights="int8").resolve(model_config(), "fp32")
    assert EngineConfig(weights="int8").resolve(model_config(), "int8").weights == "int8"
