"""The nouns that everybody shares: what is asked, what comes back, what it cost.

A request is tokens and how many of them are computed, with what watches its answer (`text`,
`grammar`, `lookup`) and what is counted of it. It knows no template and no tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from radixchat.engine.answer_text import AnswerText
from radixchat.engine.errors import InvalidRequest, RadixChatError
from radixchat.engine.logprobs import TokenLogprob
from radixchat.engine.prompt_lookup import PromptLookup
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.tiers.page_load import PageLoad
from radixchat.engine.token_history import TokenHistory
from radixchat.radix.allocation import Allocation, EvictedPrefix
from radixchat.radix.tiers import Tier

if TYPE_CHECKING:  # llguidance is needed by who makes a grammar, and not where there is none
    from radixchat.engine.grammar import Grammar


class FinishReason(StrEnum):
    """Why a request ended."""

    STOP = "stop"  # a stop token was sampled, a stop string said, or the grammar is complete
    LENGTH = "length"  # max_tokens were sampled
    CONTEXT = "context_length"  # the model's positions, or the pool, are used up
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Usage:
    """What one request cost, in tokens.

    cached + computed == input; cached <= input - 1, for one token is always computed.
    cache_write counts the tokens newly inserted in the tree. evicted: tokens of the prompt after
    the cached ones that the cache had held, and gave up so many seconds before the request was
    admitted; None where it cannot tell. queue_seconds: from submission to the first admission.
    draft_tokens, accepted_tokens: guessed, or forced by a grammar, and computed beside others; and
    how many of these were right. host, disk, store: of the cached tokens, those that were brought
    back from there; not_restored: why others that are there were not.
    """

    input_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    output_tokens: int
    evicted_tokens: int = 0
    evicted_seconds_ago: float | None = None
    queue_seconds: float = 0.0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    host_tokens: int = 0
    disk_tokens: int = 0
    store_tokens: int = 0
    not_restored: str | None = None

    @property
    def device_tokens(self) -> int:
        """Prompt tokens that were in the pool."""
        return self.cached_tokens - self.host_tokens - self.disk_tokens - self.store_tokens

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that were not cached."""
        return self.input_tokens - self.cached_tokens


