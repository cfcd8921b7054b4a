"""Who computes what in the next step, and what a step's tokens mean for each request.

Owns the waiting and the running requests and their allocations. No tensor and no clock. A step
has a token budget: one token for every request that is only behind by one (they are talking),
then prefill chunks in order of arrival. Nothing here knows a phase: `num_computed` chases
`len(tokens)`, and a prefix hit is merely a head start.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

from radixchat.engine.batch import ScheduledRequest
from radixchat.engine.config import EnginePlan
from radixchat.engine.errors import EngineOverloaded, ModelLoadError, RadixChatError
from radixchat.engine.request import FinishReason, Request, TokenEvent
from radixchat.engine.stats import EngineStats
from radixchat.radix.allocation import PageCache
from radixchat.radix.use import Signal

# A request waits for another that is computing its prompt during at most so many steps: 8k tokens
# in chunks of 128. The other may get slower meanwhile, or give up.
MAX_JOIN_STEPS = 64

NOT_FINITE = (
    "the model computed logits that are not finite: its file is damaged, or its numbers overflow; "
    "fetch it again, or take another"
)


class Scheduler:
    """Continuous batching with chunked prefill (Orca, OSDI'22; Sarathi-Serve, OSDI'24)."""

    def __init__(self, cache: PageCache, plan: EnginePlan) -> None:
        self._cache = cache
        self._plan = plan
        self._waiting: deque[Request] = deque()
        self._running: list[Request] = []  # in order of admission
        self._events: list[TokenEvent] = []  # of requests that ended outside a step's forward
        self.stats = EngineStats()

    @property
    def has_work(self) -> bool:
        """Whether a step would compute or report anything."""
        return bool(self._waiting or self._running or self._events)

    @property
    def num_waiting(self) -> int:
        """Requests not yet admitted."""
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        """Requests that hold pages."""
        return len(self._running)

    def add(self, request: Request) -> None:
        """Queue a request whose prompt fits and is of the model's tokens (EnginePlan)."""
        self._plan.validate_prompt(request.num_prompt)
        self._plan.validate_tokens(request.tokens)
        if len(self._waiting) >= self._plan.max_waiting:
            raise EngineOverloaded(len(self._waiting), self._plan.max_waiting)
        self._waiting.append(request)
        self._observe(request, Signal.QUEUED)

    def cancel(self, request_id: int) -> None:
        """End a request now; what it computed is committed. Unknown or ended ids are ignored."""
        for request in (*self._running, *self._waiting):
            if request.id == request_id:
                self._finish(request, FinishReason.CANCELLED)
                return

    def schedule(self) -> list[ScheduledRequest]:
        """Decide the next step and take the pages it writes; [] when nothing can run."""
        budget = self._plan.max_step_tokens
        scheduled: list[ScheduledRequest] = []
        talking = [r for r in self._running if len(r.tokens) - r.num_computed == 1]
        for request in (*talking, *(r for r in self._running if r not in talking)):
            if budget == 0:
                break
            if request.allocation is None or not self._grow(request):
                continue  # preempted to make room for an older one, or by itself
            count = min(budget, len(request.tokens) - request.num_computed)
            scheduled.append(ScheduledRequest(request, count))
            budget -= count
        scheduled = [item for item in scheduled if item.request.allocation is not None]
        while budget > 0 and self._admit():
            request = self._running[-1]
            count = min(budget, len(request.tokens) - request.num_computed)
            scheduled.append(ScheduledRequest(request, count))
            budget -= count
        return scheduled

    def update(
        self, scheduled: list[ScheduledRequest], sampled: list[int | None]
    ) -> list[TokenEvent]:
        """Record a step: commit what was computed, append what was sampled, end who is done.

        A request whose token is None has no finite logits: it fails, and the others go on.
        """
        tokens = iter(sampled)
        for item in scheduled:
            request, samples = item.request, item.samples
            request.num_computed += item.num_tokens
            if not samples:
                self._commit(request)
                continue
            if request.num_computed == request.num_prompt:
                self._commit(request)
            token = next(tokens)
            if token is None:
                self._finish(request, FinishReason.FAILED, error=ModelLoadError(NOT_FINITE))
                continue
            request.tokens.append(token)
            reason = self._reason_to_stop(request, token)
            if reason is None:
                self._events.append(TokenEvent(request.id, token))
            else:
                self._finish(request, reason, token)
        events, self._events = self._events, []
        return events

    def _reason_to_stop(self, request: Request, token: int) -> FinishReason | None:
        if token in request.stop_ids:
            return FinishReason.STOP
        if request.num_output == request.sampling.max_tokens:
            return FinishReason.LENGTH
        if len(request.tokens) >= self._plan.max_tokens:
            return FinishReason.CONTEXT
        return None

    def _admit(self) -> bool:
        """Run the first that nobody is computing for, if pages and a place are there."""
        if len(self._running) >= self._plan.max_running:
            return False
        request = next((r for r in self._waiting if not self._joins(r)), None)
        if request is None:
            return False
        allocation = self._cache.allocate(request.tokens, request.namespace, request.conversation)
        if allocation is None:
            assert self._running, "a request that fits the pool was refused while it was alone"
            return False
        self._waiting.remove(request)
        request.allocation = allocation
        request.num_computed = allocation.num_cached
        if request.num_cached is None:
            request.num_cached = allocation.num_cached
            request.evicted = allocation.evicted
            self._observe(request, Signal.STARTED)
        self._running.append(request)
        return True

    def _joins(self, request: Request) -> bool:
        """Whether to wait: a running request is about to compute tokens that this one begins with.

        Each chunk is committed, so waiting for it costs this request nothing that it would not
        have to compute itself. Those behind it in the queue do not wait with it.
        """
        if not self._plan.prefix_cache:
            return False
        other = request.joined
        if other is None or other.allocation is None or other.num_computed >= request.joined_length:
            request.joined = next((r for r in self._running if shares_next(r, request)), None)
            if request.joined is None:
                return False
            request.joined_length = common_length(request.joined, request)
        if request.joined_at is None:
            request.joined_at = self.stats.steps
        return self.stats.steps - request.joined_at < MAX_JOIN_STEPS

    def _grow(self, request: Request) -> bool:
        """Pages for all of the request's tokens, preempting the youngest until there is room."""
        assert request.allocation is not None
        while not self._cache.extend(request.allocation, len(request.tokens)):
            youngest = self._running[-1]
            self._preempt(youngest)
            if youngest is request:
                return False
        return True

    def _preempt(self, request: Request) -> None:
        """Give the pages back through the tree and queue again; usually a hit pays for it."""
        self._release(request)
        request.num_computed = 0
        self._waiting.appendleft(request)
        self._observe(request, Signal.QUEUED)
        self.stats.preemptions += 1

    def _finish(
        self,
        request: Request,
        reason: FinishReason,
        token: int | None = None,
        error: RadixChatError | None = None,
    ) -> None:
        if request.allocation is not None:
            self._release(request)
        else:
            self._waiting.remove(request)
        if request.num_cached is not None:
            self._observe(request, Signal.FINISHED)
        self._events.append(TokenEvent(request.id, token, reason, request.usage(), error))
        self.stats.finish(request, reason)

    def _release(self, request: Request) -> None:
        """The only way a running request lets go of its pages: finish, cancel and preemption."""
        assert request.allocation is not None
        self._commit(request)
        self._cache.release(request.allocation)
        request.allocation = None
        self._running.remove(request)

    def _observe(self, request: Request, signal: Signal) -> None:
        if request.conversation is not None:
            self._cache.observe(request.conversation, signal)

    def _commit(self, request: Request) -> None:
        assert request.allocation is not None
        computed = request.tokens[: request.num_computed]
        request.num_written += self._cache.commit(request.allocation, computed)


def shares_next(running: Request, waiting: Request) -> bool:
    """Whether the prompt token that a running request computes next is part of a waiting one's."""
    known, tokens = running.num_computed, waiting.tokens
    return (
        running.namespace == waiting.namespace
        and known < min(running.num_prompt, len(tokens)) - 1
        and running.tokens[known] == tokens[known]
        and running.tokens[:known] == tokens[:known]
    )


def common_length(running: Request, waiting: Request) -> int:
    """How many leading tokens of a running request's prompt a waiting one can reuse."""
    lengths = range(min(running.num_prompt, len(waiting.tokens) - 1) + 1)
    differ = bisect_left(lengths, True, key=lambda n: running.tokens[:n] != waiting.tokens[:n])
    return differ - 1
