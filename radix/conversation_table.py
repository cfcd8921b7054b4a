"""`ConversationTable`: what an eviction policy knows of the conversations it has heard of.

Owns, for each, its habit (the class of the return rates that it is in), how long it has been
idle and whether it is shielded; and it tells the return rates. It keeps a set of leaves for the
policy, but knows neither the order they are in nor the tree.

    STARTED            FINISHED                     TYPING            STARTED
    | running          | idle, in one habit or more | shielded        | returned
    |------------------|----------------------------|-----------------|----
                       `-- exposure ---------------´ `- counts for nothing

What has to be foreseen is the moment at which a shield begins, so a return under a shield counts
as one of that moment, in the habit before it. A shield that ends with nothing was no return.

The table is bounded. A conversation that has no leaf and does not run is dropped once it is
closed, or idle beyond the last bin of the rates; one hand goes round, and each signal moves it
by two. When there are too many all the same, the one that asked least recently is forgotten.
Only the engine's own signals enter a conversation: no client can fill the table by itself.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from enum import IntEnum

from radixchat.radix.node import Node
from radixchat.radix.return_rate import EDGES, ReturnRates
from radixchat.radix.use import Signal

SHIELD_SECONDS = 120.0
MAX_CONVERSATIONS = 65_536  # 30 MB, without their leaves


class Habit(IntEnum):
    """Who behaves alike: the classes of the return rates, and their numbers."""

    CONNECTED_FIRST = 0  # one turn so far
    CONNECTED_LATER = 1
    AWAY_FIRST = 2
    AWAY_LATER = 3
    DISCONNECTED_FIRST = 4
    DISCONNECTED_LATER = 5
    BACK_FIRST = 6  # connected again since its last turn: measured, a point of the gap to MIN
    BACK_LATER = 7
    CLOSED = 8


_GONE = (Habit.AWAY_FIRST, Habit.DISCONNECTED_FIRST)


class Shield(IntEnum):
    """Why a conversation was shielded last, the surest reason last."""

    NONE = 0  # not since its last request began
    BACK = 1
    TYPING = 2
    QUEUED = 3


class Conversation:
    """One conversation: connected until the opposite is said.

    presence: the habit of a first turn in this presence. running: its live requests. idle_since:
    None while it runs. span: of the return rates, None while there is none under way. shield,
    shield_end: why it is or was last shielded, and until when. shield_begin, shield_habit: when
    that began, and the habit before. leaves: for the policy, as is `order`, where they are.
    """

    __slots__ = (
        "closed",
        "habit",
        "idle_since",
        "leaves",
        "name",
        "order",
        "presence",
        "running",
        "shield",
        "shield_begin",
        "shield_end",
        "shield_habit",
        "shielded",
        "span",
        "turns",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.presence = Habit.CONNECTED_FIRST
        self.habit = Habit.CONNECTED_FIRST
        self.turns = 0
        self.running = 0
        self.closed = False
        self.idle_since: float | None = None
        self.span: int | None = None
        self.shielded = False
        self.shield = Shield.NONE
        self.shield_begin = 0.0
        self.shield_end = 0.0
        self.shield_habit = Habit.CONNECTED_FIRST
        self.leaves: dict[Node, None] = {}
        self.order = 0


class ConversationTable:
    """The conversations heard of. `now` never decreases from call to call."""

    def __init__(self, rates: ReturnRates, max_conversations: int = MAX_CONVERSATIONS) -> None:
        if max_conversations < 1:
            raise ValueError(f"max_conversations is {max_conversations}; it must be at least 1")
        self._rates = rates
        self._max_conversations = max_conversations
        self._known: OrderedDict[str, Conversation] = OrderedDict()  # least recent request first
        self._hand: deque[Conversation] = deque()
        self._shields: deque[tuple[float, Conversation]] = deque()  # first to end first

    def __len__(self) -> int:
        return len(self._known)

    def get(self, name: str) -> Conversation | None:
        """The conversation of that name, if it is known."""
        return self._known.get(name)

    def hear(self, name: str, signal: Signal, now: float) -> Conversation | None:
        """Take in a signal; returns the conversation it is about, None if that is not known."""
        self._tidy(now)
        conversation = self._known.get(name)
        if signal in (Signal.STARTED, Signal.FINISHED):
            if conversation is None:
                conversation = self._known[name] = Conversation(name)
                self._hand.append(conversation)
            self._known.move_to_end(name)
        if conversation is None:
            return None
        match signal:
            case Signal.STARTED:
                self._start(conversation, now)
            case Signal.FINISHED:
                self._finish(conversation, now)
            case Signal.QUEUED:
                self._shield(conversation, Shield.QUEUED, now)
            case Signal.TYPING:
                self._shield(conversation, Shield.TYPING, now)
            case Signal.CLOSED:
                conversation.closed = True
                conversation.shielded = False
            case Signal.AWAY:
                conversation.presence = Habit.AWAY_FIRST
            case Signal.DISCONNECTED:
                conversation.presence = Habit.DISCONNECTED_FIRST
            case Signal.CONNECTED if conversation.presence in _GONE:
                conversation.presence = Habit.BACK_FIRST
                self._shield(conversation, Shield.BACK, now)
        self._settle(conversation, now)
        return conversation

    def ended_shields(self, now: float) -> Iterator[Conversation]:
        """Conversations whose shield has ended by now, each once."""
        while self._shields and self._shields[0][0] <= now:
            end, conversation = self._shields.popleft()
            if conversation.shielded and conversation.shield_end == end:
                conversation.shielded = False
                self._settle(conversation, end)
                yield conversation

    def forgotten(self, now: float) -> Iterator[Conversation]:
        """Remove and give those that are too many, the one that asked least recently first."""
        while len(self._known) > self._max_conversations:
            _, conversation = self._known.popitem(last=False)
            self._end_span(conversation, now)
            conversation.shielded = False
            yield conversation

    def _start(self, conversation: Conversation, now: float) -> None:
        if conversation.idle_since is not None:
            returned, habit = now, conversation.habit
            if conversation.shielded:
                returned, habit = conversation.shield_begin, conversation.shield_habit
            self._rates.returned(habit, max(0.0, returned - conversation.idle_since))
        self._end_span(conversation, now)
        conversation.running += 1
        conversation.idle_since = None
        conversation.closed = conversation.shielded = False
        conversation.shield = Shield.NONE
        conversation.presence = Habit.CONNECTED_FIRST

    def _finish(self, conversation: Conversation, now: float) -> None:
        conversation.turns += 1
        conversation.running = max(0, conversation.running - 1)
        if conversation.running == 0:
            self._end_span(conversation, now)
            conversation.idle_since = now

    def _shield(self, conversation: Conversation, reason: Shield, now: float) -> None:
        """Begin a shield, unless it has or just had one for as good a reason.

        Each reason gives one, and then none for as long: a client that always types, or comes
        and goes, is shielded half of the time.
        """
        rested = now >= conversation.shield_end + SHIELD_SECONDS
        if reason <= conversation.shield and not rested:
            return
        if not conversation.shielded:
            conversation.shield_begin, conversation.shield_habit = now, conversation.habit
        conversation.shielded, conversation.shield = True, reason
        conversation.shield_end = now + SHIELD_SECONDS
        self._shields.append((conversation.shield_end, conversation))

    def _settle(self, conversation: Conversation, now: float) -> None:
        """Work out the habit; a span is under way while it is idle, unshielded, in one habit."""
        habit = Habit(conversation.presence + (conversation.turns > 1))
        if conversation.closed:
            habit = Habit.CLOSED
        idle_since = None if conversation.shielded else conversation.idle_since
        if idle_since is None or habit != conversation.habit:
            self._end_span(conversation, now)
        conversation.habit = habit
        if idle_since is not None and conversation.span is None:
            conversation.span = self._rates.begin(habit, idle_since, now)

    def _end_span(self, conversation: Conversation, now: float) -> None:
        if conversation.span is not None:
            self._rates.end(conversation.span, now)
            conversation.span = None

    def _tidy(self, now: float) -> None:
        """Look at the next two conversations, and drop them if nothing depends on them."""
        for _ in range(min(2, len(self._hand))):
            conversation = self._hand.popleft()
            if self._known.get(conversation.name) is not conversation:
                continue  # forgotten
            if self._is_over(conversation, now):
                self._end_span(conversation, now)
                del self._known[conversation.name]
            else:
                self._hand.append(conversation)

    def _is_over(self, conversation: Conversation, now: float) -> bool:
        if conversation.leaves or conversation.shielded or conversation.idle_since is None:
            return False
        return conversation.closed or now - conversation.idle_since > EDGES[-1]
