"""One answer with guessed tokens and without, on two engines in turn, and whether they agree.

Owns the two engines. Knows no prompts by name and prints nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from radixchat.bench.bench_model import warm_up
from radixchat.bench.speculation_set import Task
from radixchat.engine.config import EngineConfig
from radixchat.engine.engine import Engine
from radixchat.engine.prompt import ChatMessage
from radixchat.engine.prompt_lookup import PromptLookup
from radixchat.engine.request import Request, Usage
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.template import ChatTemplate
from radixchat.engine.tokenizer import Tokenizer
from radixchat.engine.weights import Checkpoint
from radixchat.radix.cache import PrefixCache

FIRST_SEED, ASKED_SEED = 1, 2


class SpeculationShows(Exception):
    """Guessing changed an answer or what is cached; says where."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What an answer took from the step on that gave its first token and read the prompt's end."""

    tokens: int
    steps: int
    seconds: float
    guessed: int
    right: int

    @classmethod
    def total(cls, costs: Iterable[Cost]) -> Cost:
        """Of several answers together."""
        each = list(costs)
        return cls(
            tokens=sum(c.tokens for c in each),
            steps=sum(c.steps for c in each),
            seconds=sum(c.seconds for c in each),
            guessed=sum(c.guessed for c in each),
            right=sum(c.right for c in each),
        )

    @property
    def tokens_per_second(self) -> float:
        """The speed of the answer."""
        return self.tokens / self.seconds


@dataclass(frozen=True, slots=True)
class Comparison:
    """One task, or several of them, in both arms."""

    kind: str
    name: str
    plain: Cost
    guessing: Cost

    @classmethod
    def total(cls, kind: str, name: str, comparisons: Sequence[Comparison]) -> Comparison:
        """Several of them together."""
        return cls(
            kind,
            name,
            Cost.total(each.plain for each in comparisons),
            Cost.total(each.guessing for each in comparisons),
        )

    @property
    def speedup(self) -> float:
        """How many times as many tokens a second came."""
        return self.guessing.tokens_per_second / self.plain.tokens_per_second

    @property
    def tokens_per_step(self) -> float:
        """Of the arm that guesses; the other has 1."""
        return self.guessing.tokens / self.guessing.steps

    @property
    def acceptance(self) -> float | None:
        """The share of the guessed tokens that were right; None where none was guessed."""
        cost = self.guessing
        return cost.right / cost.guessed if cost.guessed else None


class SpeculationRun:
    """Answers tasks with both arms, each on an engine of its own over the same weights."""

    def __init__(self, checkpoint: Checkpoint, tokenizer: Tokenizer, max_tokens: int) -> None:
        self._template = ChatTemplate.of(tokenizer)
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._engines = {arm: Engine(checkpoint, EngineConfig()) for arm in (False, True)}
        self._num_compared = 0
        for engine in self._engines.values():
            warm_up(engine)

    def compare(self, task: Task) -> Comparison:
        """Measure one task.

        Raises SpeculationShows where the arms differ, InvalidRequest where the model's context is
        too short for the task.
        """
        prompt = self._prompt(task.question)
        sampling = SamplingParams(temperature=task.temperature, max_tokens=self._max_tokens)
        branches: list[list[int]] = []
        if task.first is not None:
            before = self._prompt(task.first)
            first = replace(sampling, seed=FIRST_SEED)
            answers = [self._answer(e, before, first, None)[0] for e in self._engines.values()]
            branches = [before + answers[0]]
        sampling = replace(sampling, seed=ASKED_SEED)
        # Alternately one and the other first: what the machine does besides hits both.
        order = (True, False) if self._num_compared % 2 else (False, True)
        self._num_compared += 1
        found = {
            arm: self._answer(
                self._engines[arm], prompt, sampling, PromptLookup(branches) if arm else None
            )
            for arm in order
        }
        (tokens, plain), (guessed_tokens, guessing) = found[False], found[True]
        if tokens != guessed_tokens:
            raise SpeculationShows(f"{task.kind}, {task.name}: the answers differ")
        if self._cached(False) != self._cached(True):
            raise SpeculationShows(f"{task.kind}, {task.name}: what is cached differs")
        return Comparison(task.kind, task.name, plain, guessing)

    def _prompt(self, question: str) -> list[int]:
        chat = [ChatMessage("user", question)]
        return self._tokenizer.encode_prompt(
            self._template.render(chat, add_generation_prompt=True)
        )

    def _answer(
        self,
        engine: Engine,
        prompt: list[int],
        sampling: SamplingParams,
        lookup: PromptLookup | None,
    ) -> tuple[list[int], Cost]:
        request = Request(
            self._num_compared, list(prompt), sampling, self._tokenizer.stop_ids, lookup=lookup
        )
        engine.submit(request)
        tokens: list[int] = []
        usage: Usage | None = None
        steps = 0
        started = time.perf_counter()
        while engine.has_work:
            if not tokens:
                started = time.perf_counter()
            for event in engine.step():
                if event.token is not None:
                    tokens.append(event.token)
                usage = event.usage or usage
            steps += bool(tokens)
        seconds = time.perf_counter() - started
        assert usage is not None, "a request ends with its usage"
        cost = Cost(len(tokens), steps, seconds, usage.draft_tokens, usage.accepted_tokens)
        return tokens, cost

    def _cached(self, arm: bool) -> list[tuple[bytes, bytes]]:
        cache = self._engines[arm].cache
        assert isinstance(cache, PrefixCache), "the default has a prefix cache"
        return sorted(cache.paths())
