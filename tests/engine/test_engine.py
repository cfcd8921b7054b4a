"""The engine against a naive generator: the cache and the batch are invisible, to the bit."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from radixchat.engine.engine import Engine
from radixchat.engine.errors import EngineOverloaded, ModelLoadError, PromptTooLong
from radixchat.engine.request import FinishReason, Request
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.weights import Checkpoint
from radixchat.tests import tiny_model
from radixchat.tests.engine.driver import (
    GREEDY,
    answer,
    common_prefix,
    make_engine,
    prompt,
    run,
    stored_kv,
)

PAGE_SIZES = [1, 8, 16, 32]


def chat(turns: int, seed: int = 0) -> list[list[int]]:
    """What each user turn of a conversation adds."""
    lengths = random.Random(seed).choices(range(3, 40), k=turns)
    return [prompt(length, seed * 100 + i) for i, length in enumerate(lengths)]


def test_greedy_tokens_are_those_of_transformers(tiny: Checkpoint, naive: Engine) -> None:
    """Every sampled token is transformers' argmax after the same ids."""
    config = LlamaConfig(**{k: v for k, v in tiny_model.CONFIG.items() if k != "torch_dtype"})
    reference = LlamaForCausalLM(config).eval()
    state = {f"model.{name}": tensor for name, tensor in tiny.tensors.items()}
    reference.load_state_dict(state | {"lm_head.weight": tiny.tensors["embed_tokens.weight"]})
    for length in (1, 2, 30, 200):
        tokens = prompt(length, length)
        output = answer(naive, tokens, SamplingParams(temperature=0, max_tokens=40)).tokens
        with torch.inference_mode():
            logits = reference(torch.tensor([tokens + output])).logits[0]
        expected = logits[length - 1 : -1].argmax(-1).tolist()
        assert output == expected


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_every_turn_computes_only_its_new_tokens(
    tiny: Checkpoint, naive: Engine, page_size: int
) -> None:
    """Turn n's cached tokens equal the oracle, and its answer the naive generator's."""
    engine = make_engine(tiny, page_size=page_size)
    history: list[int] = []
    computed: list[list[int]] = [[]]
    for turn in chat(6, seed=page_size):
        history = history + turn
        outcome = answer(engine, history)
        assert outcome.tokens == answer(naive, history).tokens
        assert outcome.usage is not None
        oracle = max(common_prefix(history, known) for known in computed)
        assert outcome.usage.cached_tokens == min(oracle, len(history) - 1)
        assert outcome.usage.cached_tokens > 0 or len(computed) == 1
        history = history + outcome.tokens
        computed.append(history[:-1])  # the last sampled token was never forwarded


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_regenerate_edit_and_fork_reuse_up_to_the_change(
    tiny: Checkpoint, naive: Engine, page_size: int
) -> None:
    """An exact repeat hits all but one token; an edit everything before it; both stay right."""
    engine = make_engine(tiny, page_size=page_size, pool_tokens=8192)
    tokens = prompt(3 * page_size + 5)
    first = answer(engine, tokens)
    again = answer(engine, tokens)
    assert again.tokens == first.tokens
    assert again.usage is not None
    assert again.usage.cached_tokens == len(tokens) - 1
    for cut in range(1, len(tokens)):
        edited = [*tokens[:cut], (tokens[cut] + 1) % 250, *prompt(4, cut)]
        outcome = answer(engine, edited)
        assert outcome.usage is not None
        assert outcome.usage.cached_tokens == cut
        assert outcome.tokens == answer(naive, edited).tokens


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_lengths_around_a_page_border(tiny: Checkpoint, naive: Engine, page_size: int) -> None:
    """Prompts of kP - 1, kP, kP + 1 tokens, cold and then warm, and of one token."""
    engine = make_engine(tiny, page_size=page_size)
    for length in sorted({1} | {k * page_size + d for k in (1, 2, 3) for d in (-1, 0, 1)} - {0}):
        tokens = prompt(length, seed=length)
        expected = answer(naive, tokens).tokens
        cold, warm = answer(engine, tokens), answer(engine, tokens)
        assert cold.tokens == warm.tokens == expected
        assert warm.usage is not None
        assert warm.usage.cached_tokens == length - 1


