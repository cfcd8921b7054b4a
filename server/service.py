"""`ChatService`: conversations, turns, edits, regenerations. No socket and no terminal.

Owns the turns that begin and the responses that run; the store and the engine are the only other
state. Every method is called on one event loop; the store is used on one thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import ParamSpec, TypeVar

from radixchat.engine.common_prefix import common_prefix
from radixchat.engine.config import EnginePlan
from radixchat.engine.errors import EngineStopped
from radixchat.engine.hint import Observe, Signal, Supersede
from radixchat.engine.request import Usage
from radixchat.engine.thread import EngineThread
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.comparison import closest, load_comparisons
from radixchat.server.conversation import Conversation
from radixchat.server.message import Answer
from radixchat.server.miss import AskedPrompt, explain_miss
from radixchat.server.option_reader import AnswerTerms, OptionReader
from radixchat.server.prompt import PromptBuilder
from radixchat.server.protocol import (
    MessageView,
    MissReport,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseOptions,
)
from radixchat.server.response import RunningResponse
from radixchat.server.rows import Outcome
from radixchat.server.store import Store
from radixchat.server.truncation import prompt_limit
from radixchat.server.turn import Turn, another_answer, next_turn

P = ParamSpec("P")
T = TypeVar("T")


class ChatService:
    """Answers turns of stored conversations with one engine.

    `notices` are sentences a user should see once, such as what the chat template does to the
    cache.
    """

    def __init__(
        self,
        *,
        engine: EngineThread,
        plan: EnginePlan,
        store: Store,
        database_thread: ThreadPoolExecutor,
        tokenizer: Tokenizer,
        prompts: PromptBuilder,
        options: OptionReader,
        model_name: str,
        notices: tuple[str, ...],
        principal: str,
        namespace: bytes,
    ) -> None:
        """principal, namespace: for whom it answers, and under which root their KV is cached."""
        self.model_name = model_name
        self.n_ctx = plan.max_tokens
        self.notices = notices
        self._engine = engine
        self._plan = plan
        self._store = store
        self._database_thread = database_thread
        self._tokenizer = tokenizer
        self._prompts = prompts
        self._options = options
        self._principal = principal
        self._namespace = namespace
        self._began = time.time()
        self._beginning: set[asyncio.Task[RunningResponse]] = set()
        self._running: dict[str, RunningResponse] = {}
        self._request_ids = itertools.count()
        self._closing = False

    async def create_conversation(self, system: str | None = None) -> str:
        """A new, empty conversation; the system message, if any, heads it."""
        create = self._store.create_conversation
        return await self._database(create, principal=self._principal, system=system)

    async def latest_conversation(self) -> str | None:
        """The conversation used last, in any process."""
        return await self._database(self._store.latest, principal=self._principal)

    async def resolve_conversation(self, id_or_prefix: str) -> str:
        """The full id. Raises ConversationNotFound, saying whether none or several match."""
        resolve = self._store.resolve
        return await self._database(resolve, id_or_prefix, principal=self._principal)

    async def messages(self, conversation: str) -> list[MessageView]:
        """The messages on the path to the tip, oldest first."""
        path = await self._conversation(conversation)
        return [MessageView(m.id, m.role, m.text, m.status) for m in path.messages]

    async def undo(self, conversation: str) -> MessageView:
        """Take the last turn off the conversation; returns the user's message of it.

        Nothing is erased: the messages stay in the tree. Raises InvalidRequest without a turn.
        """
        path = await self._conversation(conversation)
        before = path.before_last_turn()
        move = functools.partial(self._store.move_tip, conversation, principal=self._principal)
        await self._database(move, expected=path.tip, new=before.tip)
        self._leave_branch(path, before.token_ids)
        undone = path.last_user
        assert undone is not None
        return MessageView(undone.id, undone.role, undone.text, undone.status)

    def send(
        self, conversation: str, text: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Append a user message and answer it.

        Yields ResponseCreated once the message is stored, deltas, and one ResponseDone. Raises
        before anything is stored or computed: InvalidRequest (PromptTooLong with both numbers),
        ConversationNotFound, ConversationLocked. Leaving the iteration cancels the response.
        """

        async def turn() -> Turn:
            path = await self._conversation(conversation)
            limit = self._prompt_limit(options)
            return await asyncio.to_thread(next_turn, self._prompts, path, path, text, limit)

        return self._respond(turn, options)

    def edit(
        self, conversation: str, turn: int, text: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Replace the user message of a turn, counted from 1, and answer it; otherwise as send.

        The old branch stays in the tree.
        """

        async def edited() -> Turn:
            path = await self._conversation(conversation)
            before, limit = path.before_turn(turn), self._prompt_limit(options)
            return await asyncio.to_thread(next_turn, self._prompts, path, before, text, limit)

        return self._respond(edited, options)

    def regenerate(
        self, conversation: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Answer the last user message again; otherwise as send. The old answer stays."""

        async def turn() -> Turn:
            path = await self._conversation(conversation)
            limit = self._prompt_limit(options)
            return await asyncio.to_thread(another_answer, self._prompts, path, limit)

        return self._respond(turn, options)

    async def close_conversation(self, conversation: str) -> None:
        """Nobody is about to go on with it: its cached tokens may make room for others' first."""
        self._engine.hint(Observe(conversation, Signal.CLOSED))

    async def cancel(self, response: str) -> None:
        """End a running response; its events then end with status "incomplete"."""
        running = self._running.get(response)
        if running is not None:
            running.cancel()

    async def stats(self) -> dict[str, int | float | str]:
        """How the engine was set up, and its counters since start, for people."""
        snapshot = asdict(self._engine.snapshot)
        return {"engine": str(self._plan), **snapshot.pop("counters"), **snapshot}

    async def close(self) -> None:
        """Cancel and store what runs, then stop the engine and close the store.

        Turns that come later raise EngineStopped. Whatever fails, the rest is closed; then that
        failure is raised. A second time does nothing.
        """
        if self._closing:
            return
        self._closing = True
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self._database_thread.shutdown)
            stack.push_async_callback(self._database, self._store.close)
            stack.callback(self._options.close)
            stack.push_async_callback(self._engine.stop)
            while self._beginning or self._running:
                running = list(self._running.values())
                for response in running:
                    response.cancel()
                await asyncio.wait({*self._beginning, *(response.task for response in running)})

    async def save_partial(self, response: str, answer: Answer) -> None:
        """Keep a running response's answer so far (the RunningResponse calls this)."""
        await self._database(self._store.save_partial, response, answer)

    async def finish(self, done: ResponseDone, answer: Answer) -> None:
        """Keep a response's final answer (the RunningResponse calls this)."""
        assert done.response is not None, "what runs was accepted"
        outcome = Outcome(
            status=done.status,
            reason=done.reason,
            answer=answer,
            usage=done.usage.to_dict(),
            timings=done.timings.to_dict(done.usage),
            error=done.error.message if done.error else None,
        )
        await self._database(self._store.finish_response, done.response, outcome)

    def _prompt_limit(self, options: ResponseOptions) -> int | None:
        """The longest prompt that keeps every turn; None where none may be left out."""
        if options.truncation == "disabled":
            return None
        return prompt_limit(self.n_ctx, options.max_output_tokens)

    async def _respond(
        self, prepare: Callable[[], Awaitable[Turn]], options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Prepare, store and run a turn, and hand on its events.

        One generator and no chain of them, so that leaving it is seen here, at once.
        """
        accepted_at = time.monotonic()
        terms = await self._options.read(options)
        turn = await prepare()
        self._plan.validate_prompt(len(turn.prompt_ids))
        if self._closing:
            raise EngineStopped("the service is closed")
        beginning = asyncio.create_task(self._begin(turn, terms, accepted_at))
        self._beginning.add(beginning)
        beginning.add_done_callback(self._beginning.discard)
        try:
            await asyncio.wait({beginning})
            async with contextlib.aclosing(beginning.result().events()) as events:
                async for event in events:
                    yield event
        finally:
            await leave(beginning)

    async def _begin(self, turn: Turn, terms: AnswerTerms, accepted_at: float) -> RunningResponse:
        """Store the turn and start its response.

        A task of its own: a caller that is cancelled meanwhile must not leave a response in the
        store that nobody runs. Its conversation would stay locked as long as this process lives.
        """
        begun = await self._database(
            self._store.begin_response,
            conversation=turn.path.id,
            expected_tip=turn.path.tip,
            parent=turn.parent,
            user=turn.message,
            options=asdict(terms.options),
            render_hash=self._prompts.render_hash,
            principal=self._principal,
        )
        response_id = begun.id
        left = self._leave_branch(turn.path, turn.prompt_ids)
        response = RunningResponse(
            created=ResponseCreated(
                turn.path.id,
                response_id,
                left_out=tuple(message.id for message in turn.asked.left_out),
                left_out_tokens=turn.asked.gap.tokens,
            ),
            request=terms.request(
                next(self._request_ids),
                turn.prompt_ids,
                namespace=self._namespace,
                conversation=turn.path.id,
                branches=left,
            ),
            accepted_at=accepted_at,
            engine=self._engine,
            tokenizer=self._tokenizer,
            n_ctx=self.n_ctx,
            sink=self,
            explain=functools.partial(self._explain_miss, response_id, turn),
        )
        self._running[response_id] = response
        response.task.add_done_callback(lambda _: self._running.pop(response_id))
        return response

    def _leave_branch(self, path: Conversation, kept: Sequence[int]) -> list[tuple[int, ...]]:
        """Tell the cache what nobody asks for again: the path's tokens, but for those kept.

        Returns that path, if there is such a branch.
        """
        left = self._prompts.stored_ids(path) or ()
        start = common_prefix(left, kept)
        if start == len(left):
            return []
        self._engine.hint(Supersede(left, start, path.id, self._namespace))
        return [left]

    async def _explain_miss(self, response: str, turn: Turn, usage: Usage) -> MissReport | None:
        """Compare a response with what came before it in its conversation."""
        if not self._plan.prefix_cache:
            return None
        path = turn.asked
        asked = AskedPrompt(
            path, turn.prompt_ids, self._prompts.render_hash, self._principal, self._began
        )

        candidates = await self._database(
            load_comparisons, self._store, response, self._principal, path
        )

        def explain() -> MissReport | None:
            comparison = closest(candidates, asked.token_ids, asked.render_hash)
            layout = self._prompts.layout(path, asked.token_ids)
            return explain_miss(asked, comparison, usage, layout, self._tokenizer)

        return await asyncio.to_thread(explain)

    async def _conversation(self, conversation: str) -> Conversation:
        def load() -> Conversation:
            self._store.settle(conversation)
            tip = self._store.conversation(conversation, principal=self._principal).tip
            return Conversation(
                conversation, tuple(self._store.path(tip, principal=self._principal))
            )

        return await self._database(load)

    async def _database(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        call = functools.partial(function, *args, **kwargs)
        try:
            called = loop.run_in_executor(self._database_thread, call)
        except RuntimeError as error:  # the thread has been shut down
            raise EngineStopped("the service is closed") from error
        return await called


async def leave(beginning: asyncio.Task[RunningResponse]) -> None:
    """Cancel a turn, and return when it is stored; one that has ended stays as it is.

    One that is only being begun is cancelled as soon as it is, even if this wait is cancelled too.
    """

    def cancel(begun: asyncio.Task[RunningResponse]) -> None:
        if not begun.cancelled() and begun.exception() is None:
            begun.result().cancel()

    beginning.add_done_callback(cancel)
    await asyncio.wait({beginning})
    if beginning.exception() is None:
        await asyncio.wait({beginning.result().task})
