"""`SoloAnswers`: what each request must answer, from one that runs alone, and its text offline.

The reference of the schedules: no cache, no batch, no chunk, no draft, no text filter. An answer is
computed once, to its greatest length; stop strings and the rest are found in it afterwards, in the
obvious way. Knows neither schedules' steps nor the engine that is tested.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import product

from radixchat.engine.grammar import Grammar, GrammarCompiler
from radixchat.engine.logprobs import TokenLogprob
from radixchat.engine.request import FinishReason, Request, TokenEvent
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.tiers.memory_store import MemoryStore
from radixchat.engine.tokenizer import Tokenizer
from radixchat.engine.weights import Checkpoint
from radixchat.tests.engine.driver import make_engine
from radixchat.tests.engine.schedule import GRAMMARS, MAX_ANSWER, NUM_PROMPTS, NUM_TURNS, TENANTS

ANSWER_IN_HISTORY = 7  # tokens of an answer that the next turn's prompt holds


_Question = tuple[tuple[int, ...], SamplingParams, frozenset[int], int | None]


@dataclass(frozen=True, slots=True)
class Solo:
    """How a request ends that nobody disturbs: all tokens sampled, the text shown, and why."""

    tokens: list[int]
    text: str
    stop: str | None
    finish: FinishReason


@dataclass(frozen=True, slots=True)
class Answer:
    """All that a request said, and what the model thought of it, where that was asked for."""

    tokens: list[int]
    logprobs: list[TokenLogprob | None]
    prompt_logprobs: tuple[TokenLogprob, ...] | None


class SoloAnswers:
    """A table of answers that fills as it is asked; all of one model."""

    def __init__(self, checkpoint: Checkpoint, tokenizer: Tokenizer) -> None:
        self.checkpoint = checkpoint
        self.tokenizer = tokenizer
        self._engine = make_engine(
            checkpoint,
            prefix_cache=False,
            max_running=1,
            max_step_tokens=512,
            max_draft_tokens=0,
            pool_tokens=1024,
        )
        self._grammars = GrammarCompiler(tokenizer, checkpoint.config.vocab_size)
        self._answers: dict[_Question, Answer] = {}
        self._prompts: dict[tuple[int, int], tuple[int, ...]] = {}
        self._kept: dict[int, dict[bytes, tuple[bytes, bytes]]] = {}

    def close(self) -> None:
        """End the workers of the grammars."""
        self._grammars.close()

    def grammar(self, index: int | None) -> Grammar | None:
        """One of GRAMMARS, at the beginning of an answer."""
        return None if index is None else self._grammars.compile(*GRAMMARS[index])

    def prompt(self, index: int, turn: int) -> tuple[int, ...]:
        """The prompt of a conversation's turn: the turns before with their greedy answers."""
        if (index, turn) not in self._prompts:
            rng = random.Random(100 * index + turn)
            if turn == 0:
                tokens = _first_prompt(index)
            else:
                tokens = self.prompt(index, turn - 1)
                greedy = self.answer(tokens, SamplingParams(temperature=0), frozenset())
                tokens += tuple(greedy.tokens[:ANSWER_IN_HISTORY])
                tokens += tuple(rng.choices(range(250), k=rng.randrange(1, 9)))
            self._prompts[index, turn] = tokens
        return self._prompts[index, turn]

    def answer(
        self,
        prompt: tuple[int, ...],
        params: SamplingParams,
        stop_ids: frozenset[int],
        grammar: int | None = None,
    ) -> Answer:
        """MAX_ANSWER tokens, or fewer that end with one of `stop_ids`."""
        params = replace(params, max_tokens=MAX_ANSWER)
        if params.temperature == 0:
            params = replace(params, seed=0)  # greedy tokens know no noise
        if grammar is not None or (stop_ids and params.min_tokens):
            return self._answer((prompt, params, stop_ids, grammar))
        # A stop token only cuts: one run serves all of them.
        plain = replace(params, min_tokens=0)
        whole = self._answer((prompt, plain, frozenset(), None))
        end = next((i for i, token in enumerate(whole.tokens, 1) if token in stop_ids), None)
        return replace(whole, tokens=whole.tokens[:end], logprobs=whole.logprobs[:end])

    def _answer(self, question: _Question) -> Answer:
        if question not in self._answers:
            prompt, params, stop_ids, grammar = question
            request = Request(0, list(prompt), params, stop_ids, grammar=self.grammar(grammar))
            self._engine.submit(request)
            events: list[TokenEvent] = []
            while self._engine.has_work:
                events += self._engine.step()
            tokens = [event.token for event in events if event.token is not None]
            assert len(tokens) == len(events), events[-1]
            logprobs = [event.logprob for event in events]
            self._answers[question] = Answer(tokens, logprobs, events[0].prompt_logprobs)
        return self._answers[question]

    def alone(self, request: Request, grammar: int | None) -> Answer:
        """The same of a request with one of GRAMMARS."""
        prompt = tuple(request.tokens[: request.num_prompt])
        return self.answer(prompt, request.sampling, request.stop_ids, grammar)

    def kept_pages(self, page_size: int) -> dict[bytes, tuple[bytes, bytes]]:
        """What an engine has in its store that has answered every prompt of every tenant."""
        if page_size not in self._kept:
            stores: list[MemoryStore] = []

            def make(_: object, page_bytes: int) -> MemoryStore:
                stores.append(MemoryStore(page_bytes))
                return stores[0]

            engine = make_engine(
                self.checkpoint,
                page_size=page_size,
                pool_tokens=4096,
                host_cache_bytes=1 << 20,
                make_store=make,
            )
            asks = product(range(NUM_PROMPTS), TENANTS)
            for number, (index, namespace) in enumerate(asks):
                tokens = list(self.prompt(index, NUM_TURNS - 1))
                params = SamplingParams(max_tokens=1)
                engine.submit(Request(number, tokens, params, namespace=namespace))
            while engine.has_work:
                engine.step()
            engine.close(30)
            self._kept[page_size] = stores[0].pages
        return self._kept[page_size]

    def solo(
        self, request: Request, stop: str | None, grammar: int | None, max_tokens: int
    ) -> Solo:
        """How `request` must end in a pool, or context, of `max_tokens`."""
        answer = self.alone(request, grammar).tokens
        for length in range(1, len(answer) + 1):
            tokens = answer[:length]
            if tokens[-1] in request.stop_ids:
                return Solo(tokens, self.tokenizer.decode(tokens[:-1]), None, FinishReason.STOP)
            text = self.tokenizer.decode(tokens)
            if stop is not None and stop in text[self._unsearched(request, tokens) :]:
                start = text.index(stop, self._unsearched(request, tokens))
                return Solo(tokens, text[:start], stop, FinishReason.STOP)
            if length == request.sampling.max_tokens:
                return Solo(tokens, text, None, FinishReason.LENGTH)
            if request.num_prompt + length >= max_tokens:
                return Solo(tokens, text, None, FinishReason.CONTEXT)
        raise AssertionError("an answer of MAX_ANSWER tokens has another end")

    def _unsearched(self, request: Request, tokens: list[int]) -> int:
        """Characters of the first min_tokens tokens, in which no stop string is looked for."""
        return len(self.tokenizer.decode(tokens[: request.sampling.min_tokens]))

    def stop_string(self, answer: list[int], after: int) -> str | None:
        """One or two characters that the answer shows at about its token `after`, if it shows any.

        ASCII alone: U+FFFD in the text may be half a character that the next token completes.
        """
        text = self.tokenizer.decode(answer)
        places = [i for i, character in enumerate(text) if character.isascii()]
        if not places:
            return None
        start = min(places, key=lambda i: abs(i - after))
        pair = text[start : start + 2]
        return pair if pair.isascii() else pair[0]


def _first_prompt(index: int) -> tuple[int, ...]:
    """Chat-shaped: a trunk that many share, cut somewhere, and a tail; one that repeats itself."""
    rng = random.Random(7)
    trunk = tuple(rng.choices(range(250), k=40))
    phrase = tuple(rng.choices(range(250), k=9))
    prompts = (
        trunk,
        trunk[:23] + tuple(rng.choices(range(250), k=6)),
        trunk[:24] + tuple(rng.choices(range(250), k=12)),
        trunk[:9] + tuple(rng.choices(range(250), k=1)),
        phrase * 3 + phrase[:4],
        phrase * 2,
        trunk[:1],
        trunk + tuple(rng.choices(range(250), k=30)),
        tuple(rng.choices(range(250), k=16)),
    )
    assert len(prompts) == NUM_PROMPTS
    return prompts[index]
