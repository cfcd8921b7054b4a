"""A reader whose connection is cut again and again, for the tests: what it has in the end counts.

It does what a client is to do: it keeps its place, comes back with it, puts each delta where its
offset says, and asks again by the same event id where it never heard of a response.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from radixchat.tests.server.sockets import TERMINAL, Address, Client, Event, text_of


@dataclass(slots=True)
class InterruptedReader:
    """One answer, read over as many connections as it takes.

    ask: the fields of its response.create. cuts: after how many events each connection is cut; the
    one after the last cut is left alone.
    """

    server: Address
    ask: dict[str, Any]
    cuts: list[int]
    response: str | None = None
    place: int = -1
    text: str = ""
    ends: list[Event] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)
    resume: dict[str, Any] = field(default_factory=dict)
    num_cut: int = 0

    async def read(self) -> str:
        """The answer's text, once its end has come; held to what the terminal event says."""
        for cut in [*self.cuts, None]:
            await self.connect(cut)
            if self.ends:
                break
        assert len(self.ends) == 1, "one end"
        assert self.text == text_of(self.ends[0]), "what came is what was answered"
        return self.text

    async def connect(self, cut: int | None = None) -> None:
        """Read over one connection, until the end or the cut."""
        async with self.server.client() as client:
            await self._read(client, cut)

    async def _read(self, client: Client, cut: int | None) -> None:
        if self.response is None:
            await client.send("response.create", **self.ask)
        else:
            await client.send(
                "response.resume",
                response_id=self.response,
                starting_after=self.place,
                **self.resume,
            )
        events = 0
        while not self.ends and (cut is None or events < cut):
            self._take(await client.receive())
            events += 1
        if not self.ends:
            await asyncio.sleep(random.random() / 100)
            await client.hang_up()
            self.num_cut += 1

    def _take(self, event: Event) -> None:
        assert event["type"] != "error", event
        match event["type"]:
            case "response.created":
                assert self.response in (None, event["response"]["id"])
                self.response = event["response"]["id"]
            case "response.resumed":
                self.modes.append(event["mode"])
            case "response.snapshot":
                assert event["sequence_number"] >= self.place
                self.text = event["output_text"]
            case "response.output_text.delta":
                assert event["x"]["offset"] <= len(self.text), "a gap"
                self.text = self.text[: event["x"]["offset"]] + event["delta"]
        if "sequence_number" in event:
            assert event["sequence_number"] > self.place, "nothing comes twice"
            self.place = event["sequence_number"]
        if event["type"] in TERMINAL:
            self.ends.append(event)
