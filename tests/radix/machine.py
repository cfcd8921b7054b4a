"""`CacheMachine`: a Hypothesis state machine that drives a `Simulation` with chats.

Chat-shaped data: prompts are a long trunk, a cut somewhere, and a short tail, of two distinct
tokens; uniform random tokens would hardly ever meet in mid-page and let seeded bugs live. The
cache class is an attribute, so that the mutants run through the same machine; so are the page
sizes, for an even share of the examples to each.
"""

from __future__ import annotations

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from radixchat.radix.cache import PrefixCache
from radixchat.radix.policies import make_policy
from radixchat.radix.use import Signal
from radixchat.tests.radix.simulation import Running, Simulation

PAGE_SIZES = (1, 2, 3, 4, 8, 16)
EXAMPLES_PER_SIZE = 25  # of the fast suite


def tokens_of(length: int, bits: int, times: int) -> list[int]:
    """Some zeros and ones, repeated: three numbers are drawn faster than a list of tokens."""
    return [bits >> index & 1 for index in range(length)] * times


ANY = st.integers(0, 15)  # picks one of the few things there are, modulo their number
TAIL = st.builds(tokens_of, st.integers(1, 12), st.integers(0, 4095), st.integers(1, 4))
BACK = st.sampled_from([0, 1, 2, 3, 4, 5, 8, 13, 21, 34])
NAMESPACE = st.sampled_from([b"", b"", b"tenant"])
WHO = st.sampled_from([None, "one", "two"])
SOMEBODY = st.sampled_from(["one", "two"])


