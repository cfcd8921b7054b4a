"""How fast a prompt that can never fit is refused, and that nobody else notices."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from radixchat.bench.bench_model import greedy, random_tokens, warm_up
from radixchat.engine.config import DEFAULT_PAGE_SIZE, EngineConfig
from radixchat.engine.engine import Engine
from radixchat.engine.errors import PromptTooLong
from radixchat.engine.request import Request
from radixchat.engine.weights import Checkpoint


@dataclass(frozen=True, slots=True)
class RefusalLoad:
    """running: answers under way, of `prompt` and `answer` tokens; a refusal after each step."""

    running: int
    prompt: int
    answer: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """longest_ms: until a refusal was there; it names num_tokens and limit. unaffected: the others
    gave the same answers in as many steps as without."""

    refusals: int
    longest_ms: float
    num_tokens: int
    limit: int
    limited_by: str
    steps: int
    unaffected: bool


def refusal(checkpoint: Checkpoint, load: RefusalLoad, seed: int) -> Refusal:
    """Answer the same requests twice, the second time with prompts of a token too many between."""
    quiet, _ = _answers(checkpoint, load, seed, refuse=False)
    disturbed, errors = _answers(checkpoint, load, seed, refuse=True)
    error, longest = max(errors, key=lambda each: each[1])
    return Refusal(
        len(errors),
        round(1000 * longest, 3),
        error.num_tokens,
        error.limit,
        error.limited_by,
        len(errors),
        disturbed == quiet,
    )


def _answers(
    checkpoint: Checkpoint, load: RefusalLoad, seed: int, *, refuse: bool
) -> tuple[list[list[tuple[int, int | None]]], list[tuple[PromptTooLong, float]]]:
    """What each step brought, and the refusals with their seconds."""
    # Room for those that run, with a page more for each.
    room = load.running * (load.prompt + load.answer + DEFAULT_PAGE_SIZE)
    engine = Engine(checkpoint, EngineConfig(pool_tokens=room))
    warm_up(engine)
    rng = random.Random(seed)
    vocab_size = engine.plan.vocab_size
    for number in range(load.running):
        prompt = random_tokens(rng, vocab_size, load.prompt)
        engine.submit(Request(number, prompt, greedy(load.answer)))
    too_long = random_tokens(rng, vocab_size, engine.plan.max_tokens)
    events, errors = [], list[tuple[PromptTooLong, float]]()
    while engine.has_work:
        events.append([(event.request_id, event.token) for event in engine.step()])
        if refuse:
            started = time.perf_counter()
            try:
                engine.submit(Request(load.running + len(errors), list(too_long), greedy(1)))
            except PromptTooLong as error:
                errors.append((error, time.perf_counter() - started))
    return events, errors
