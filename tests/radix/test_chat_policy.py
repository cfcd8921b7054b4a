"""Tests of the chat policy: each rule by an example, and all of it against the naive rules."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from radixchat.radix.chat_policy import REBUILD_SECONDS, ChatPolicy
from radixchat.radix.conversation_table import MAX_CONVERSATIONS, SHIELD_SECONDS
from radixchat.radix.eviction import LruPolicy
from radixchat.radix.node import Node
from radixchat.radix.use import Signal, Use
from radixchat.tests.radix.leaves import make_leaf
from radixchat.tests.radix.naive_chat import NaiveChat


@dataclass(slots=True)
class _Chat:
    """A policy with a clock that is moved by hand, and uses with growing stamps."""

    now: float = 1000.0
    stamp: int = 0
    policy: ChatPolicy = field(init=False)

    def __post_init__(self) -> None:
        self.policy = ChatPolicy(lambda: self.now)

    def use(self, conversation: str | None, shared: bool = False, superseded: bool = False) -> Use:
        self.stamp += 1
        return Use(self.stamp, self.now, conversation, 4, shared=shared, superseded=superseded)

    def leaf(
        self, conversation: str | None, shared: bool = False, superseded: bool = False
    ) -> Node:
        """A leaf that is used now and joins the order."""
        leaf = make_leaf(self.use(conversation, shared, superseded))
        self.policy.add(leaf)
        return leaf

    def turn(self, conversation: str) -> Node:
        """A request that begins and ends now, and what it leaves."""
        self.policy.observe(conversation, Signal.STARTED)
        leaf = self.leaf(conversation)
        self.policy.observe(conversation, Signal.FINISHED)
        return leaf

    def order(self) -> list[Node]:
        """Evict all; the leaves as they went."""
        gone = []
        while (leaf := self.policy.victim()) is not None:
            self.policy.discard(leaf)
            gone.append(leaf)
        assert list(self.policy.leaves()) == []
        assert all(heap._num_leaves == 0 for heap in self.policy._heaps)
        return gone


def test_nothing_learned_is_lru() -> None:
    """Whatever the class, the least recent goes first, even when rebuilt without a return."""
    chat = _Chat()
    leaves = []
    for conversation in ("a", "b", "c"):
        leaves += [chat.turn(conversation), chat.leaf(None), chat.leaf(None, shared=True)]
        chat.now += 1.5
    chat.policy.observe("b", Signal.AWAY)
    chat.policy.observe("c", Signal.DISCONNECTED)
    assert chat.order() == leaves


def test_what_is_left_or_closed_goes_first() -> None:
    """Superseded, then closed, then the least recent, though that has been idle for days."""
    chat = _Chat()
    old, unknown = chat.turn("a"), chat.leaf(None)
    chat.now += 3 * 86_400
    closed, left = chat.turn("b"), chat.leaf("a", superseded=True)
    chat.policy.observe("b", Signal.CLOSED)
    assert chat.order() == [left, closed, old, unknown]


def test_a_request_opens_a_closed_conversation() -> None:
    """Its leaves return to their place."""
    chat = _Chat()
    closed, other = chat.turn("a"), chat.turn("b")
    chat.policy.observe("a", Signal.CLOSED)
    assert chat.policy.victim() is closed
    chat.now += 1
    last = chat.turn("a")
    assert chat.order() == [closed, other, last], "least recent first"


@pytest.mark.parametrize("signal", [Signal.TYPING, Signal.QUEUED])
def test_a_shield_protects_for_two_minutes(signal: Signal) -> None:
    """A shielded leaf goes after all others, but it goes; when the time is over it is like any."""
    chat = _Chat()
    shielded, other = chat.turn("a"), chat.turn("b")
    chat.policy.observe("a", signal)
    assert chat.policy.victim() is other
    chat.policy.discard(other)
    assert chat.policy.victim() is shielded, "soft: never unevictable"
    chat.policy.add(other)
    chat.now += SHIELD_SECONDS - 1
    assert chat.policy.victim() is other
    chat.now += 1
    assert chat.order() == [shielded, other]


@pytest.mark.parametrize("gone", [Signal.AWAY, Signal.DISCONNECTED])
def test_who_is_back_is_shielded(gone: Signal) -> None:
    """A reconnect, or a tab that comes to the front."""
    chat = _Chat()
    back, other = chat.turn("a"), chat.turn("b")
    chat.policy.observe("a", gone)
    chat.policy.observe("a", Signal.CONNECTED)
    assert chat.order() == [other, back]


def test_a_shield_covers_what_is_added_later() -> None:
    """Every evictable leaf of the conversation is shielded, not what others share or was left."""
    chat = _Chat()
    chat.turn("a")
    chat.policy.observe("a", Signal.TYPING)
    shared, left = chat.leaf("a", shared=True), chat.leaf("a", superseded=True)
    more, other = chat.leaf("a"), chat.turn("b")
    assert chat.order()[:3] == [left, shared, other]
    chat.policy.add(more)
    assert chat.policy.victim() is more


def _teach(chat: _Chat) -> None:
    """Half an hour in which those that stay come back, and those in the background do not."""
    for number in range(60):
        chat.now += 30
        for name in ("here 0", "here 1", "here 2"):
            chat.turn(name)
        chat.turn(f"gone {number}")
        chat.policy.observe(f"gone {number}", Signal.AWAY)
    chat.order()


def test_the_less_likely_return_goes_first() -> None:
    """Once learned, a leaf in the background goes before a less recent one in sight."""
    chat = _Chat()
    _teach(chat)
    here = chat.turn("here 0")
    chat.now += 10
    away = chat.turn("gone 1")
    chat.policy.observe("gone 1", Signal.AWAY)
    assert chat.policy.victim() is away
    chat.now += 4 * 3600
    assert chat.policy.victim() is here, "both have been idle for so long that nothing is known"


def test_rates_are_rebuilt_each_minute() -> None:
    """Not earlier, and then by whatever comes next: a victim or a signal."""
    chat = _Chat()
    before = chat.policy._scores
    chat.turn("a")
    chat.now += 30
    chat.turn("a")
    chat.now += REBUILD_SECONDS - 30.5
    chat.policy.victim()
    assert chat.policy._scores is before
    chat.now += 0.5
    chat.policy.observe("b", Signal.AWAY)
    after = chat.policy._scores
    assert after[0] != before[0]
    chat.now += REBUILD_SECONDS - 0.5
    chat.policy.victim()
    assert chat.policy._scores is after


def test_a_clock_that_goes_back_or_stands() -> None:
    """Time never runs backwards here, so nothing is counted twice and shields still end."""
    chat = _Chat()
    first = chat.turn("a")
    chat.now -= 500
    second = chat.turn("b")
    chat.policy.observe("a", Signal.TYPING)
    chat.now -= 100
    assert chat.policy.victim() is second
    chat.now += 600 + SHIELD_SECONDS
    assert chat.order() == [first, second]


def test_forgotten_conversations_keep_their_leaves() -> None:
    """Beyond the table's limit the leaves of the oldest are like those of no conversation."""
    chat = _Chat()
    older, oldest = chat.leaf(None), chat.turn("0")
    chat.policy.observe("0", Signal.TYPING)
    for number in range(1, MAX_CONVERSATIONS + 1):
        chat.policy.observe(f"{number}", Signal.STARTED)
    assert len(chat.policy._table) == MAX_CONVERSATIONS
    newest = chat.turn("0")
    assert chat.policy.victim() is older
    chat.policy.discard(older)
    assert chat.policy.victim() is oldest, "shielded no longer, least recent first"
    chat.policy.discard(oldest)
    chat.policy.add(oldest)
    chat.policy.observe("0", Signal.CLOSED)
    assert chat.order() == [oldest, newest], "it is known again, and both are its leaves now"


