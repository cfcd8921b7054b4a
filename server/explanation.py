"""`PromptExplainer`: why a prompt was not in the cache, and where its tokens came from.

Fetches both sides of the comparison and has it made beside the loop. Knows no response that runs.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING

from radixchat.engine.request import Usage
from radixchat.server.cache_report import Found, cache_report
from radixchat.server.comparison import closest, load_comparison, load_comparisons
from radixchat.server.miss import AskedPrompt, explain_miss
from radixchat.server.protocol import CacheReport, MissReport
from radixchat.server.response import Explanations
from radixchat.server.turn import Turn

if TYPE_CHECKING:
    from radixchat.server.host import ChatHost


class PromptExplainer:
    """Explains the prompts of one principal's responses."""

    def __init__(self, host: ChatHost, principal: str) -> None:
        self._host = host
        self._principal = principal

    def of(self, response: str, turn: Turn, compared: str | None, *, report: bool) -> Explanations:
        """What can be told of that response's prompt; compared: with which response, if asked."""
        return Explanations(
            functools.partial(self._miss, response, turn, compared),
            functools.partial(self._report, response, turn) if report else None,
        )

    async def _miss(
        self, response: str, turn: Turn, compared: str | None, usage: Usage
    ) -> MissReport | None:
        """Compare a response with the one that was named, or what came before it."""
        host = self._host
        if not host.plan.prefix_cache:
            return None
        path = turn.asked
        asked = AskedPrompt(
            path,
            turn.prompt_ids,
            host.prompts.render_hash,
            self._principal,
            host.began,
            host.plan.page_size,
        )
        load = load_comparisons
        if compared is not None:
            load = functools.partial(load_comparison, compared=compared)
        candidates = await host.database(load, host.store, response, self._principal, path)

        def explain() -> MissReport | None:
            comparison = closest(candidates, asked.token_ids, asked.render_hash)
            layout = host.prompts.layout(path, asked.token_ids)
            return explain_miss(asked, comparison, usage, layout, host.tokenizer)

        return await asyncio.to_thread(explain)

    async def _report(self, response: str, turn: Turn, found: Found) -> CacheReport:
        prompts = self._host.prompts
        return await asyncio.to_thread(
            cache_report, prompts, turn.asked, turn.prompt_ids, found, response
        )