def test_stored_kv_is_equal_to_the_bit_however_it_came_about(tiny: Checkpoint) -> None:
    """Cold, warm, any chunk cut, decode-built, and in a batch: the same K and V."""
    tokens = prompt(150, seed=3)
    sampling = SamplingParams(temperature=0, max_tokens=1)

    cold = make_engine(tiny, max_step_tokens=512)
    answer(cold, tokens, sampling)
    expected = stored_kv(cold, tokens)

    for step_tokens in (16, 17, 50, 149):
        chunked = make_engine(tiny, max_step_tokens=step_tokens)
        answer(chunked, tokens, sampling)
        assert torch.equal(stored_kv(chunked, tokens), expected), step_tokens

    warm = make_engine(tiny, max_step_tokens=512)
    for length in (1, 15, 16, 17, 90, 149):
        answer(warm, tokens[:length], sampling)
    answer(warm, tokens, sampling)
    assert torch.equal(stored_kv(warm, tokens), expected)

    batched = make_engine(tiny, max_step_tokens=64)
    others = [Request(i, prompt(20 * i + 1, seed=i), GREEDY) for i in range(1, 8)]
    run(batched, [*others[:3], Request(0, tokens.copy(), sampling), *others[3:]])
    assert torch.equal(stored_kv(batched, tokens), expected)

    grown = make_engine(tiny, max_step_tokens=512)
    outcome = answer(grown, tokens[:10], SamplingParams(temperature=0, max_tokens=60))
    whole = tokens[:10] + outcome.tokens[:-1]
    fresh = make_engine(tiny, max_step_tokens=512)
    answer(fresh, whole, sampling)
    assert torch.equal(stored_kv(grown, whole), stored_kv(fresh, whole))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_batch_answers_each_request_as_it_would_alone(
    tiny: Checkpoint, naive: Engine, temperature: float
) -> None:
    """Twelve requests with shared and own prefixes, more than may run at once."""
    engine = make_engine(tiny, max_running=5, max_step_tokens=32, page_size=8)
    trunk = prompt(40)
    sampling = SamplingParams(temperature=temperature, top_p=0.9, max_tokens=20)
    prompts = [trunk[: 3 * i] + prompt(i + 1, seed=i) for i in range(12)]
    outcomes = run(
        engine, [Request(i, p.copy(), replace(sampling, seed=i)) for i, p in enumerate(prompts)]
    )
    for i, tokens in enumerate(prompts):
        assert outcomes[i].tokens == answer(naive, tokens, sampling, seed=i).tokens, i
        assert outcomes[i].finish is FinishReason.LENGTH


def test_two_equal_prompts_in_one_step_do_not_disturb_each_other(
    tiny: Checkpoint, naive: Engine
) -> None:
    """Both compute; one's pages become shared, the other's table is rewritten to them."""
    engine = make_engine(tiny, page_size=8, pool_tokens=256)
    tokens = prompt(37)
    sampling = SamplingParams(temperature=0, max_tokens=60)
    outcomes = run(engine, [Request(i, tokens.copy(), sampling) for i in range(2)])
    expected = answer(naive, tokens, sampling).tokens
    assert outcomes[0].tokens == outcomes[1].tokens == expected


def test_a_chunk_is_shared_as_soon_as_it_is_computed(tiny: Checkpoint, naive: Engine) -> None:
    """A request that arrives during another's prefill reuses what is there, and no more."""
    engine = make_engine(tiny, max_step_tokens=32, max_running=8)
    tokens = prompt(120)
    late = Request(1, tokens.copy(), GREEDY)

    def arrive(step: int) -> None:
        if step == 2:
            engine.submit(late)

    outcomes = run(engine, [Request(0, tokens.copy(), GREEDY)], before_step=arrive)
    assert late.num_cached is not None
    assert 64 <= late.num_cached < len(tokens)
    expected = answer(naive, tokens).tokens
    assert outcomes[0].tokens == expected
    assert outcomes[1].tokens == expected


def test_preemption_changes_no_answer_and_no_usage(tiny: Checkpoint, naive: Engine) -> None:
    """A pool for two and a half answers, four requests: some are preempted, none notices."""
    engine = make_engine(tiny, page_size=4, pool_tokens=160, max_running=4)
    sampling = SamplingParams(temperature=1.0, max_tokens=50)
    prompts = [prompt(20, seed=i) for i in range(4)]
    outcomes = run(
        engine, [Request(i, p.copy(), replace(sampling, seed=i)) for i, p in enumerate(prompts)]
    )
    assert engine.scheduler.stats.preemptions > 0
    for i, tokens in enumerate(prompts):
        assert outcomes[i].tokens == answer(naive, tokens, sampling, seed=i).tokens
        usage = outcomes[i].usage
        assert usage is not None
        assert 0 <= usage.cached_tokens <= usage.input_tokens - 1 == 19
        assert usage.output_tokens == 50


