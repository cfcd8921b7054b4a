"""`ScheduleRun`: plays a schedule on an engine and holds it to its promises, step by step.

One terminal event for each request, whatever happened; the answer of its solo run, or a beginning
of that; a cancel or a deadline at the next step; nobody overtaken too often; the pool whole after
every step and free after the last; nothing in the tree but what some request's tokens are.
Knows schedules and solo answers; nothing of how the engine decides.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from radixchat.engine.answer_text import AnswerText
from radixchat.engine.engine import Engine
from radixchat.engine.errors import (
    ConfigError,
    EngineOverloaded,
    InvalidRequest,
    PromptTooLong,
)
from radixchat.engine.logprobs import TokenLogprob
from radixchat.engine.prompt_lookup import PromptLookup
from radixchat.engine.request import FinishReason, Request, TokenEvent, fan_out
from radixchat.radix.cache import PrefixCache
from radixchat.tests.engine.schedule import SAMPLINGS, TENANTS, Ask, Schedule, make_schedule
from radixchat.tests.engine.schedule_shrinking import shrink
from radixchat.tests.engine.solo_answers import Solo, SoloAnswers
from radixchat.tests.engine.tiers_below import TiersBelow

MAX_STEPS = 2_000
ENDED_FROM_OUTSIDE = {FinishReason.CANCELLED, FinishReason.DEADLINE}


@dataclass(slots=True, eq=False)
class Watched:
    """A request that was taken, what must become of it, and what has so far."""

    request: Request
    ask: Ask
    solo: Solo
    number: int
    sibling: int
    cancelled: bool = False
    overtaken: int = 0
    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob | None] = field(default_factory=list)
    prompt_logprobs: tuple[TokenLogprob, ...] | None = None
    text: str = ""
    last: TokenEvent | None = None

    @property
    def waits(self) -> bool:
        """Whether it was never admitted, and is not over."""
        return self.last is None and self.request.num_cached is None


class ScheduleRun:
    """One engine and the requests of one schedule. `seen` counts what happened."""

    def __init__(
        self, schedule: Schedule, solos: SoloAnswers, engine_class: type[Engine] = Engine
    ) -> None:
        self._schedule = schedule
        self._solos = solos
        self._step = 0
        self._below = TiersBelow(solos, schedule)
        self.engine = engine_class(
            solos.checkpoint,
            self._below.config,
            clock=lambda: float(self._step),
            make_store=self._below.make_store,
        )
        self._watched: list[Watched] = []
        self.seen: Counter[str] = Counter()

    def run(self) -> Counter[str]:
        """Play it to the end; AssertionError where a promise is broken."""
        asks = list(self._schedule.asks)
        last = asks[-1].step if asks else 0
        idle = 0
        while asks or self.engine.has_work:
            assert asks or self._step < last + MAX_STEPS, "it does not end"
            while asks and asks[0].step <= self._step:
                self._submit(asks.pop(0))
            self._cancel()
            idle = 0 if self._advance() else idle + 1
            if idle:
                self._below.wait(self.engine)  # for what is being read: that takes no step
            assert idle < 2, f"no progress: {self.engine.waits()}"
            self._step += 1
        for watched in self._watched:
            self._check_end(watched)
        self._check_statistics()
        self._check_tree()
        self.seen += self._below.end(self.engine)
        self.seen["runs"] += 1
        return self.seen

    def _submit(self, ask: Ask) -> None:
        requests = self._requests(ask)
        waiting, most = self.engine.scheduler.num_waiting, self._schedule.settings.max_waiting
        longest = self.engine.plan.max_tokens - 1
        try:
            self.engine.submit(*requests)
        except PromptTooLong:
            assert requests[0].num_prompt > longest, "refused though it fits"
            self.seen["too long"] += 1
        except InvalidRequest:
            assert len(requests) > self.engine.plan.max_waiting
            self.seen["more than may wait"] += 1
        except EngineOverloaded:
            assert waiting + len(requests) > most, "refused though there was room"
            assert self.engine.scheduler.num_waiting == waiting, "refused, and yet taken in part"
            self.seen["overloaded"] += 1
        else:
            assert requests[0].num_prompt <= longest
            assert waiting + len(requests) <= most, "the waiting line has no end"
            for sibling, request in enumerate(requests):
                limit = self.engine.plan.max_tokens
                solo = self._solos.solo(request, self._stop(ask), ask.grammar, limit)
                self._watched.append(Watched(request, ask, solo, len(self._watched), sibling))

    def _requests(self, ask: Ask) -> list[Request]:
        prompt = self._solos.prompt(ask.prompt, ask.turn)
        params = replace(
            SAMPLINGS[_sampling(ask)],
            seed=ask.seed,
            max_tokens=ask.max_tokens,
            min_tokens=min(ask.min_tokens, ask.max_tokens),
            logprobs=2 if ask.logprobs else None,
            prompt_logprobs=1 if ask.logprobs else None,
        )
        plain = self._solos.answer(prompt, SAMPLINGS[0], frozenset()).tokens
        stop = self._stop(ask)
        text = AnswerText(
            self._solos.tokenizer.stream(), (stop,) if stop is not None else (), params.min_tokens
        )
        request = Request(
            len(self._watched),
            list(prompt),
            params,
            self._stop_ids(ask, plain),
            TENANTS[ask.tenant],
            conversation=f"{ask.tenant} {ask.prompt}",
            priority=ask.priority,
            deadline=None if ask.deadline is None else float(self._step + ask.deadline),
            text=text if ask.shows_text else None,
            grammar=self._solos.grammar(ask.grammar),
            lookup=_lookup(ask, prompt, plain),
        )
        if ask.num_samples == 1:
            return [request]
        return fan_out(request, range(request.id, request.id + ask.num_samples))

    def _stop_ids(self, ask: Ask, plain: list[int]) -> frozenset[int]:
        if ask.grammar is not None:
            return self._solos.tokenizer.stop_ids
        return frozenset() if ask.stop_token is None else frozenset({plain[ask.stop_token]})

    def _stop(self, ask: Ask) -> str | None:
        if ask.stop_string is None or not ask.shows_text:
            return None
        prompt = self._solos.prompt(ask.prompt, ask.turn)
        plain = self._solos.answer(prompt, SAMPLINGS[_sampling(ask)], frozenset(), ask.grammar)
        return self._solos.stop_string(plain.tokens, ask.stop_string)

    def _cancel(self) -> None:
        for watched in self._watched:
            ask = watched.ask
            due = ask.cancel is not None and self._step == ask.step + ask.cancel
            if due and (ask.cancel_all or watched.sibling == 0):
                watched.cancelled = True
                self.engine.cancel(watched.request.id)

    def _advance(self) -> bool:
        """One step, and what must hold after it; whether anything happened."""
        had_work = self.engine.has_work
        waiting = [watched for watched in self._watched if watched.waits]
        loading = {watched.number for watched in waiting if self._is_loading(watched)}
        before = self._progress()
        drafted = self.engine.scheduler.stats.draft_tokens
        events = self.engine.step()
        rows = self._progress()[0] - before[0] + self.engine.scheduler.stats.draft_tokens - drafted
        assert rows <= self._schedule.settings.max_step_tokens, "a step beyond the budget"
        for event in events:
            self._take(self._watched[event.request_id], event)
        self.engine.cache.check()
        if self.engine.tiers is not None:
            self.engine.tiers.host.check()
        self._check_order([watched for watched in waiting if watched.number not in loading])
        assert self.engine.scheduler.num_running <= self._schedule.settings.max_running
        for watched in self._watched:
            if watched.last is None:
                request, deadline = watched.request, watched.request.deadline
                assert not watched.cancelled, "cancelled, and not told at the next step"
                assert deadline is None or deadline > self._step, "its deadline is over"
                assert request.tokens[request.num_prompt :] == watched.tokens
                assert 0 <= request.num_computed < len(request.tokens)
        return bool(events) or not had_work or before != self._progress()

    def _is_loading(self, watched: Watched) -> bool:
        """Whether it waits for pages from below, as others do not."""
        tiers = self.engine.tiers
        return tiers is not None and tiers.is_loading(watched.request)

    def _progress(self) -> tuple[int, int]:
        stats = self.engine.scheduler.stats
        return stats.computed_tokens, stats.preemptions

    def _take(self, watched: Watched, event: TokenEvent) -> None:
        assert watched.last is None, "an event after the last one"
        if event.token is not None:
            if not watched.tokens:
                watched.prompt_logprobs = event.prompt_logprobs
            else:
                assert event.prompt_logprobs is None, "told of the prompt twice"
            watched.tokens.append(event.token)
            watched.logprobs.append(event.logprob)
        watched.text += event.text
        assert (event.finish is None) == (event.usage is None)
        if event.finish is not None:
            watched.last = event

    def _check_order(self, waiting: list[Watched]) -> None:
        """Count who was overtaken by whom that came later; those of one step are abreast."""
        admitted = [watched for watched in waiting if watched.request.num_cached is not None]
        lowest = min((watched.ask.priority for watched in admitted), default=None)
        for watched in waiting:
            if not watched.waits:
                continue
            # Who joins another waits for his own sake.
            outranks = lowest is not None and watched.ask.priority > lowest
            assert not outranks or watched.request.joined is not None, "a lower one went first"
            watched.overtaken += sum(
                later.number > watched.number
                and later.ask.tenant == watched.ask.tenant
                and later.ask.priority == watched.ask.priority
                for later in admitted
            )
            limit = self.engine.plan.max_overtaken
            assert limit is None or watched.overtaken <= limit, f"overtaken {watched.overtaken}x"
            self.seen["overtaken"] += watched.overtaken > 0

    def _check_end(self, watched: Watched) -> None:
        last, solo = watched.last, watched.solo
        assert last is not None, "no terminal event"
        assert last.finish is not None
        self.seen[last.finish] += 1
        if last.finish in ENDED_FROM_OUTSIDE:
            asked = watched.cancelled, watched.request.deadline is not None
            assert asked[last.finish is FinishReason.DEADLINE], f"nobody asked for {last.finish}"
            assert len(watched.tokens) < len(solo.tokens), "it was over"
            assert watched.tokens == solo.tokens[: len(watched.tokens)], "not its solo run"
        else:
            assert watched.tokens == solo.tokens, "not its solo run"
            assert (last.finish, last.stop) == (solo.finish, solo.stop)
        alone = self._solos.alone(watched.request, watched.ask.grammar)
        assert watched.logprobs == alone.logprobs[: len(watched.tokens)]
        assert watched.prompt_logprobs == (alone.prompt_logprobs if watched.tokens else None)
        self._check_text(watched, last)
        self._check_usage(watched, last)

    def _check_text(self, watched: Watched, last: TokenEvent) -> None:
        decode, tokens, solo = self._solos.tokenizer.decode, watched.tokens, watched.solo
        if watched.request.text is None:
            assert watched.text == ""
            ends_with_stop = bool(tokens) and tokens[-1] in watched.request.stop_ids
            assert last.num_kept == len(tokens) - ends_with_stop
            return
        whole = solo.text if last.finish not in ENDED_FROM_OUTSIDE else decode(tokens)
        assert watched.text == whole, "not the text of its tokens"
        assert last.num_kept is not None
        assert whole.startswith(decode(tokens[: last.num_kept])), "kept more than it showed"

    def _check_usage(self, watched: Watched, last: TokenEvent) -> None:
        usage = last.usage
        assert usage is not None
        assert usage.input_tokens == watched.request.num_prompt
        found = usage.device_tokens, usage.host_tokens, usage.disk_tokens, usage.store_tokens
        assert min(found) >= 0
        assert sum(found) + usage.computed_tokens == usage.input_tokens
        assert 0 <= usage.cached_tokens < usage.input_tokens
        assert usage.output_tokens == len(watched.tokens)
        most = usage.input_tokens + max(0, usage.output_tokens - 1)
        again = self.engine.scheduler.stats.preemptions  # it writes again what was evicted
        assert 0 <= usage.cache_write_tokens <= most * (1 + again)
        assert 0 <= usage.accepted_tokens <= usage.draft_tokens
        assert usage.accepted_tokens <= usage.output_tokens
        guesses = watched.request.lookup is not None or watched.request.grammar is not None
        assert guesses or usage.draft_tokens == 0
        assert usage.cached_tokens == 0 or not watched.ask.logprobs, "read where it was to compute"
        assert 0 <= usage.evicted_tokens <= usage.input_tokens - usage.cached_tokens
        assert 0 <= usage.queue_seconds <= self._step - watched.ask.step
        self.seen["drafted"] += usage.draft_tokens
        self.seen["accepted"] += usage.accepted_tokens
        self.seen["cached"] += usage.cached_tokens

    def _check_statistics(self) -> None:
        stats, lasts = self.engine.scheduler.stats, [w.last for w in self._watched]
        usages = [last.usage for last in lasts if last is not None and last.usage is not None]
        assert stats.requests == len(lasts)
        assert stats.cancelled == self.seen[FinishReason.CANCELLED]
        assert stats.expired == self.seen[FinishReason.DEADLINE]
        assert stats.prompt_tokens == sum(usage.input_tokens for usage in usages)
        assert stats.cached_tokens == sum(usage.cached_tokens for usage in usages)
        assert stats.output_tokens == sum(usage.output_tokens for usage in usages)
        assert stats.draft_tokens == sum(usage.draft_tokens for usage in usages)
        assert stats.accepted_tokens == sum(usage.accepted_tokens for usage in usages)
        written = sum(usage.cache_write_tokens for usage in usages)
        assert written >= self.engine.cache.num_cached_tokens
        self.seen["preempted"] += stats.preemptions

    def _check_tree(self) -> None:
        """What is cached is a beginning of some request's tokens, the last never computed."""
        cache = self.engine.cache
        if self._schedule.settings.prefix_cache:
            known: dict[bytes, list[list[int]]] = {namespace: [] for namespace in TENANTS}
            for watched in self._watched:
                request = watched.request
                known[request.namespace].append(request.tokens[:-1])
            for namespace, encoded in cast("PrefixCache", cache).paths():
                path = np.frombuffer(encoded, np.int32).tolist()
                assert any(tokens[: len(path)] == path for tokens in known[namespace]), (
                    "tokens are cached that nobody has"
                )
        cache.flush()
        cache.check()
        assert (cache.num_free_pages, cache.num_nodes) == (cache.num_pages, 0), "pages are lost"


