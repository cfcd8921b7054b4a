"""`ChatHost`: one engine, one store and what runs on them, for every principal of a process.

Owns the responses in memory, the namespaces of the principals, and how it all ends. Knows no
socket, and no conversation: `ChatService` is one principal's view of it.

    ChatService ── ChatService ── ChatService      one a principal, made when it is needed
         └──────────────┼──────────────┘
                    ChatHost ──► EngineThread
                        └──────► Store, on a thread of its own
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

from ulid import ULID

from radixchat.engine.config import EnginePlan
from radixchat.engine.errors import EngineStopped, RadixChatError, ServerDraining
from radixchat.engine.hint import Purge
from radixchat.engine.request import TokenEvent
from radixchat.engine.thread import EngineThread
from radixchat.engine.tiers.disk_forgetting import StoredPath, forget_on_disk
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.conversation_line import ConversationLines
from radixchat.server.message import Answer
from radixchat.server.observer import Observer
from radixchat.server.option_reader import OptionReader
from radixchat.server.prefill_rate import PrefillRate
from radixchat.server.prompt import PromptBuilder
from radixchat.server.protocol import ResponseDone
from radixchat.server.response import LiveResponse
from radixchat.server.rows import ForgottenPath, Outcome
from radixchat.server.service import ChatService
from radixchat.server.store_removal import Removed
from radixchat.server.store_thread import StoreThread

_LOGGER = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

# A response that has ended stays in memory for those who come back in a moment.
KEEP_S = 60.0
# When to try again with a process that is about to stop: another may have begun by then.
DRAINING_RETRY_MS = 2000
SHUTDOWN = "server_shutdown"


class ChatHost:
    """What a process serves with; all of it on one event loop.

    `notices` are sentences a user should see once, such as what the chat template does to the
    cache. boot_id: another one each time, so that a client can tell. observers: who hears what
    happens.
    """

    def __init__(
        self,
        *,
        engine: EngineThread,
        plan: EnginePlan,
        database: StoreThread,
        tokenizer: Tokenizer,
        prompts: PromptBuilder,
        options: OptionReader,
        model_name: str,
        notices: tuple[str, ...],
        namespace_of: Callable[[str], bytes],
        closes_store: bool = True,
        tiers: str = "",
        disk_folder: Path | None = None,
        secret: bytes = b"",
    ) -> None:
        """namespace_of: the root of a principal's KV, which no client can choose.

        closes_store: the store, and its thread, end with this; otherwise somebody goes on with it.
        tiers: what is below the engine's pool, in words. disk_folder: where pages are that this
        engine, or another before it, has kept on the disk; secret: the store's.
        """
        self.model_name = model_name
        self.n_ctx = plan.max_tokens
        self.notices = notices
        self.boot_id = str(ULID())
        self.plan = plan
        self.has_tiers = bool(tiers)
        self._disk_folder = disk_folder
        self._secret = secret
        self.engine_in_words = f"{plan}; below the pool {tiers}" if tiers else str(plan)
        self.engine = engine
        self.store = database.store
        self.tokenizer = tokenizer
        self.prompts = prompts
        self.options = options
        # How long a response goes on when nobody reads it; response.NEVER: to its end.
        self.disconnect_grace_s = 30.0
        self.began = time.time()
        self.observers: list[Observer] = []
        self.prefill_rate = PrefillRate()
        self.request_ids = itertools.count()
        self.running: dict[str, LiveResponse] = {}
        self.beginning: set[asyncio.Task[object]] = set()
        self.lines = ConversationLines(self._running_in)
        self._ended: dict[str, LiveResponse] = {}
        self._database = database
        self._closes_store = closes_store
        self.namespace_of = namespace_of
        self._services: dict[str, ChatService] = {}
        self._is_accepting = True
        self._closing = False
        engine.on_events = self._tokens_came

    def service(self, principal: str) -> ChatService:
        """That principal's view; the same object each time."""
        if principal not in self._services:
            namespace = self.namespace_of(principal)
            self._services[principal] = ChatService(self, principal, namespace)
        return self._services[principal]

    @property
    def failure(self) -> EngineStopped | None:
        """Why the engine does not run; None while it does."""
        return self.engine.failure

    @property
    def is_draining(self) -> bool:
        """Whether it takes no new turns, because it is about to end."""
        return not self._is_accepting

    @property
    def num_running(self) -> int:
        """Responses that have begun and not ended."""
        return len(self.running)

    def live(self, response: str) -> LiveResponse | None:
        """A response that runs, or ended a moment ago."""
        return self.running.get(response) or self._ended.get(response)

    def require_accepting(self) -> None:
        """Raise ServerDraining, or EngineStopped, where no turn can begin."""
        if self._closing:
            raise EngineStopped("the service is closed")
        if not self._is_accepting:
            raise ServerDraining(DRAINING_RETRY_MS)

    def add(self, response: LiveResponse) -> None:
        """Keep a response that has begun until a while after its end; the observers hear of it."""
        self.running[response.id] = response
        for observer in self.observers:
            observer.response_began(response.created)
        response.task.add_done_callback(lambda _: self._end(response))

    def drop(self, response: str) -> None:
        """Keep an ended response no longer: it was deleted."""
        self._ended.pop(response, None)

    def stop_accepting(self) -> None:
        """From now on turns that come raise ServerDraining; what runs goes on."""
        self._is_accepting = False

    async def drain(self, timeout_s: float) -> None:
        """Take nothing new, and return when nothing runs: what does so for longer is cut short.

        Its answer so far is stored as incomplete, "server_shutdown".
        """
        self.stop_accepting()
        give_up = time.monotonic() + timeout_s
        while tasks := {*self.beginning, *(response.task for response in self.running.values())}:
            left = give_up - time.monotonic()
            if left <= 0:
                break
            await asyncio.wait(tasks, timeout=left)
        await self._cancel_all(SHUTDOWN)

    async def close(self) -> None:
        """Cancel and store what runs, then stop the engine and close the store.

        Turns that come later raise EngineStopped. Whatever fails, the rest is closed; then that
        failure is raised. A second time does nothing.
        """
        if self._closing:
            return
        self._closing = True
        async with contextlib.AsyncExitStack() as stack:
            if self._closes_store:
                stack.push_async_callback(self._database.close)
            stack.callback(self.options.close)
            stack.push_async_callback(self._stop_engine)
            await self._cancel_all(SHUTDOWN if self.is_draining else "interrupted")
        self._ended.clear()  # a process that goes on has a use for their memory

    async def database(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it on the store's thread. Raises EngineStopped once that is closed."""
        began = time.monotonic()
        try:
            return await self._database.call(function, *args, **kwargs)
        finally:
            for observer in self.observers:
                observer.database_used(time.monotonic() - began)

    async def forget_on_disk(self, principal: str, paths: Sequence[ForgottenPath]) -> None:
        """Delete what any model has kept of these paths on the disk; a failure is logged."""
        if self._disk_folder is None or not paths:
            return
        stored = [StoredPath(path.token_ids, path.start) for path in paths]
        try:
            await asyncio.to_thread(
                forget_on_disk, self._disk_folder, self._secret, principal, stored
            )
        except (RadixChatError, OSError) as error:
            _LOGGER.warning("what was kept of a deleted conversation is still there: %s", error)

    async def forget_left_over(self) -> None:
        """Delete from the disk what was not to be kept, and was of processes that are gone."""
        await self._forget_all(await self.database(self.store.take_removed))

    async def _stop_engine(self) -> None:
        """Before that it is told what is not to be kept: it keeps on the disk what it has."""
        removed: list[Removed] = []
        try:
            if self._closes_store:  # else they are there as long as that is
                await self.database(self.store.delete_unkept)
            removed = await self.database(self.store.take_removed)
            for one in removed:
                namespace = self.namespace_of(one.principal)
                for path in one.paths:
                    self.engine.hint(Purge(path.token_ids, one.id, namespace, path.start))
        finally:
            await self.engine.stop()
        await self._forget_all(removed)

    async def _forget_all(self, removed: Sequence[Removed]) -> None:
        by_principal: dict[str, list[ForgottenPath]] = {}
        for one in removed:
            by_principal.setdefault(one.principal, []).extend(one.paths)
        for principal, paths in by_principal.items():
            await self.forget_on_disk(principal, paths)

    async def save_partial(self, response: str, answer: Answer, sequence: int) -> None:
        """Keep a running response's answer so far (the LiveResponse calls this)."""
        await self.database(self.store.save_partial, response, answer, sequence)

    async def finish(self, done: ResponseDone, answer: Answer) -> None:
        """Keep a response's final answer (the LiveResponse calls this)."""
        assert done.response is not None, "what runs was accepted"
        outcome = Outcome(
            status=done.status,
            reason=done.reason,
            answer=answer,
            usage=done.usage.to_dict(),
            timings=done.timings.to_dict(done.usage),
            error=done.error.message if done.error else None,
            sequence=done.sequence,
        )
        await self.database(self.store.finish_response, done.response, outcome)
        waited = done.timings.queue_ms or 0.0
        self.prefill_rate.observe(
            done.usage.computed_tokens, (done.timings.prompt_ms or 0.0) - waited
        )

    async def _cancel_all(self, reason: str) -> None:
        while self.beginning or self.running:
            running = list(self.running.values())
            for response in running:
                response.cancel(reason)
            await asyncio.wait({*self.beginning, *(response.task for response in running)})

    def _running_in(self, conversation: str) -> LiveResponse | None:
        for response in self.running.values():
            if response.created.conversation == conversation:
                return response
        return None

    def _end(self, response: LiveResponse) -> None:
        del self.running[response.id]
        done = response.done
        if done is None:
            return  # its task was cancelled: the loop ends
        for observer in self.observers:
            observer.response_ended(done)
        self._ended[response.id] = response
        loop = asyncio.get_running_loop()
        loop.call_later(KEEP_S, self._ended.pop, response.id, None)

    def _tokens_came(self, events: Sequence[TokenEvent]) -> None:
        for observer in self.observers:
            observer.tokens_came(events)
