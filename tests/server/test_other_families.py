"""A chat with a model that only transformers knows: warm turns, its limits, and its one notice."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from radixchat.engine.errors import ConfigError, ModelLoadError, PromptTooLong
from radixchat.server.local import LocalSettings, load_model
from radixchat.server.protocol import ResponseDone
from radixchat.server.service import ChatService
from radixchat.tests.server.services import GREEDY, LONG, finish, serve
from radixchat.tests.tiny_neox import CONTEXT, tiny_neox_directory


@pytest.fixture(scope="module")
def neox(tmp_path_factory: pytest.TempPathFactory) -> LocalSettings:
    """Settings with the tiny GPT-NeoX; conversations in memory."""
    return LocalSettings(str(tiny_neox_directory(tmp_path_factory.mktemp("neox"))), device="cpu")


@pytest.mark.parametrize("kv", ["auto", "int8"])
def test_a_turn_costs_its_new_tokens(neox: LocalSettings, kv: str) -> None:
    """All that was computed before is found, and the answers are those without a cache."""

    async def body(service: ChatService) -> list[ResponseDone]:
        conversation = await service.create_conversation("Be brief.")
        turns = [await finish(service.send(conversation, f"turn {i}", GREEDY)) for i in range(3)]
        turns.append(await finish(service.regenerate(conversation, GREEDY)))
        turns.append(await finish(service.edit(conversation, 1, "other", GREEDY)))
        return turns

    warm = serve(body, replace(neox, kv=kv))
    for before, after in itertools.pairwise(warm[:3]):
        assert after.usage.cached_tokens == len(before.input_ids) + len(before.output_ids) - 1
    assert warm[3].usage.cached_tokens == warm[3].usage.input_tokens - 1
    assert warm[3].output_ids == warm[2].output_ids
    assert warm[4].usage.cached_tokens > 0
    cold = serve(body, replace(neox, kv=kv, prefix_cache=False))
    assert [turn.output_ids for turn in warm] == [turn.output_ids for turn in cold]
    assert not any(turn.usage.cached_tokens for turn in cold)


def test_the_context_is_the_model_s(neox: LocalSettings) -> None:
    """max_position_embeddings ends an answer, and refuses what is longer."""

    async def body(service: ChatService) -> None:
        assert service.n_ctx == CONTEXT
        conversation = await service.create_conversation()
        with pytest.raises(PromptTooLong, match=f"context.*{CONTEXT - 1}"):
            await finish(service.send(conversation, "x" * CONTEXT, GREEDY))
        options = replace(LONG, ignore_eos=True)
        done = await finish(service.send(conversation, "x" * 100, options))
        assert (done.status, done.reason) == ("incomplete", "context_length")
        assert len(done.input_ids) + len(done.output_ids) == CONTEXT

    serve(body, neox)


def test_exactness_is_not_promised(neox: LocalSettings, tiny_directory: Path) -> None:
    """The plan and a notice say so, and nobody gets it by asking; our own decoder has it."""
    model = load_model(neox)
    assert not model.engine.plan.exact
    assert "fp32 KV, not exact (computed by transformers)" in str(model.engine.plan)
    (notice,) = model.notices
    assert "GPTNeoXForCausalLM is computed by transformers" in notice
    with pytest.raises(ConfigError, match="exact is True, but GPTNeoXForCausalLM is computed by"):
        load_model(replace(neox, exact=True))
    ours = load_model(LocalSettings(str(tiny_directory), device="cpu"))
    assert ours.engine.plan.exact
    assert ours.notices == ()


def test_weights_stay_as_they_are(neox: LocalSettings) -> None:
    """int8 is refused, with what would do."""
    with pytest.raises(ConfigError, match=r"weights is 'int8', .*computed by transformers.*'auto'"):
        load_model(replace(neox, weights="int8"))


def test_what_cannot_be_is_told_before_the_weights_are_read(
    neox: LocalSettings, tmp_path: Path
) -> None:
    """A folder whose weights are damaged behind their header: it is the setting that is named."""
    folder = tiny_neox_directory(tmp_path)
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-4] + b"\xff" * 4)
    with pytest.raises(ConfigError, match="pool_tokens is 1, less than one page"):
        load_model(replace(neox, model=str(folder), pool_tokens=1))
    with pytest.raises(ModelLoadError, match="with paged attention its logits differ by nan"):
        load_model(replace(neox, model=str(folder)))