def _sampling(ask: Ask) -> int:
    """Which of SAMPLINGS: none that may exclude what a grammar asks for."""
    return ask.sampling if ask.grammar is None or not SAMPLINGS[ask.sampling].bad_words else 0


def _lookup(ask: Ask, prompt: tuple[int, ...], plain: list[int]) -> PromptLookup | None:
    if ask.branch is None:
        return None
    if ask.branch == "near":
        plain = [token if i % 3 else (token + 1) % 250 for i, token in enumerate(plain, 1)]
    return PromptLookup([[*prompt, *plain]] if ask.branch else ())


def play(
    seed: int, solos: SoloAnswers, make: Callable[[int], Schedule] = make_schedule
) -> Counter[str]:
    """Run the schedule of a seed; if it fails, say the smallest that fails so, to repeat it."""
    schedule = make(seed)
    try:
        return ScheduleRun(schedule, solos).run()
    except Exception as failure:
        place = _place(failure)
        smallest = shrink(schedule, lambda candidate: fails(candidate, solos) == place)
        failure.add_note(f"seed {seed}; smallest: {smallest!r}")
        raise


def fails(schedule: Schedule, solos: SoloAnswers, engine_class: type[Engine] = Engine) -> str:
    """Where it breaks a promise, or the engine; "" if it does not, or its settings cannot be."""
    try:
        ScheduleRun(schedule, solos, engine_class).run()
    except ConfigError:
        return ""
    except Exception as failure:  # noqa: BLE001 - whatever it is, it is a failure
        return _place(failure)
    return ""


def _place(failure: Exception) -> str:
    last = traceback.extract_tb(failure.__traceback__)[-1]
    return f"{type(failure).__name__} in {last.name}, line {last.lineno}"
