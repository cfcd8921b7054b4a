"""One whole measurement of `bench serve`: find the servers, warm them up, load them, count.

Owns which arms there are and the order of all that. Knows no command line and no table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import click

from radixchat.bench.serve_answer import AskFailed
from radixchat.bench.serve_count import Scored, beaten, score
from radixchat.bench.serve_goals import PEER
from radixchat.bench.serve_process import OwnServer
from radixchat.bench.serve_record import CellRun, Record
from radixchat.bench.serve_run import Settings, play_cell, warm_up
from radixchat.bench.serve_site import HTTP, Arm, Site


@dataclass(frozen=True, slots=True)
class Target:
    """A server to be loaded. url: None starts one of ours, with the model and these flags. model:
    None is the first that it lists. tokenizer: an installed model's; None asks the server."""

    url: str | None
    key: str | None
    model: str | None
    tokenizer: str | None
    flags: tuple[str, ...] = ()

    async def open(self, stack: AsyncExitStack) -> Site:
        """Find it, or start it until the stack ends. Raises AskFailed and ModelLoadError."""
        url, model = self.url, self.model
        if url is None:
            assert model is not None, "our own server needs a model"
            url = (await stack.enter_async_context(OwnServer(model, self.flags))).url
            model = None
        is_fresh = self.url is None
        site = await Site.find(url, self.key, model, self.tokenizer, is_fresh=is_fresh)
        stack.push_async_callback(site.close)
        return site


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """arms: as they were asked. scored: every turn, those of the warm-ups too. beaten: the first
    turn that found more than it can have, in words."""

    arms: tuple[Arm, ...]
    cells: tuple[CellRun, ...]
    scored: Mapping[Record, Scored]
    beaten: str | None


async def measure(
    target: Target,
    peer: Target | None,
    transports: Sequence[str],
    concurrencies: Sequence[int],
    settings: Settings,
) -> Measured:
    """Everything. Raises AskFailed where a server cannot be asked at all, and ModelLoadError."""
    async with AsyncExitStack() as stack:
        site = await target.open(stack)
        arms = [Arm(name, site, name) for name in transports]
        if peer is not None:
            arms.append(Arm(PEER, await peer.open(stack), HTTP))
        warm_ups = []
        for arm in arms:
            try:
                warm_ups.append(await warm_up(arm, settings))
            except AskFailed as error:
                raise AskFailed(f"{arm.name}, {arm.site.url}: {error}") from error
            click.echo(f"{arm.name} is warm", err=True)
        arms = [run.arm for run in warm_ups]
        cells = [await play_cell(arms, settings, each) for each in concurrencies]
        runs = [*warm_ups, *(run for cell in cells for run in cell.arms)]
        scored = await score(runs)
    sites = dict.fromkeys(arm.site for arm in arms)
    found = [
        beaten(each, (scored[r] for run in runs if run.arm.site is each for r in run.records))
        for each in sites
    ]
    first = next((words for words in found if words is not None), None)
    return Measured(tuple(arms), tuple(cells), scored, first)
