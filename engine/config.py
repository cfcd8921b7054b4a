"""Settings as asked (`EngineConfig`) and as resolved for one model (`EnginePlan`).

Both are frozen. Nothing is looked up after `resolve`: modules get the numbers they need. Knows no
command line, no environment and no file.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from radixchat.engine.arithmetic import Arithmetic, check_choices, resolve_arithmetic
from radixchat.engine.cores import usable_cores
from radixchat.engine.errors import ConfigError, InvalidRequest, PromptTooLong
from radixchat.engine.model_config import ModelConfig
from radixchat.engine.step_budget import step_budget
from radixchat.engine.tiers.cost_gate import GATES
from radixchat.engine.tiers.write_policy import WRITE_POLICIES
from radixchat.radix.policies import POLICY_NAMES

# Reuse is exact to the token at any page size, so it only weighs page tables (short at 16) against
# the one page that an acquire may copy and the half page that a request leaves unused.
DEFAULT_PAGE_SIZE = 16
# Four full contexts: enough for a handful of live conversations; the pool's memory is only
# touched as pages are first used.
DEFAULT_POOL_CONTEXTS = 4
# Of the machine's memory, what the default pool may take at most.
DEFAULT_POOL_MEMORY_SHARE = 0.25
# More than any machine's cores; OpenMP crashes the process at a hundred thousand.
MAX_THREADS = 1024
# Longest cached prefix first, with ageing; first come, first served.
SCHEDULES = ("lpm", "fcfs")
_AT_LEAST_ONE = (
    "page_size",
    "pool_tokens",
    "threads",
    "max_running",
    "max_step_tokens",
    "max_mixed_tokens",
    "max_waiting",
    "max_overtaken",
)


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What a user may set; None means: choose for this model and machine.

    page_size: tokens a page. pool_tokens: tokens the KV pool holds, rounded down to pages.
    prefix_cache: False computes every prompt in full. eviction: which cached prefix goes first,
    one of POLICY_NAMES. public_prefixes: token ids of prompts that all namespaces may share; their
    whole pages are. threads: CPU threads of a forward pass.
    device: one of DEVICES. weights: one of WEIGHTS; auto computes with a GGUF's blocks as they are,
    and with fp32 otherwise; int8 rounds what has more bits. kv: one of KV_FORMATS; int8 holds twice
    to four times the tokens and is not quite the same model. exact: whether the same tokens give
    the same bits however they came to be computed; None is True on the CPU and False on a GPU.
    max_running: requests in one step. max_step_tokens: tokens computed in one step;
    max_mixed_tokens: the same while somebody is reading an answer, decodes first; at least
    max_running, so that no answer ever waits for another. None of the three is what suits the
    device (`step_budget`). Both count tokens at the beginning of a context; far behind it, where
    attention costs more, a step has fewer. max_draft_tokens: tokens guessed in one step, 0 is none.
    max_waiting: requests that may wait for admission before others are refused. schedule: who is
    admitted first, one of SCHEDULES. max_overtaken: how often a waiting request may see a later one
    of its tenant and priority go first; None is without a bound.
    host_cache_bytes: memory for pages that leave the pool, 0 is none. write_policy: when pages go
    to a store, one of WRITE_POLICIES. tier_gate: whether pages come back from below the pool, one
    of GATES; measured is where that is quicker than to compute them.
    """

    page_size: int | None = None
    pool_tokens: int | None = None
    prefix_cache: bool = True
    eviction: str = "chat"
    public_prefixes: tuple[tuple[int, ...], ...] = ()
    threads: int | None = None
    device: str = "auto"
    weights: str = "auto"
    kv: str = "auto"
    exact: bool | None = None
    max_running: int | None = None
    max_step_tokens: int | None = None
    max_mixed_tokens: int | None = None
    max_draft_tokens: int = 15
    max_waiting: int = 256
    schedule: str = "lpm"
    max_overtaken: int | None = 32
    host_cache_bytes: int = 0
    write_policy: str = "write_through_selective"
    tier_gate: str = "measured"

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be 1 or more")
        if self.max_draft_tokens < 0:
            raise ConfigError(f"max_draft_tokens is {self.max_draft_tokens}; it must be 0 or more")
        if self.threads is not None and self.threads > MAX_THREADS:
            raise ConfigError(f"threads is {self.threads}; allowed: 1 to {MAX_THREADS}")
        for name in ("max_step_tokens", "max_mixed_tokens"):
            tokens = getattr(self, name)
            if None not in (tokens, self.max_running) and tokens < self.max_running:
                raise ConfigError(
                    f"{name} is {tokens}, less than max_running; "
                    f"it must be {self.max_running} or more"
                )
        if self.host_cache_bytes < 0:
            raise ConfigError(f"host_cache_bytes is {self.host_cache_bytes}; it must be 0 or more")
        for name, allowed in (("write_policy", WRITE_POLICIES), ("tier_gate", GATES)):
            if getattr(self, name) not in allowed:
                raise ConfigError(
                    f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(allowed)}"
                )
        if self.schedule not in SCHEDULES:
            raise ConfigError(
                f"schedule is {self.schedule!r}; it must be one of {', '.join(SCHEDULES)}"
            )
        if self.eviction not in POLICY_NAMES:
            raise ConfigError(
                f"eviction is {self.eviction!r}; it must be one of {', '.join(POLICY_NAMES)}"
            )
        check_choices(device=self.device, weights=self.weights, kv=self.kv)

    def arithmetic(self) -> Arithmetic:
        """What this machine computes with; raises ConfigError when it cannot."""
        return resolve_arithmetic(self.device, self.weights, self.kv, self.exact)

    def resolve(self, model: ModelConfig, weights: str | None = None) -> EnginePlan:
        """The plan for one model on this machine; raises ConfigError when it cannot work.

        weights: the format of those that are loaded (`Checkpoint.weights`), if they are.
        """
        arithmetic = self.arithmetic()
        if weights is not None and self.weights not in ("auto", weights):
            raise ConfigError(
                f"weights is {self.weights!r}, but the checkpoint's are {weights!r}; load it with "
                f"load_checkpoint(path, weights={self.weights!r}), or use 'auto'"
            )
        per_token = model.kv_bytes_per_token(arithmetic.kv_element_bytes, arithmetic.kv_scale_bytes)
        page_size = self.page_size or DEFAULT_PAGE_SIZE
        memory = memory_bytes(arithmetic.device)
        pool_tokens = self.pool_tokens or default_pool_tokens(model.max_position, per_token, memory)
        if pool_tokens < page_size:
            raise ConfigError(
                f"pool_tokens is {pool_tokens}, less than one page of {page_size} tokens; "
                f"set at least {page_size}"
            )
        self._check_prefixes(model)
        needed = pool_tokens * per_token
        if needed > memory:
            raise ConfigError(
                f"pool_tokens is {pool_tokens}: its KV needs {needed / 2**30:.1f} GiB, the machine "
                f"has {memory / 2**30:.1f} GiB; at most {memory // per_token} fit"
            )
        budget = step_budget(
            arithmetic.device, self.max_running, self.max_step_tokens, self.max_mixed_tokens
        )
        return EnginePlan(
            page_size=page_size,
            num_pages=pool_tokens // page_size,
            prefix_cache=self.prefix_cache,
            eviction=self.eviction,
            public_prefixes=self.public_prefixes,
            threads=self.threads or usable_cores(),
            device=arithmetic.device,
            weights=weights or arithmetic.weights,
            kv=arithmetic.kv,
            exact=self._exact(model, arithmetic),
            by_transformers=model.by_transformers,
            max_running=budget.requests,
            max_step_tokens=budget.tokens,
            max_mixed_tokens=budget.mixed_tokens,
            max_draft_tokens=self.max_draft_tokens,
            max_waiting=self.max_waiting,
            schedule=self.schedule,
            max_overtaken=self.max_overtaken,
            attention_tokens=model.attention_tokens,
            max_position=model.max_position,
            vocab_size=model.vocab_size,
            kv_bytes_per_token=per_token,
            operations_per_token=model.operations_per_token,
            host_cache_bytes=self.host_cache_bytes,
            write_policy=self.write_policy,
            tier_gate=self.tier_gate,
        )

    def _check_prefixes(self, model: ModelConfig) -> None:
        for token in itertools.chain.from_iterable(self.public_prefixes):
            if not 0 <= token < model.vocab_size:
                raise ConfigError(
                    f"public_prefixes has the token id {token}; the model's are 0 to "
                    f"{model.vocab_size - 1}"
                )

    def _exact(self, model: ModelConfig, arithmetic: Arithmetic) -> bool:
        """Never with products of torch's own, whose bits depend on how many rows they have."""
        if not model.by_transformers:
            return arithmetic.exact
        if self.exact:
            raise ConfigError(
                f"exact is True, but {model.architecture} is computed by transformers, whose "
                "products do not give the same bits in every batch; leave exact out (--no-exact)"
            )
        return False


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """Every number the engine runs with.

    device: "cpu" or "cuda". weights: "fp32", "fp16" or "bf16", "int8", or "blocks", as they are in
    a GGUF. kv: "fp32", "fp16", "bf16" or "int8". by_transformers: what the model computes besides
    attention, and so never exact. attention_tokens: at this position attention
    costs as much as the rest of the model.
    """

    page_size: int
    num_pages: int
    prefix_cache: bool
    eviction: str
    public_prefixes: tuple[tuple[int, ...], ...]
    threads: int
    device: str
    weights: str
    kv: str
    exact: bool
    by_transformers: bool
    max_running: int
    max_step_tokens: int
    max_mixed_tokens: int
    max_draft_tokens: int
    max_waiting: int
    schedule: str
    max_overtaken: int | None
    attention_tokens: int
    max_position: int
    vocab_size: int
    kv_bytes_per_token: int
    operations_per_token: int
    host_cache_bytes: int
    write_policy: str
    tier_gate: str

    @property
    def pool_tokens(self) -> int:
        """Tokens the whole pool holds."""
        return self.num_pages * self.page_size

    @property
    def max_tokens(self) -> int:
        """The longest a request may become, prompt and answer: it must fit the pool alone."""
        return min(self.max_position, self.pool_tokens)

    @property
    def arithmetic(self) -> str:
        """What decides the bits of K and V, in words; KV of another is other KV."""
        exactness = "exact" if self.exact else "not exact"
        if self.by_transformers:
            exactness += " (computed by transformers)"
        return f"{self.device}, {self.weights} weights, {self.kv} KV, {exactness}"

    def chunk(self, start: int, behind: int, budget: int) -> tuple[int, int]:
        """How many of `behind` tokens from position `start` on fit a step's budget, at least one.

        Returns the count and its cost, in tokens at the beginning of a context: one at position p
        costs 1 + p / attention_tokens. So a step takes as long at the end of a long prompt as at
        its start, and the answers that run meanwhile come evenly.
        """
        slope = 1 / self.attention_tokens
        first = 1 + slope * start  # the cost of the first token; of n: n * first + slope * n²/2
        count = int((math.sqrt(first * first + 2 * slope * budget) - first) / slope)
        count = max(1, min(count, behind))
        return count, math.ceil(count * first + slope * count * count / 2)

    def validate_prompt(self, num_tokens: int, *, at_least: bool = False) -> None:
        """Raise PromptTooLong unless the prompt and one token of answer fit context and pool.

        at_least: the prompt may have more tokens than that.
        """
        limit = self.max_tokens - 1
        if num_tokens > limit:
            limited_by = "context" if self.max_position <= self.pool_tokens else "pool"
            raise PromptTooLong(num_tokens, limit, limited_by, at_least=at_least)

    def validate_tokens(self, tokens: Sequence[int]) -> None:
        """Raise InvalidRequest unless there are tokens, and the model knows all of them."""
        if len(tokens) == 0:
            raise InvalidRequest("the prompt has no tokens; it must have at least one")
        self.validate_ids(tokens)

    def validate_ids(self, tokens: Collection[int]) -> None:
        """Raise InvalidRequest unless the model knows all of these tokens."""
        if not tokens:
            return
        if set(map(type, tokens)) != {int}:
            wrong = next(token for token in tokens if type(token) is not int)
            raise InvalidRequest(f"token id {wrong!r} is not a whole number")
        for token in (min(tokens), max(tokens)):
            if not 0 <= token < self.vocab_size:
                raise InvalidRequest(
                    f"token id {token} is none of the model's, which are 0 to {self.vocab_size - 1}"
                )

    def __str__(self) -> str:
        cache = (
            f"prefix cache, {self.eviction} eviction" if self.prefix_cache else "no prefix cache"
        )
        order = "first come, first served"
        if self.schedule == "lpm" and self.prefix_cache:
            order = "longest prefix first"
            if self.max_overtaken is not None:
                order += f", nobody overtaken more than {self.max_overtaken} times"
        return (
            f"{self.num_pages} pages of {self.page_size} tokens "
            f"({self.pool_tokens * self.kv_bytes_per_token / 2**20:.0f} MiB of KV at most), "
            f"{cache}, context {self.max_position}, {self.threads} threads, {self.arithmetic}, "
            f"{self.max_running} requests and {self.max_step_tokens} tokens a step, "
            f"{self.max_mixed_tokens} beside answers, "
            f"{self.max_draft_tokens} guessed, {order}"
        )


def default_pool_tokens(max_position: int, bytes_per_token: int, memory: int) -> int:
    """Four contexts, or what a quarter of the memory holds."""
    affordable = int(memory * DEFAULT_POOL_MEMORY_SHARE) // bytes_per_token
    return min(DEFAULT_POOL_CONTEXTS * max_position, affordable)


def memory_bytes(device: str = "cpu") -> int:
    """The physical memory of the machine, or of its GPU."""
    if device == "cuda":
        return int(torch.cuda.get_device_properties(0).total_memory)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
