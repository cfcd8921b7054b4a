"""The default model against transformers in fp32, on the same weights."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from radixchat.engine.config import EngineConfig
from radixchat.engine.engine import Engine
from radixchat.engine.prompt import ChatMessage
from radixchat.engine.request import Request
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.template import ChatTemplate
from radixchat.engine.tokenizer import Tokenizer
from radixchat.engine.weights import Checkpoint, load_checkpoint
from radixchat.tests.engine.driver import run
from radixchat.tests.engine.reference_decoder import reference_decoder

Chats = Callable[[str], Iterator[dict[str, Any]]]

NUM_PROMPTS = 50
NUM_TOKENS = 64
# Where the two largest logits are closer than this, rounding may decide between them.
NEAR_TIE = 1e-3


@pytest.fixture(scope="module")
def checkpoint(default_model: Path) -> Checkpoint:
    """As the command line loads it: the file's blocks as they are."""
    return load_checkpoint(default_model, weights="auto")


def user_messages(chats: Chats) -> list[str]:
    """The first messages of chats in English, German, French, Japanese, Russian and Chinese."""
    chosen: list[str] = []
    by_language: dict[str, int] = {}
    for chat in chats("multilingual_mtbench_2turn"):
        text = chat["messages"][0]["content"]
        if by_language.get(chat["lang"], 0) < 3 and len(text) < 600:
            by_language[chat["lang"]] = by_language.get(chat["lang"], 0) + 1
            chosen.append(text)
    english = (chat["messages"][0]["content"] for chat in chats("mtbench101"))
    chosen += islice((text for text in english if len(text) < 600), NUM_PROMPTS - len(chosen))
    assert len(by_language) >= 5
    assert len(chosen) == NUM_PROMPTS
    return chosen


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.model
@pytest.mark.shared_data
def test_greedy_text_is_that_of_transformers(checkpoint: Checkpoint, shared_chats: Chats) -> None:
    """64 tokens on 50 prompts: equal, or first different where transformers has a near tie."""
    assert checkpoint.fields is not None
    tokenizer = Tokenizer.from_gguf(checkpoint.fields)
    template = ChatTemplate.of(tokenizer)
    prompts = [
        tokenizer.encode_prompt(
            template.render([ChatMessage("user", text)], add_generation_prompt=True)
        )
        for text in user_messages(shared_chats)
    ]
    engine = Engine(checkpoint, EngineConfig(max_running=16))
    sampling = SamplingParams(temperature=0, max_tokens=NUM_TOKENS)
    outcomes = run(
        engine,
        [Request(i, p.copy(), sampling, tokenizer.stop_ids) for i, p in enumerate(prompts)],
    )
    model = reference_decoder(checkpoint)
    equal, near_ties = 0, []
    for i, prompt in enumerate(prompts):
        gap = first_difference(model, prompt, outcomes[i].tokens)
        equal += gap is None
        if gap is not None:
            near_ties.append(gap)
    sys.stdout.write(f"{equal} of {NUM_PROMPTS} equal; logit gaps of the others: {near_ties}\n")
    assert all(gap < NEAR_TIE for gap in near_ties)


def first_difference(model: LlamaForCausalLM, prompt: list[int], output: list[int]) -> float | None:
    """The top-2 logit gap of transformers where it would first choose another token, if it would.

    One pass over prompt and output: up to the first difference it is what greedy decoding sees.
    """
    with torch.inference_mode():
        logits = model(torch.tensor([prompt + output])).logits[0, len(prompt) - 1 : -1]
    for row, token in zip(logits, output, strict=True):
        best = row.topk(2)
        if best.indices[0] != token:
            return float(best.values[0] - best.values[1])
    return None