def test_a_request_may_fill_the_whole_pool(tiny: Checkpoint) -> None:
    """The last one running can always grow, up to the pool's last slot, then it ends cleanly."""
    for page_size in (1, 4, 16):
        engine = make_engine(tiny, page_size=page_size, pool_tokens=64)
        branches = [prompt(21)[:cut] + prompt(20, seed=cut) for cut in range(10, 20)]
        for branch in branches:  # leaves pages that exist once per branch
            answer(engine, branch)
        outcome = answer(engine, branches[-1], SamplingParams(temperature=0))
        assert outcome.finish is FinishReason.CONTEXT
        assert len(branches[-1]) + len(outcome.tokens) == 64


def test_a_prompt_that_cannot_fit_is_refused_at_once(tiny: Checkpoint) -> None:
    """Both numbers are in the error, nothing is queued, and the engine goes on."""
    engine = make_engine(tiny, pool_tokens=64)
    for length in (64, 65, 100_000):
        with pytest.raises(PromptTooLong) as refusal:
            engine.submit(Request(1, [7] * length, GREEDY))
        assert (refusal.value.num_tokens, refusal.value.limit) == (length, 63)
    assert not engine.has_work
    assert answer(engine, [7] * 63).finish is FinishReason.CONTEXT


def test_the_waiting_line_has_an_end(tiny: Checkpoint) -> None:
    """One request more than may wait is refused with numbers; the others are answered."""
    engine = make_engine(tiny, max_waiting=3)
    for i in range(3):
        engine.submit(Request(i, prompt(5, i), GREEDY))
    with pytest.raises(EngineOverloaded, match=r"3 requests are waiting.*3"):
        engine.submit(Request(3, prompt(5, 3), GREEDY))
    finished = 0
    while engine.has_work:
        finished += sum(event.finish is not None for event in engine.step())
    assert finished == 3


def test_stop_tokens_and_max_tokens_end_an_answer(tiny: Checkpoint, naive: Engine) -> None:
    """The stop token is reported with the reason, and its KV is not in the cache."""
    engine = make_engine(tiny)
    tokens = prompt(30)
    sampling = SamplingParams(temperature=0, max_tokens=12)
    full = answer(naive, tokens, sampling).tokens
    stop = full[5]
    request = Request(0, tokens.copy(), sampling, frozenset({stop}))
    outcome = run(engine, [request])[0]
    assert outcome.finish is FinishReason.STOP
    assert outcome.tokens == full[: full.index(stop) + 1]
    whole = tokens + outcome.tokens
    assert engine.cache.match(whole).length == len(whole) - 1


@pytest.mark.parametrize("step", range(15))
def test_cancelling_at_any_step_frees_and_keeps(tiny: Checkpoint, naive: Engine, step: int) -> None:
    """Waiting, prefilling or decoding: one last event, pages back, what was computed cached."""
    engine = make_engine(tiny, max_step_tokens=16, max_running=2)
    victim = Request(0, prompt(60, seed=1), SamplingParams(temperature=0, max_tokens=5))
    other = Request(1, prompt(30, seed=2), GREEDY)

    def cancel(now: int) -> None:
        if now == step:
            engine.cancel(0)
            engine.cancel(0)

    outcomes = run(engine, [victim, other], before_step=cancel)
    # Sixty tokens in seven chunks, four of them beside the other, and the rest of five tokens.
    expected = FinishReason.CANCELLED if step < 11 else FinishReason.LENGTH
    assert outcomes[0].finish is expected
    assert outcomes[1].tokens == answer(naive, prompt(30, seed=2)).tokens
    assert engine.cache.match(victim.tokens).length == victim.num_computed
    engine.cache.flush()
    assert engine.cache.num_free_pages == engine.plan.num_pages
    engine.cancel(0)
    engine.cancel(99)
    assert not engine.has_work


def test_nothing_is_left_behind_by_many_random_requests(tiny: Checkpoint) -> None:
    """Two hundred requests with cancels in a tight pool, then a flush: all pages are free."""
    engine = make_engine(tiny, page_size=4, pool_tokens=192, max_step_tokens=24, max_running=4)
    rng = random.Random(11)
    trunk = prompt(60)
    ended = 0
    for i in range(200):
        tokens = trunk[: rng.randrange(1, 60)] + prompt(rng.randrange(1, 30), seed=i % 40)
        sampling = SamplingParams(max_tokens=rng.randrange(1, 12), seed=i)
        engine.submit(Request(i, tokens, sampling))
        for _ in range(rng.randrange(4)):
            ended += sum(event.finish is not None for event in engine.step())
            engine.cache.check()
        if rng.random() < 0.2:
            engine.cancel(rng.randrange(i + 1))
    while engine.has_work:
        ended += sum(event.finish is not None for event in engine.step())
    assert ended == engine.scheduler.stats.requests == 200
    assert engine.scheduler.stats.cancelled > 0
    engine.cache.flush()
    engine.cache.check()
    assert engine.cache.num_free_pages == engine.plan.num_pages