class CacheMachine(RuleBasedStateMachine):
    """Every rule ends with every invariant (`Simulation.check`)."""

    cache_class: ClassVar[type[PrefixCache]] = PrefixCache
    policy: ClassVar[str] = "lru"
    page_sizes: ClassVar[tuple[int, ...]] = PAGE_SIZES

    @initialize(
        which=ANY,
        num_pages=st.sampled_from([14, 6, 25, 10, 40, 18, 4, 8, 30, 120, 3, 2, 1]),
        trunk=st.lists(st.integers(0, 1), min_size=12, max_size=60),
    )
    def start(self, which: int, num_pages: int, trunk: list[int]) -> None:
        self.seconds = 0.0
        page_size = self.page_sizes[which % len(self.page_sizes)]
        # The LRU order is the cache's own, which may be a mutant's.
        lru = self.policy == "lru"
        policy = None if lru else make_policy(self.policy, num_pages, self.clock)
        cache = self.cache_class(num_pages, page_size, policy, clock=self.clock)
        self.simulation = Simulation(cache, least_recent_first=lru)
        self.capacity = num_pages * page_size
        request = self.simulation.allocate(trunk[: self.capacity])
        assert request is not None, "an empty pool has room"
        self.finish(request)

    def clock(self) -> float:
        """Seconds, as far as `pass_time` has moved them on."""
        return self.seconds

    def pick(self, which: int) -> Running:
        """One of the running requests, the newest for 0."""
        return self.simulation.running[-1 - which % len(self.simulation.running)]

    def prompt(self, which: int, back: int, tail: list[int]) -> list[int]:
        """An earlier sequence, `back` tokens of its end cut off, and a tail; it fits the pool."""
        trunk = self.simulation.seen[-1 - which % len(self.simulation.seen)][1]
        tokens = trunk[: max(0, len(trunk) - back)] + tail
        return tokens[: self.capacity] or [0]

    def finish(self, request: Running) -> None:
        """Compute and commit all of a request, and release it."""
        self.simulation.compute(request, len(request.tokens))
        self.simulation.commit(request, len(request.tokens))
        self.simulation.release(request)

    def busy(self) -> bool:
        """Whether a request runs."""
        return bool(self.simulation.running)

    @rule(which=ANY, back=BACK, tail=TAIL, namespace=NAMESPACE, who=WHO)
    def admit(
        self, which: int, back: int, tail: list[int], namespace: bytes, who: str | None
    ) -> None:
        self.simulation.allocate(self.prompt(which, back, tail), namespace, who)

    @rule(
        turns=st.lists(st.tuples(ANY, BACK, TAIL, WHO), min_size=1, max_size=6),
        namespace=NAMESPACE,
    )
    def whole_turns(
        self, turns: list[tuple[int, int, list[int], str | None]], namespace: bytes
    ) -> None:
        """Answer one prompt after the other: the trees and the pressure that chats make."""
        for which, back, tail, who in turns:
            request = self.simulation.allocate(self.prompt(which, back, tail), namespace, who)
            if request is not None:
                self.finish(request)

    @rule(who=SOMEBODY, signal=st.sampled_from(list(Signal)), seconds=st.sampled_from([0, 9, 999]))
    def hint(self, who: str, signal: Signal, seconds: int) -> None:
        self.seconds += seconds
        self.simulation.observe(who, signal)

    @rule(which=ANY, back=BACK, namespace=NAMESPACE, who=SOMEBODY)
    def supersede(self, which: int, back: int, namespace: bytes, who: str) -> None:
        tokens = self.prompt(which, 0, [])
        self.simulation.supersede(tokens, max(0, len(tokens) - back), who, namespace)

    @rule(which=ANY, back=BACK, start=BACK, namespace=NAMESPACE, who=SOMEBODY)
    def purge(self, which: int, back: int, start: int, namespace: bytes, who: str) -> None:
        tokens = self.prompt(which, back, [])
        self.simulation.purge(tokens, min(start, len(tokens)), who, namespace)

    @rule(which=ANY, back=BACK, start=BACK, namespace=NAMESPACE)
    def lose_copies(self, which: int, back: int, start: int, namespace: bytes) -> None:
        self.simulation.lose_copies(self.prompt(which, back, []), start, namespace)

    @rule(which=ANY, back=BACK, tail=TAIL, namespace=NAMESPACE)
    def probe(self, which: int, back: int, tail: list[int], namespace: bytes) -> None:
        self.simulation.probe(self.prompt(which, back, tail), namespace)

    @rule(
        which=ANY,
        back=BACK,
        tail=TAIL,
        tails=st.tuples(TAIL, TAIL),
        steps=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 12)), min_size=2, max_size=8),
    )
    def twins(
        self,
        which: int,
        back: int,
        tail: list[int],
        tails: tuple[list[int], list[int]],
        steps: list[tuple[int, int]],
    ) -> None:
        """Two prompts that differ late, computed side by side and committed in turns."""
        prompt = self.prompt(which, back, tail)
        pair = [self.simulation.allocate((prompt + own)[: self.capacity]) for own in tails]
        for twin, count in steps:
            if (request := pair[twin]) is not None:
                self.simulation.compute(request, count)
                self.simulation.commit(request, request.num_computed)

    @precondition(busy)
    @rule(which=ANY, count=st.integers(1, 40))
    def compute(self, which: int, count: int) -> None:
        self.simulation.compute(self.pick(which), count)

    @precondition(busy)
    @rule(which=ANY, count=st.integers(1, 20), share=st.integers(0, 40))
    def compute_and_commit(self, which: int, count: int, share: int) -> None:
        request = self.pick(which)
        self.simulation.compute(request, count)
        known = request.allocation.num_committed
        self.simulation.commit(request, min(known + share, request.num_computed))

    @precondition(busy)
    @rule(which=ANY, tokens=st.lists(st.integers(0, 1), min_size=1, max_size=4))
    def decode(self, which: int, tokens: list[int]) -> None:
        request = self.pick(which)
        if len(request.tokens) + len(tokens) <= self.capacity:
            if self.simulation.extend(request, tokens):
                self.simulation.compute(request, len(tokens))
                return
            self.simulation.release(request)  # preempted

    @precondition(busy)
    @rule(which=ANY)
    def complete(self, which: int) -> None:
        self.finish(self.pick(which))

    @precondition(busy)
    @rule(which=ANY)
    def cancel(self, which: int) -> None:
        self.simulation.release(self.pick(which))

    @precondition(busy)
    @rule(which=ANY)
    def preempt(self, which: int) -> None:
        request = self.pick(which)
        self.simulation.release(request)
        self.simulation.allocate(request.tokens, request.namespace, request.conversation)

    @rule(seldom=ANY)
    def flush(self, seldom: int) -> None:
        if seldom == 0:
            self.simulation.flush()
