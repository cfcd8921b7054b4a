"""Who computes what in the next step, and what a step's tokens mean for each request.

Owns the waiting and the running requests and their allocations. No tensor and no clock. A step
has a token budget: one token for every request that is only behind by one (they are talking), then
prefill chunks, then drafts of what may follow. Nothing here knows a phase: `num_computed` chases
`len(tokens)`, and a prefix hit is merely a head start.

A draft is guessed tokens, computed as extra rows. Each row is sampled as if there were no draft,
and the draft is right as far as it is what was sampled. So every answer is token for token that
of a run without drafts; for a draft that is certain this is the rejection rule of speculative
decoding (Leviathan, Kalman, Matias 2023): token d is accepted with the probability that the
model gives it, and what replaces it is distributed as the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from radixchat.engine.batch import RequestResult, ScheduledRequest
from radixchat.engine.config import EnginePlan
from radixchat.engine.drafting import verified, with_draft
from radixchat.engine.errors import EngineOverloaded, InvalidRequest, RadixChatError
from radixchat.engine.joining import joins
from radixchat.engine.no_token import error_of
from radixchat.engine.request import FinishReason, Request, TokenEvent
from radixchat.engine.sampler import Sampled, SampleResult
from radixchat.engine.stats import EngineStats
from radixchat.engine.stop_reason import reason_to_stop
from radixchat.engine.tiers.tiers import Tiers
from radixchat.engine.waiting_line import WaitingLine
from radixchat.engine.waits import Wait, waits_of
from radixchat.radix.allocation import PageCache
from radixchat.radix.use import Signal

# Of the pool, what is kept at most so that those who run can grow.
WATERMARK_SHARE = 8


class Scheduler:
    """Continuous batching with chunked prefill (Orca, OSDI'22; Sarathi-Serve, OSDI'24)."""

    def __init__(self, cache: PageCache, plan: EnginePlan, tiers: Tiers | None = None) -> None:
        """tiers: below the cache, which tells them of what leaves it."""
        self._cache = cache
        self._plan = plan
        self._tiers = tiers
        self._line = WaitingLine(
            cache.num_cached,
            plan.max_tokens,
            plan.max_overtaken,
            by_prefix=plan.schedule == "lpm" and plan.prefix_cache,
        )
        self._running: list[Request] = []  # in order of admission
        self._step: dict[Request, ScheduledRequest] = {}  # that is being decided
        self._events: list[TokenEvent] = []  # of requests that ended outside a step's forward
        self._now = 0.0  # the end of the last step
        self._state = 0  # counts what may have changed a prefix's length in the cache
        self.stats = EngineStats()

    @property
    def has_work(self) -> bool:
        """Whether a step would compute or report anything."""
        return bool(self._line or self._running or self._events)

    @property
    def num_waiting(self) -> int:
        """Requests not yet admitted."""
        return len(self._line)

    @property
    def num_running(self) -> int:
        """Requests that hold pages."""
        return len(self._running)

    def add(self, *requests: Request, now: float) -> None:
        """Queue requests, all or none; their prompts fit and are of the model's tokens.

        Raises InvalidRequest (PromptTooLong) or EngineOverloaded; then nothing has changed.
        """
        known = {request.id for request in (*self._running, *self._line)}
        for request in requests:
            self._validate(request)
            if request.id in known:
                raise InvalidRequest(f"request id {request.id} is in use; take another")
            known.add(request.id)
        if len(requests) > self._plan.max_waiting:
            raise InvalidRequest(
                f"{len(requests)} requests at once; at most {self._plan.max_waiting} can wait"
            )
        if len(self._line) + len(requests) > self._plan.max_waiting:
            raise EngineOverloaded(len(self._line), self._plan.max_waiting)
        for request in requests:
            request.queued_at = now
            self._line.add(request)
            if self._tiers is not None:
                self._tiers.begin(request)
            self._observe(request, Signal.QUEUED)

    def _validate(self, request: Request) -> None:
        request.validate()
        self._plan.validate_prompt(len(request.tokens))
        self._plan.validate_tokens(request.tokens)
        self._plan.validate_ids(request.stop_ids)
        for branch in request.lookup.branches if request.lookup is not None else ():
            self._plan.validate_ids(branch)
        request.sampling.validate_vocabulary(self._plan.vocab_size)

    def cancel(self, request_id: int) -> None:
        """End a request now; what it computed is committed. Unknown or ended ids are ignored."""
        for request in (*self._running, *self._line):
            if request.id == request_id:
                self._finish(request, FinishReason.CANCELLED)
                return

    def schedule(self, now: float) -> list[ScheduledRequest]:
        """Decide the next step and take the pages it writes; [] when nothing can run."""
        self._expire(now)
        self._step = {}
        talking = [r for r in self._running if r.num_behind == 1]
        budget = self._plan.max_mixed_tokens if talking else self._plan.max_step_tokens
        for request in talking:
            # Another may have taken its pages, or it gives them up itself.
            if request.allocation is not None and self._grow(request):
                self._step[request] = ScheduledRequest(request, 1)
        budget = self._prefill(budget - len(self._step), now)
        self._draft(budget)
        return list(self._step.values())

    def update(
        self, scheduled: Sequence[ScheduledRequest], results: Sequence[RequestResult], now: float
    ) -> list[TokenEvent]:
        """Record a step: commit what was computed, append what was sampled, end who is done.

        A request whose logits are not finite, or admit no token, fails, and the others go on.
        """
        self._now = now
        for item, result in zip(scheduled, results, strict=True):
            request, samples = item.request, item.samples
            in_prompt = request.num_computed < request.num_prompt
            request.num_computed += item.num_tokens
            self.stats.computed_tokens += item.num_tokens
            request.prompt_logprobs += result.prompt_logprobs
            if not samples or request.num_computed == request.num_prompt:
                self._commit(request)
            if in_prompt and request.wants_progress:
                progress = request.progress()
                self._events.append(TokenEvent(request.id, None, at=now, progress=progress))
            if samples:
                self._append(item, result.sampled)
        self._step = {}
        events, self._events = self._events, []
        return events

    def waits(self) -> list[Wait]:
        """What each request waits for, those that run included."""
        available = self._cache.num_free_pages + self._cache.num_evictable_pages
        return waits_of(list(self._line), self._running, self._plan, available)

    def _expire(self, now: float) -> None:
        """End the requests whose time is over."""
        for request in (*self._running, *self._line):
            if request.deadline is not None and request.deadline <= now:
                self._finish(request, FinishReason.DEADLINE)

    def _prefill(self, budget: int, now: float) -> int:
        """Chunks of those that are behind, and of newly admitted ones; what is left of the budget.

        The first has half of the budget at least; the rest goes to whoever has least to compute,
        so that a turn with a long history in the cache does not wait for a long new prompt.
        """
        behind = self._behind()
        while behind and budget > 0 and self._line.priority > behind[0].priority:
            admitted = self._admit(now)
            behind = self._behind()  # some may have made room, even in vain
            if admitted is None:
                break
        first, kept = behind[0] if behind else None, 0
        if first is not None:
            kept = self._plan.chunk(first.num_computed, first.num_behind, budget)[1]
            kept = min(kept, -(-budget // 2))
        rest = budget - kept
        for request in sorted(behind[1:], key=lambda r: (-r.priority, r.num_behind)):
            rest -= self._chunk(request, rest)
        while rest > 0 and (admitted := self._admit(now)) is not None:
            rest -= self._chunk(admitted, rest)
        if first is None or first.allocation is None or first in self._step:
            return rest + kept  # it made room for somebody, and may have been admitted again
        return rest + kept - self._chunk(first, rest + kept)

    def _behind(self) -> list[Request]:
        """Those that run and have nothing to do in this step yet, by priority and admission."""
        idle = (r for r in self._running if r not in self._step)
        return sorted(idle, key=lambda r: -r.priority)

    def _chunk(self, request: Request, budget: int) -> int:
        """As much of a request's tokens as the budget admits; returns what of it is used."""
        if budget <= 0:
            return 0
        assert request not in self._step
        count, cost = self._plan.chunk(request.num_computed, request.num_behind, budget)
        self._step[request] = ScheduledRequest(request, count)
        return cost

    def _draft(self, budget: int) -> None:
        """Let those that sample guess, as far as there are rows and pages that nobody needs."""
        sampling = [item for item in self._step.values() if item.samples]
        budget = min(budget, self._plan.max_draft_tokens)
        for index, item in enumerate(sampling):
            request = item.request
            room = min(
                budget // (len(sampling) - index),
                self._plan.max_tokens - len(request.tokens) - 1,
                (request.sampling.max_tokens or self._plan.max_tokens) - request.num_output - 1,
            )
            drafting = with_draft(item, room)
            assert request.allocation is not None
            length = len(drafting.draft)
            if length and self._cache.extend(request.allocation, len(request.tokens) + length):
                self._step[request] = drafting
                budget -= length

    def _append(self, item: ScheduledRequest, sampled: Sequence[SampleResult]) -> None:
        """Append what was sampled, up to the first token that a draft did not foresee."""
        request, held = item.request, verified(item.draft, sampled)
        if item.draft:
            request.draft_tokens += len(item.draft)
            self.stats.draft_tokens += len(item.draft)
            if request.lookup is not None and item.guessed:
                request.lookup.report(len(item.draft), held)
            if held < len(item.draft) and request.allocation is not None:
                self._cache.trim(request.allocation, len(request.tokens) + held)
        for index, sample in enumerate(sampled[: held + 1]):
            if not isinstance(sample, Sampled):
                if index == 0:  # else the next step meets it again
                    self._finish(request, FinishReason.FAILED, error=error_of(request, sample))
                return
            request.num_computed += index > 0
            request.accepted_tokens += index < held
            self.stats.accepted_tokens += index < held
            if self._take(request, sample):
                return

    def _take(self, request: Request, sample: Sampled) -> bool:
        """Append one token and tell of it; whether the answer ends with it."""
        token = sample.token
        prompt_logprobs = None
        if request.num_output == 0 and request.sampling.prompt_logprobs is not None:
            prompt_logprobs = tuple(request.prompt_logprobs)
        request.tokens.append(token)
        stopped = token in request.stop_ids
        if request.grammar is not None:
            stopped |= request.grammar.accept(token)
        answer, text = request.text, ""
        if answer is not None and not stopped:
            text = answer.push(token)
        event = TokenEvent(
            request.id,
            token,
            text=text,
            num_kept=answer.num_kept if answer is not None else 0,
            num_kept_characters=answer.num_kept_characters if answer is not None else 0,
            logprob=sample.logprob,
            prompt_logprobs=prompt_logprobs,
            at=self._now,
        )
        reason = reason_to_stop(request, self._plan.max_tokens, stopped=stopped)
        if reason is None:
            self._events.append(event)
        else:
            self._finish(request, reason, event, stopped=stopped)
        return reason is not None

    def _admit(self, now: float) -> Request | None:
        """Run the next in line, if pages and a place are there or may be taken from others."""
        victim = self._victim()
        full = len(self._running) >= self._plan.max_running
        if full and victim is not None and victim.priority >= self._line.priority:
            return None  # the usual case of a busy engine: nobody has to be compared
        request = self._line.next(self._state, self._had_better_wait)
        while request is not None and not self._start(request, now):
            if victim is None or victim.priority >= request.priority:
                return None
            self._preempt(victim)
            victim = self._victim()
        return request

    def _start(self, request: Request, now: float) -> bool:
        if len(self._running) >= self._plan.max_running:
            return False
        # A page for each that runs: they grow, and to preempt one soon after costs more than
        # to admit another a little later.
        spare = min(len(self._running), self._plan.num_pages // WATERMARK_SHARE)
        leave = 1
        if request.wants_prompt_logprobs:
            leave = len(request.tokens) - len(request.prompt_logprobs)
        allocation = self._cache.allocate(
            request.tokens, request.namespace, request.conversation, leave=leave, spare=spare
        )
        if allocation is None:
            return False
        self._state += 1
        self._line.admit(request)
        request.joined = request.joined_at = None
        request.allocation = allocation
        request.num_computed = allocation.num_cached
        if self._tiers is not None:
            self._tiers.bring_back(request, allocation, leave)
        if request.num_cached is None:
            request.num_cached = request.of_prompt(request.num_computed)
            request.evicted = allocation.evicted
            request.queue_seconds = now - request.queued_at
            self._observe(request, Signal.STARTED)
        self._running.append(request)
        if request.num_computed > allocation.num_committed:
            self._commit(request)  # what came back is everybody's
        return True

    def _had_better_wait(self, request: Request) -> bool:
        """Whether its prompt is on its way: from below the pool, or computed for another."""
        if self._tiers is not None and self._tiers.is_loading(request):
            return True
        if not self._plan.prefix_cache or request.wants_prompt_logprobs:
            return False
        return joins(request, self._running, self.stats.steps)

    def _grow(self, request: Request) -> bool:
        """Pages for all of the request's tokens, preempting others until there is room."""
        assert request.allocation is not None
        while not self._cache.extend(request.allocation, len(request.tokens)):
            victim = self._victim()
            assert victim is not None
            self._preempt(victim)
            if victim is request:
                return False
        return True

    def _victim(self) -> Request | None:
        """Who gives up its pages first: of the lowest priority the one admitted last."""
        return min(reversed(self._running), key=lambda r: r.priority, default=None)

    def _preempt(self, request: Request) -> None:
        """Give the pages back through the tree and queue again; usually a hit pays for it."""
        self._step.pop(request, None)
        self._release(request)
        request.num_computed = 0
        self._line.put_back(request)
        self._observe(request, Signal.QUEUED)
        self.stats.preemptions += 1

    def _finish(
        self,
        request: Request,
        reason: FinishReason,
        event: TokenEvent | None = None,
        error: RadixChatError | None = None,
        *,
        stopped: bool = False,
    ) -> None:
        """The only way out: whatever a request was doing, its pages go back and it has one end."""
        event = event or TokenEvent(request.id, None, at=self._now)
        event = replace(event, num_kept=request.num_output - stopped)
        if request.text is not None:
            event = replace(
                event,
                text=event.text + request.text.finish(),
                num_kept=request.text.num_kept,
                num_kept_characters=request.text.num_kept_characters,
                stop=request.text.stopped_by,
            )
        if request.allocation is not None:
            # What a stop string said is not part of the answer, so it is not cached either.
            kept = max(request.num_prompt + event.num_kept, request.allocation.num_committed)
            request.num_computed = min(request.num_computed, kept)
            self._release(request)
        else:
            self._line.remove(request)
        if request.num_cached is not None:
            self._observe(request, Signal.FINISHED)
        self.stats.finish(request, reason)
        self._events.append(replace(event, finish=reason, usage=request.usage(), error=error))

    def _release(self, request: Request) -> None:
        """The only way a running request lets go of its pages: finish, cancel and preemption."""
        assert request.allocation is not None
        self._commit(request)
        self._cache.release(request.allocation)
        request.allocation = None
        self._running.remove(request)
        self._state += 1

    def _observe(self, request: Request, signal: Signal) -> None:
        if request.conversation is not None:
            self._cache.observe(request.conversation, signal)

    def _commit(self, request: Request) -> None:
        assert request.allocation is not None
        computed = request.tokens[: request.num_computed]
        request.num_written += self._cache.commit(request.allocation, computed)
        self._state += 1
