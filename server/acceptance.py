"""From an ask to a response that is being computed: `Acceptance`.

    ask ─► options read ─► in line ─► place ─► prompt, checked ─► stored ─► engine
           └────────── refused: nothing has changed ──────────┘

Owns the order of these, so that whoever asks is refused before anything is stored, and what is
stored is answered whatever happens to who asked. Knows no socket and no event of the wire.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from radixchat.engine.common_prefix import common_prefix
from radixchat.engine.errors import ConversationLocked, InvalidRequest
from radixchat.engine.hint import Supersede
from radixchat.engine.request import Request
from radixchat.server.answer_record import AnswerRecord
from radixchat.server.asks import (
    ON_BUSY,
    AnotherAnswer,
    Ask,
    EditedTurn,
    EventKey,
    LongerAnswer,
    NewTurn,
)
from radixchat.server.cache_view import CacheView
from radixchat.server.conversation import Conversation, chat_messages
from radixchat.server.explanation import PromptExplainer
from radixchat.server.message import check_text
from radixchat.server.option_reader import AnswerTerms
from radixchat.server.protocol import ResponseCreated, ResponseOptions
from radixchat.server.response import SEQUENCE_RESERVE, LiveResponse
from radixchat.server.response_events import NUM_CLOSING
from radixchat.server.response_log import ResponseLog
from radixchat.server.rows import BegunResponse, ResponseRow
from radixchat.server.truncation import prompt_limit
from radixchat.server.turn import Turn, another_answer, longer_answer, next_turn
from radixchat.server.turn_place import TurnPlace, find_place
from radixchat.server.unfinished_answer import check_begun

if TYPE_CHECKING:
    from radixchat.server.host import ChatHost

# A turn that waits for another process' answer looks so long for its end.
MAX_QUEUE_S = 600.0
MAX_EVENT_ID = 512


@dataclass(frozen=True, slots=True)
class Terms:
    """How a turn is accepted. ChatService.begin says what each field means."""

    event: EventKey | None = None
    on_busy: str = "reject"
    metadata: Mapping[str, str] | None = None
    store: bool = True
    generate: bool = True
    report: bool = False
    detach_s: float | None = None
    compared: str | None = None

    def __post_init__(self) -> None:
        if self.on_busy not in ON_BUSY:
            raise InvalidRequest(f"on_busy is {self.on_busy!r}; allowed: {', '.join(ON_BUSY)}")
        if self.event is not None:
            check_text("the event_id", self.event.event_id)
            if not 0 < len(self.event.event_id) <= MAX_EVENT_ID:
                length = len(self.event.event_id)
                raise InvalidRequest(
                    f"event_id has {length} characters; allowed: 1 to {MAX_EVENT_ID}"
                )


class Acceptance:
    """Accepts the turns of one principal."""

    def __init__(self, host: ChatHost, principal: str, namespace: bytes, cache: CacheView) -> None:
        """cache: the principal's, with the drafts that a turn ends."""
        self._host = host
        self._principal = principal
        self._namespace = namespace
        self._cache = cache
        self._explainer = PromptExplainer(host, principal)

    async def begin(
        self, ask: Ask, options: ResponseOptions, terms: Terms
    ) -> LiveResponse | BegunResponse:
        """The response, stored and running; one that its event has begun before as its row."""
        host, accepted_at = self._host, time.monotonic()
        host.require_accepting()
        if not terms.generate:
            options = replace(
                options, max_output_tokens=1, min_output_tokens=0, stop=(), response_format=None
            )
        key = None if terms.event is None else (terms.event.event_id, _digest(ask, options, terms))
        answer_terms = await host.options.read(options)
        if key is not None:
            begun = await host.database(host.store.begun_by, *key, principal=self._principal)
            if begun is not None:
                return begun
        conversation = _conversation_of(ask)
        waits = terms.on_busy != "reject" and conversation is not None
        # Of two that go on from one response at the same time the later forks, once it looks again.
        may_fork = isinstance(ask, NewTurn) and ask.previous_response is not None
        async with host.lines.turn(conversation, terms.on_busy):
            while True:
                await host.lines.idle(conversation, terms.on_busy)
                try:
                    return await self._begin(ask, answer_terms, terms, key, accepted_at)
                except ConversationLocked as locked:
                    if may_fork:
                        may_fork = False
                        continue
                    if not waits or time.monotonic() > accepted_at + MAX_QUEUE_S:
                        raise
                    # Another process answers it; or one who does not wait was quicker here.
                    if not host.lines.is_busy(conversation):
                        await asyncio.sleep(max(locked.retry_after_ms, 10) / 1000)

    async def resume(self, row: ResponseRow, detach_s: float | None) -> LiveResponse:
        """Go on with a response that is in progress again, from what was saved of it."""
        host = self._host
        options = options_of(row.options)
        path = await host.database(self._path, row)
        prompt = host.prompts.stored_ids(path)
        if prompt is None or row.render_hash != host.prompts.render_hash:
            raise InvalidRequest(
                f"response {row.id} was begun with another model: it cannot go on with this one"
            )
        answer_terms = await host.options.read(options)
        saved = row.saved.token_ids[:-1]  # the last is sampled again: it may have been the end
        host.plan.validate_prompt(len(prompt) + len(saved))
        # Higher than what any process has given out, its end's included; at once also for the next.
        sequence = max(row.sequence, SEQUENCE_RESERVE) + NUM_CLOSING
        await host.save_partial(row.id, row.saved, sequence + SEQUENCE_RESERVE)
        created = ResponseCreated(
            row.conversation,
            row.id,
            message=row.question,
            created_at=row.created_at,
            listed=await host.database(self._is_listed, row.conversation),
            instructions=row.instructions,
            previous_response=row.previous_response,
            options=options,
            metadata=row.metadata,
            left_out=tuple(message.id for message in path.left_out),
            left_out_tokens=path.gap.tokens,
        )
        request = self._request(answer_terms, prompt, row.conversation, ())
        text = request.resume(saved)
        turn = Turn(path, path, None, prompt)
        terms = Terms(generate=row.generates, detach_s=detach_s)
        return self._run(ResponseLog(created, text, sequence), request, turn, terms, text)

    async def _begin(
        self,
        ask: Ask,
        answer_terms: AnswerTerms,
        terms: Terms,
        key: tuple[str, str] | None,
        accepted_at: float,
    ) -> LiveResponse | BegunResponse:
        host = self._host
        find = functools.partial(find_place, kept=terms.store, warms=not terms.generate)
        place = await host.database(find, host.store, self._principal, ask)
        try:
            turn = await asyncio.to_thread(self._turn, place, answer_terms, terms)
            host.plan.validate_prompt(len(turn.prompt_ids) + len(turn.begun))
            answer_terms = answer_terms.after(len(turn.begun))
            host.require_accepting()
        except BaseException:
            await self._give_up(place)
            raise
        task = asyncio.create_task(
            self._store_and_run(place, turn, answer_terms, terms, key, accepted_at)
        )
        host.beginning.add(task)
        task.add_done_callback(host.beginning.discard)
        try:
            # A task of its own: a caller that is cancelled meanwhile must not leave a response in
            # the store that nobody runs. Its conversation would stay locked.
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.add_done_callback(_cancel_begun)
            # Whoever cancelled it may say something else at once: it is stored by then.
            await asyncio.wait({task})
            if task.exception() is None and isinstance(begun := task.result(), LiveResponse):
                await asyncio.wait({begun.task})
            raise
        if task.exception() is not None or isinstance(task.result(), BegunResponse):
            await self._give_up(place)
        return task.result()

    async def _give_up(self, place: TurnPlace) -> None:
        """A conversation that was only made for the turn goes with it."""
        if place.made:
            delete = functools.partial(
                self._host.store.delete_conversation, principal=self._principal
            )
            await self._host.database(delete, place.path.id)

    def _turn(self, place: TurnPlace, answer_terms: AnswerTerms, terms: Terms) -> Turn:
        """What is stored and computed; slow for long texts."""
        prompts, path, options = self._host.prompts, place.whole, answer_terms.options
        if place.begun is not None:
            turn = longer_answer(prompts, path, place.begun)
            check_begun(turn.begun, answer_terms, self._host.tokenizer)
            return turn
        # Before it is encoded, which takes seconds for megabytes.
        least = self._host.tokenizer.least_tokens(place.text or "")
        self._host.plan.validate_prompt(least, at_least=True)
        limit = None
        if options.truncation != "disabled":
            limit = prompt_limit(self._host.n_ctx, options.max_output_tokens)
        if place.text is not None:
            history = path if place.turn is None else path.before_turn(place.turn)
            return next_turn(prompts, path, history, place.text, limit)
        if terms.generate:
            return another_answer(prompts, path, limit)
        return Turn(path, path, None, prompts.render_path(chat_messages(path.shown)))

    async def _store_and_run(
        self,
        place: TurnPlace,
        turn: Turn,
        answer_terms: AnswerTerms,
        terms: Terms,
        key: tuple[str, str] | None,
        accepted_at: float,
    ) -> LiveResponse | BegunResponse:
        host, conversation = self._host, place.path.id
        options = asdict(answer_terms.options) | ({} if terms.generate else {"generate": False})

        begin = functools.partial(
            host.store.begin_response,
            conversation=conversation,
            expected_tip=place.path.tip,
            parent=turn.parent,
            user=turn.message,
            options=options,
            render_hash=host.prompts.render_hash,
            principal=self._principal,
            previous_response=place.previous_response,
            instructions=place.instructions,
            metadata=terms.metadata or {},
            event=key,
            added=[(message.role, message.text) for message in place.added],
        )
        begun = await host.database(begin)
        if begun.replayed:
            return begun
        left = self._leave_branch(turn)
        self._cache.drop_draft(conversation, turn.prompt_ids)
        created = ResponseCreated(
            conversation,
            begun.id,
            left_out=tuple(message.id for message in turn.asked.left_out),
            left_out_tokens=turn.asked.gap.tokens,
            message=begun.question,
            created_at=begun.created_at,
            listed=place.listed,
            instructions=place.instructions,
            previous_response=place.previous_response,
            options=answer_terms.options,
            metadata=terms.metadata or {},
        )
        request = self._request(answer_terms, turn.prompt_ids, conversation, left)
        request.wants_progress = terms.report
        text = request.resume(turn.begun) if turn.begun else ""
        log = ResponseLog(created, text)
        return self._run(log, request, turn, terms, text, accepted_at)

    def _request(
        self,
        terms: AnswerTerms,
        prompt: Sequence[int],
        conversation: str,
        branches: Sequence[Sequence[int]],
    ) -> Request:
        return terms.request(
            next(self._host.request_ids),
            prompt,
            namespace=self._namespace,
            conversation=conversation,
            branches=branches,
        )

    def _run(
        self,
        log: ResponseLog,
        request: Request,
        turn: Turn,
        terms: Terms,
        text: str = "",
        accepted_at: float | None = None,
    ) -> LiveResponse:
        host = self._host
        record = AnswerRecord(
            request,
            host.tokenizer,
            time.monotonic() if accepted_at is None else accepted_at,
            host.n_ctx,
            text=text,
            has_output=terms.generate,
        )
        explanations = self._explainer.of(
            log.created.response, turn, terms.compared, report=terms.report
        )
        response = LiveResponse(
            log=log,
            request=request,
            record=record,
            engine=host.engine,
            sink=host,
            explanations=explanations,
            detach_s=host.disconnect_grace_s if terms.detach_s is None else terms.detach_s,
            generate=terms.generate,
        )
        host.add(response)
        return response

    def _leave_branch(self, turn: Turn) -> list[tuple[int, ...]]:
        """Tell the cache what nobody asks for again: the path's tokens, but for those kept.

        Returns that path, if there is such a branch.
        """
        left = self._host.prompts.stored_ids(turn.path) or ()
        start = common_prefix(left, turn.prompt_ids + turn.begun)
        if start == len(left):
            return []
        self._host.engine.hint(Supersede(left, start, turn.path.id, self._namespace))
        return [left]

    def _path(self, row: ResponseRow) -> Conversation:
        path = self._host.store.path(row.question, principal=self._principal)
        return Conversation(row.conversation, tuple(path))

    def _is_listed(self, conversation: str) -> bool:
        return self._host.store.conversation(conversation, principal=self._principal).listed


def options_of(stored: Mapping[str, Any]) -> ResponseOptions:
    """The options of a stored response; raises InvalidRequest for what this version refuses."""
    return ResponseOptions.from_dict({k: v for k, v in stored.items() if k != "generate"})


def _conversation_of(ask: Ask) -> str | None:
    match ask:
        case EditedTurn(conversation=conversation):
            return conversation
        case AnotherAnswer(conversation=conversation):
            return conversation
        case LongerAnswer(conversation=conversation):
            return conversation
        case _:
            return ask.conversation


def _digest(ask: Ask, options: ResponseOptions, terms: Terms) -> str:
    """Names what was asked, to tell a repetition from a mistake."""
    asked = [type(ask).__name__, asdict(ask), asdict(options), terms.generate, terms.store]
    content = json.dumps(asked, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def _cancel_begun(task: asyncio.Task[LiveResponse | BegunResponse]) -> None:
    if not task.cancelled() and task.exception() is None:
        begun = task.result()
        if isinstance(begun, LiveResponse):
            begun.cancel()