@dataclass(frozen=True, slots=True)
class Progress:
    """Of a prompt's tokens, `cached` were found, and `processed` have K/V, those included.

    host, disk, store: of the cached ones, those that were brought back from there.
    """

    cached: int
    processed: int
    host: int = 0
    disk: int = 0
    store: int = 0


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One thing that happened to one request in one step.

    `token` is None when the step ended the request without sampling (cancelled, failed). The
    last event of a request, and only that, has `finish` and `usage`. A stop token is reported
    as `token` together with `finish`: it belongs to the conversation's ids but not to its text.

    text: what is now certain to be shown, "" for a request that has no `text`. num_kept: so many
    of the sampled tokens belong wholly to what was shown up to now, and have num_kept_characters
    of it; a stop token does not belong to it, nor does a token with text of a stop string (`stop`,
    the one that was said). Of a request without `text` only the last event tells. prompt_logprobs:
    of the prompt's tokens but the first, with the first sampled token. progress: of the prompt,
    for one who asks (`Request.wants_progress`), in events without a token. at: the end of the step,
    on the engine's clock.
    """

    request_id: int
    token: int | None
    finish: FinishReason | None = None
    usage: Usage | None = None
    error: RadixChatError | None = None
    text: str = ""
    num_kept: int = 0
    num_kept_characters: int = 0
    at: float = 0.0
    stop: str | None = None
    logprob: TokenLogprob | None = None
    prompt_logprobs: tuple[TokenLogprob, ...] | None = None
    progress: Progress | None = None


@dataclass(slots=True, eq=False)
class Request:
    """A turn as the engine sees it.

    tokens: prompt, then output; append-only. 0 <= num_computed < len(tokens) while it runs:
    a step computes tokens[num_computed:...] and, when it reaches the end, samples one more.
    There is no prefill and no decode, only how far num_computed is behind.
    """

    id: int
    tokens: list[int]
    sampling: SamplingParams
    stop_ids: frozenset[int] = frozenset()
    namespace: bytes = b""
    conversation: str | None = None  # whose turn it is: a hint for the cache, never a condition
    priority: int = 0  # higher goes first, whatever the prefix
    deadline: float | None = None  # on the engine's clock; the answer ends then as it is
    text: AnswerText | None = None
    grammar: Grammar | None = None
    lookup: PromptLookup | None = None
    wants_progress: bool = False
    num_resumed: int = 0  # tokens of the output that another run of it had sampled
    num_prompt: int = field(init=False)
    num_computed: int = 0
    num_cached: int | None = None  # set by the first admission; a requeue does not change it
    restored: dict[Tier, int] = field(default_factory=dict)  # of these, by where they were
    load: PageLoad | None = None  # what it has asked of the tiers below the pool
    evicted: EvictedPrefix | None = None  # likewise
    num_written: int = 0
    queued_at: float = 0.0  # on the engine's clock
    queue_seconds: float = 0.0
    overtaken: int = 0  # times that a later request of its tenant and priority was admitted first
    draft_tokens: int = 0
    accepted_tokens: int = 0
    history: TokenHistory | None = None  # the sampler's, once it needs one
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)
    joined: Request | None = None  # it waits for this one to compute its first joined_length tokens
    joined_length: int = 0
    joined_at: int | None = None  # the step at which it began to wait for anybody
    allocation: Allocation | None = None

    def __post_init__(self) -> None:
        self.num_prompt = len(self.tokens)

    def validate(self) -> None:
        """Raise InvalidRequest for a value that no request can have, or a second submission."""
        deadline = self.deadline
        timed = type(deadline) in (int, float) and deadline == deadline  # no NaN
        checks = (
            ("tokens", self.tokens, "a list", isinstance(self.tokens, list)),
            ("namespace", self.namespace, "bytes", isinstance(self.namespace, bytes)),
            (
                "conversation",
                self.conversation,
                "a text or None",
                self.conversation is None or isinstance(self.conversation, str),
            ),
            ("priority", self.priority, "a whole number", type(self.priority) is int),
            ("deadline", deadline, "seconds or None", deadline is None or timed),
        )
        for name, value, allowed, ok in checks:
            if not ok:
                raise InvalidRequest(f"{name} is {value!r}; allowed: {allowed}")
        if self.num_cached is not None or self.num_output != self.num_resumed:
            raise InvalidRequest(f"request {self.id} was submitted before; make another")

    def resume(self, output: Sequence[int]) -> str:
        """Go on after `output`, as if this request had sampled it; before it is submitted.

        Returns the text of it that is certain to be shown. The answer goes on as it would have
        gone there: the noise depends on position and seed only.
        """
        assert self.num_output == 0
        self.tokens.extend(output)
        self.num_resumed = len(output)
        for token in output:
            if self.grammar is not None:
                self.grammar.accept(token)
        if self.text is None:
            return ""
        return "".join(map(self.text.push, output))

    @property
    def num_output(self) -> int:
        """Tokens sampled so far."""
        return len(self.tokens) - self.num_prompt

    @property
    def num_behind(self) -> int:
        """Tokens whose K/V is still to be computed before the next can be sampled."""
        return len(self.tokens) - self.num_computed

    @property
    def wants_prompt_logprobs(self) -> bool:
        """Whether log-probabilities of the prompt are still to be computed."""
        wanted = self.sampling.prompt_logprobs is not None
        return wanted and len(self.prompt_logprobs) < self.num_prompt - 1

    def of_prompt(self, cached: int) -> int:
        """Of the tokens that were found, those of the prompt; of a resumed answer there are more.

        One less than all at most, for one is always computed.
        """
        return min(cached, self.num_prompt - 1)

    def progress(self) -> Progress:
        """How far its prompt is; it was admitted."""
        assert self.num_cached is not None
        below = (self.restored.get(tier, 0) for tier in (Tier.HOST, Tier.DISK, Tier.STORE))
        return Progress(self.num_cached, min(self.num_computed, self.num_prompt), *below)

    def sibling(self, request_id: int, index: int) -> Request:
        """The same question again, with noise of its own; before it is submitted."""
        assert self.num_output == 0
        assert self.allocation is None
        # Seeds next to each other are what users count up: the siblings' lie elsewhere.
        seed = (self.sampling.seed ^ index * 0x9E3779B97F4A7C15) % 2**63
        return Request(
            request_id,
            self.tokens.copy(),
            replace(self.sampling, seed=seed),
            stop_ids=self.stop_ids,
            namespace=self.namespace,
            conversation=self.conversation,
            priority=self.priority,
            deadline=self.deadline,
            text=self.text.copy() if self.text is not None else None,
            grammar=self.grammar.copy() if self.grammar is not None else None,
            lookup=self.lookup.copy() if self.lookup is not None else None,
        )

    def usage(self) -> Usage:
        """What it has cost so far."""
        cached, evicted = self.num_cached or 0, self.evicted
        if evicted is not None and evicted.length <= cached:
            evicted = None  # what it had lost came back, and more
        return Usage(
            self.num_prompt,
            cached,
            self.num_written,
            self.num_output,
            evicted.length - cached if evicted else 0,
            evicted.seconds_ago if evicted else None,
            self.queue_seconds,
            self.draft_tokens,
            self.accepted_tokens,
            self.restored.get(Tier.HOST, 0),
            self.restored.get(Tier.DISK, 0),
            self.restored.get(Tier.STORE, 0),
            self.load.reason if self.load is not None else None,
        )


def fan_out(request: Request, ids: Sequence[int]) -> list[Request]:
    """`len(ids)` samples of one question; the first is sampled as the request would be.

    Submitted together they share its prefill: all but the first wait until it is in the cache.
    """
    return [request.sibling(request_id, index) for index, request_id in enumerate(ids)]