@pytest.mark.parametrize("seed", range(5))
def test_without_conversations_it_is_lru(seed: int) -> None:
    """Leaves that join, are used again and are trimmed, shared or not: every decision is LRU's."""
    choose, chat, lru = random.Random(seed), _Chat(), LruPolicy()
    pairs: list[tuple[Node, Node]] = []
    for _ in range(1500):
        chat.now += choose.choice([0.0, 0.1, 3.0, 40.0, 900.0])
        action = choose.random()
        if pairs and action < 0.5:
            ours, theirs = victim = choose.choice(pairs)
            chat.policy.discard(ours)
            lru.discard(theirs)
            pairs.remove(victim)
            if action < 0.2:  # only the last ones of its pages went
                chat.policy.add(ours)
                lru.add(theirs)
                pairs.append(victim)
        else:
            use = chat.use(None, shared=choose.random() < 0.3)
            ours, theirs = make_leaf(use), make_leaf(use)
            chat.policy.add(ours)
            lru.add(theirs)
            pairs.append((ours, theirs))
        ours_next, theirs_next = chat.policy.victim(), lru.victim()
        assert (ours_next and ours_next.use) is (theirs_next and theirs_next.use)


class _Traffic:
    """Random steps for a policy and the naive rules, which must agree on every victim."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.chat = _Chat()
        self.naive = NaiveChat(self.chat.now)
        self.running: list[str] = []
        self.names = [f"c{number}" for number in range(5)]
        self.anchors: list[Node] = []  # one leaf of each stays, so that none is dropped

    def start(self) -> None:
        for name in self.names:
            self.hear(name, Signal.STARTED)
            self.hear(name, Signal.FINISHED)
            self.join(self.chat.use(name))
        self.anchors = list(self.naive.leaves)

    def hear(self, name: str, signal: Signal) -> None:
        self.chat.policy.observe(name, signal)
        self.naive.hear(name, signal, self.chat.now)

    def join(self, use: Use) -> None:
        leaf = make_leaf(use)
        self.chat.policy.add(leaf)
        self.naive.leaves.append(leaf)

    def step(self) -> None:
        choose, action = self.choose, self.choose.random()
        self.chat.now += choose.choice(
            [0.0, 0.0, 2.0, 10.0, 15.0, 40.0, 60.0, 119.0, 200.0, 3000.0]
        )
        name = choose.choice(self.names)
        loose = [leaf for leaf in self.naive.leaves if leaf not in self.anchors]
        if action < 0.3:
            self.hear(name, choose.choice([Signal.QUEUED, *list(Signal)[3:]]))
        elif action < 0.4:
            self.hear(name, Signal.STARTED)
            self.running.append(name)
        elif action < 0.55 and self.running:
            name = self.running.pop(choose.randrange(len(self.running)))
            self.join(self.chat.use(name))
            self.hear(name, Signal.FINISHED)
        elif action < 0.7:
            whose = choose.choice([*self.names, None])
            self.join(self.chat.use(whose, choose.random() < 0.2, choose.random() < 0.2))
        elif loose:
            leaf = choose.choice(loose)
            self.chat.policy.discard(leaf)
            self.naive.leaves.remove(leaf)
            if action < 0.8:
                leaf.use = replace(leaf.use, stamp=max(1, leaf.use.stamp - 3))
                self.chat.policy.add(leaf)
                self.naive.leaves.append(leaf)

    def check(self) -> None:
        """The victim is one of the lowest score, and the least recent of exactly that score."""
        victim, now = self.chat.policy.victim(), self.chat.now
        self.naive.look(now)
        scores = self.naive.scores(now)
        assert victim is not None
        assert victim in scores
        lowest = min(scores.values())
        assert scores[victim][0] == lowest[0]
        assert scores[victim][1] == pytest.approx(lowest[1], abs=3e-6)
        ties = [leaf for leaf, score in scores.items() if score == scores[victim]]
        assert victim.use.stamp == min(leaf.use.stamp for leaf in ties)


@pytest.mark.parametrize("seed", range(12))
def test_victims_are_those_of_the_naive_rules(seed: int) -> None:
    """Turns, signals, leaves and hours in any sequence: the same victim at every step."""
    traffic = _Traffic(seed)
    traffic.start()
    for _ in range(150):
        traffic.step()
        traffic.check()
