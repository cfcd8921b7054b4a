"""`CacheView`: one principal's look at the cache, and what is computed while a message is typed.

Asks the engine between two of its steps; only a draft changes anything. Knows no store.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from radixchat.engine.common_prefix import common_prefix
from radixchat.engine.hint import Observe, Purge, Signal
from radixchat.engine.request import Request
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.tiers.outlook import outlook
from radixchat.server.cache_report import cache_report
from radixchat.server.conversation import Conversation, chat_messages
from radixchat.server.draft import Draft, certain_tokens
from radixchat.server.message import Message, check_text
from radixchat.server.protocol import CacheNode, CacheReport, CacheTree, TreeMessage
from radixchat.server.response_options import MAX_PRIORITY
from radixchat.server.response_usage import SOURCES
from radixchat.server.token_texts import TokenTexts
from radixchat.server.tree_warmth import Branch, branches, cached_tokens

if TYPE_CHECKING:
    from radixchat.engine.engine import Engine
    from radixchat.server.host import ChatHost

# As many nodes as a person can make out, and a page can draw.
MAX_NODES = 500
# Of a conversation's branches, looked up between two steps of the engine: two milliseconds.
TOKENS_AT_ONCE = 1 << 17
# After everything that anybody asks for.
DRAFT_PRIORITY = -MAX_PRIORITY - 1


class CacheView:
    """The cache below one namespace."""

    def __init__(self, host: ChatHost, namespace: bytes) -> None:
        self._host = host
        self._namespace = namespace
        self._drafts: dict[str, Draft] = {}  # the last of each conversation

    async def inspect(
        self, path: Conversation, text: str, turn: int | None = None, *, texts: bool = False
    ) -> CacheReport:
        """Of the prompt that `text` after the path would be; without text, of the path itself.

        turn: of the prompt that ends with that turn instead, as `text`, or without that as it is;
        then no segment tells its message, unless there are texts. texts: with each segment's text.
        """
        asked, prompt = await asyncio.to_thread(self._prompt, path, text, turn)
        if turn is not None and not texts:
            # Who wants to know what an edit costs asks once a turn: to find the borders of a long
            # prompt that was rendered as a whole takes seconds.
            asked = Conversation(path.id, ())
        namespace = self._namespace
        spans = await self._host.engine.ask(
            lambda engine: outlook(engine.cache, engine.tiers, prompt, namespace)
        )
        found = [(SOURCES[span.tier], span.end - span.start) for span in spans]
        named = TokenTexts(self._host.tokenizer) if texts else None
        report = await asyncio.to_thread(
            cache_report, self._host.prompts, asked, prompt, found, texts=named
        )
        computing_ms = self._host.prefill_rate.predict(len(prompt) - report.cached_tokens)
        return replace(report, computing_ms=computing_ms)

    async def warm(
        self, tree: Sequence[TreeMessage], messages: Sequence[Message]
    ) -> list[TreeMessage]:
        """The tree with each message's tokens, and how many of them are cached."""
        found: dict[str, tuple[int, int]] = {}
        walk = branches(messages, self._host.prompts.render_hash)
        while some := await asyncio.to_thread(_next_branches, walk):
            asked: list[Branch] = []
            for branch in some:
                tokens, cached = found.get(branch.after or "", (0, 0))
                if cached < tokens:  # nor is what comes after that
                    found |= cached_tokens(branch, 0)
                else:
                    asked.append(branch)
            if not asked:
                continue
            prompts = [branch.token_ids for branch in asked]
            lengths = await self._host.engine.ask(functools.partial(self._lengths, prompts))
            for branch, length in zip(asked, lengths, strict=True):
                found |= cached_tokens(branch, length)
        return await asyncio.to_thread(_with_shares, tree, found)

    def _lengths(self, prompts: Sequence[Sequence[int]], engine: Engine) -> list[int]:
        """How much of each prompt is in the pool, or would come back to it."""
        cache, lengths = engine.cache, []
        for prompt in prompts:
            # A path of a tree is no prompt yet: something follows its last token.
            spans = outlook(cache, engine.tiers, (*prompt, 0), self._namespace)
            lengths.append(spans[-1].end if spans else 0)
        return lengths

    async def tree(self, path: Conversation | None) -> CacheTree:
        """The nodes of the namespace; those of the path are marked."""
        tokens = () if path is None else (self._host.prompts.stored_ids(path) or ())
        namespace = self._namespace
        seen = await self._host.engine.ask(
            lambda engine: engine.picture(tokens, namespace, MAX_NODES)
        )
        nodes = tuple(
            CacheNode(
                id=index,
                parent=view.parent,
                start=view.start,
                tokens=view.end - view.start,
                seconds_idle=0.0 if view.last_use is None else max(0.0, seen.now - view.last_use),
                superseded=view.superseded,
                locked=view.locked,
                tier="memory",
                on_path=view.on_path > 0,
            )
            for index, view in enumerate(seen.nodes)
        )
        return CacheTree(
            nodes, seen.pool_tokens, seen.cached_tokens, seen.free_tokens, seen.left_out
        )

    async def draft(self, path: Conversation, revision: int, text: str) -> int:
        """ChatService.draft says what this does."""
        old = self._drafts.get(path.id)
        if old is not None and old.revision >= revision:
            return 0
        self._check(text)
        if not text.strip():
            self.drop_draft(path.id)
            return 0
        tokens = await asyncio.to_thread(certain_tokens, self._host.prompts, path, text)
        old = self._drafts.get(path.id)  # another may have come meanwhile
        if old is not None and old.revision >= revision:
            return 0
        self._host.plan.validate_prompt(len(tokens))
        request = Request(
            next(self._host.request_ids),
            list(tokens),
            SamplingParams(temperature=0, max_tokens=1),
            namespace=self._namespace,
            conversation=path.id,
            priority=DRAFT_PRIORITY,
        )
        if old is not None:
            self._forget(path.id, old, tokens)
        history = len(self._host.prompts.stored_ids(path) or ())
        self._drafts[path.id] = Draft(revision, request.id, tokens, history)
        self._host.engine.hint(Observe(path.id, Signal.TYPING))
        async for event in self._host.engine.generate(request):
            if event.token is not None:
                return len(tokens)
        return 0  # it was cancelled

    def drop_draft(self, conversation: str, kept: Sequence[int] = ()) -> None:
        """End it, and forget what it has computed; kept: but for what this prompt begins with."""
        draft = self._drafts.pop(conversation, None)
        if draft is not None:
            self._forget(conversation, draft, kept)

    def _check(self, text: str) -> None:
        """Raises InvalidRequest, before a text is encoded, which takes seconds for megabytes."""
        check_text("the message", text)
        self._host.plan.validate_prompt(self._host.tokenizer.least_tokens(text), at_least=True)

    def _forget(self, conversation: str, draft: Draft, kept: Sequence[int]) -> None:
        self._host.engine.cancel(draft.request)
        start = max(common_prefix(draft.tokens, kept), draft.history)
        if start < len(draft.tokens):
            self._host.engine.hint(Purge(draft.tokens, conversation, self._namespace, start))

    def _prompt(
        self, path: Conversation, text: str, turn: int | None
    ) -> tuple[Conversation, tuple[int, ...]]:
        prompts = self._host.prompts
        self._check(text)
        if turn is not None:
            text = text if text.strip() else path.user_message(turn).text
            path = path.before_turn(turn)
        if text.strip():
            said = prompts.user_turn(path, text)
            return path.said(said.message, prompts.render_hash), said.prompt_ids
        stored = prompts.stored_ids(path)
        if stored is not None or not path.messages:
            return path, stored or ()
        return path, prompts.render_path(chat_messages(path.shown))


def _next_branches(walk: Iterator[Branch]) -> list[Branch]:
    """As many as are looked up at once; none: there are no more."""
    some: list[Branch] = []
    room = TOKENS_AT_ONCE
    while room > 0 and (branch := next(walk, None)) is not None:
        some.append(branch)
        room -= len(branch.token_ids)
    return some


def _with_shares(
    tree: Sequence[TreeMessage], shares: Mapping[str, tuple[int, int]]
) -> list[TreeMessage]:
    nothing = (None, None)
    return [
        replace(message, tokens=tokens, cached=cached)
        for message in tree
        for tokens, cached in (shares.get(message.id, nothing),)
    ]