def test_answers_keep_flowing_while_a_long_prompt_arrives(tiny: Checkpoint) -> None:
    """Chunked prefill: a running answer gets a token in every step of another's long prefill."""
    engine = make_engine(tiny, max_step_tokens=32)
    engine.submit(Request(0, prompt(10), SamplingParams(temperature=0, max_tokens=40)))
    engine.step()
    engine.submit(Request(1, prompt(400, seed=5), SamplingParams(temperature=0, max_tokens=1)))
    steps, expected, computed = 0, 0, 0
    while computed < 400:
        count, _ = engine.plan.chunk(computed, 400 - computed, 31)
        computed, expected = computed + count, expected + 1
    while True:
        events = engine.step()
        steps += 1
        assert any(event.request_id == 0 for event in events)
        if any(event.request_id == 1 for event in events):
            break
    assert steps == expected > 13


def test_a_short_request_does_not_wait_for_a_long_one(tiny: Checkpoint) -> None:
    """Continuous batching: five tokens are done seven steps after they were asked for."""
    engine = make_engine(tiny)
    engine.submit(Request(0, prompt(10), SamplingParams(temperature=0, max_tokens=200)))
    for _ in range(20):
        engine.step()
    engine.submit(Request(1, prompt(10, seed=1), SamplingParams(temperature=0, max_tokens=5)))
    finished = [any(e.request_id == 1 and e.finish for e in engine.step()) for _ in range(7)]
    assert any(finished)


def test_usage_adds_up(tiny: Checkpoint) -> None:
    """cached + computed == input, and what is written once is written once."""
    engine = make_engine(tiny)
    outcomes = [answer(engine, prompt(length)) for length in (20, 20, 50)]
    written = 0
    for outcome in outcomes:
        assert outcome.usage is not None
        assert outcome.usage.cached_tokens + outcome.usage.computed_tokens == (
            outcome.usage.input_tokens
        )
        written += outcome.usage.cache_write_tokens
    assert written == engine.cache.num_cached_tokens
    assert all(a.usage != b.usage for a, b in pairwise(outcomes))


def test_usage_tells_what_was_evicted_before(tiny: Checkpoint) -> None:
    """Tokens of the prompt that the cache gave up count with their age; a first prompt has none."""
    engine = make_engine(tiny, page_size=8, pool_tokens=64)
    short = SamplingParams(temperature=0, max_tokens=1)
    first = answer(engine, prompt(40), short).usage
    answer(engine, prompt(50, seed=1), short)
    again = answer(engine, prompt(40), short).usage
    assert first is not None
    assert again is not None
    assert (first.evicted_tokens, first.evicted_seconds_ago) == (0, None)
    assert again.cached_tokens + again.evicted_tokens == 39
    assert again.evicted_tokens > 0
    assert again.evicted_seconds_ago is not None
    assert 0 <= again.evicted_seconds_ago < 60


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_request_without_finite_logits_fails_alone(
    tiny: Checkpoint, naive: Engine, temperature: float
) -> None:
    """One damaged embedding: who uses it is told so, who runs beside it is answered."""
    tensors = {name: tensor.clone() for name, tensor in tiny.dense().items()}
    tensors["embed_tokens.weight"][249] = torch.nan
    # The head is tied to the embedding: a head of its own keeps the damage to who reads it.
    tensors["lm_head.weight"] = tiny.dense()["embed_tokens.weight"]
    config = replace(tiny.config, tied_embeddings=False)
    engine = make_engine(replace(tiny, tensors=tensors, config=config))
    sampling = SamplingParams(temperature=temperature, max_tokens=8)
    good = [token % 249 for token in prompt(20)]
    for request in (Request(0, [249, 1, 2], sampling), Request(1, good.copy(), sampling)):
        engine.submit(request)
    events = []
    while engine.has_work:
        events += engine.step()
        engine.cache.check()
    failed = [event for event in events if event.request_id == 0]
    assert [event.finish for event in failed] == [FinishReason.FAILED]
    assert isinstance(failed[0].error, ModelLoadError)
    answered = [event.token for event in events if event.request_id == 1]
    if 249 not in answered:
        assert answered == answer(naive, good, sampling).tokens
