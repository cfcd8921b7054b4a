"""A run of `bench serve`: every round through every arm in turn, and a cold one at the end.

Owns who is asked what and when. In a round each conversation takes one turn, so many at a time, and
the next round begins when all have been answered. Knows no oracle and no table.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import click

from radixchat.bench.serve_answer import Answer, AskFailed, Client, OptionRefused, Question
from radixchat.bench.serve_load import Round, ServeLoad, front_number
from radixchat.bench.serve_record import ArmRun, CellRun, Record, Turn
from radixchat.bench.serve_site import HTTP, Arm

COLD = "cold"


@dataclass(frozen=True, slots=True)
class Settings:
    """Of a whole run. timeout: seconds that an answer may take."""

    load: ServeLoad
    seed: int
    timeout: float
    has_cold: bool


class _Player:
    """One arm in one cell: its users, and what they have said so far."""

    def __init__(self, arm: Arm, settings: Settings, clients: Sequence[Client], cell: str) -> None:
        self.arm = arm
        self._settings = settings
        self._clients = clients
        number = front_number(settings.seed, cell, arm.name)
        self._system = settings.load.system_prompt(number)
        self._talks: dict[tuple[int, str], Record] = {}  # by conversation and round
        self._records: list[Record] = []
        self._busy = 0.0

    @property
    def run(self) -> ArmRun:
        """What has been asked so far."""
        records = sorted(self._records, key=lambda each: each.sent)
        return ArmRun(self.arm, tuple(records), self._busy)

    async def play(self, step: Round, concurrency: int) -> None:
        """One turn of every conversation that has had the one before."""
        turns = []
        for number in range(self._settings.load.conversations):
            message = self._settings.load.message_of(number, step)
            if step.after is None:
                turns.append(Turn(number, step, None, (self._system, message)))
            elif (parent := self._talks.get((number, step.after))) is not None:
                turns.append(parent.followed_by(step, message))
        await self.send(turns, concurrency)

    async def send(self, turns: Sequence[Turn], concurrency: int) -> None:
        """Ask them in order, at most so many at a time, and wait for all answers."""
        began = time.perf_counter()
        gate = asyncio.Semaphore(concurrency)
        await asyncio.gather(*(self._ask(turn, gate) for turn in turns))
        self._busy += time.perf_counter() - began

    async def _ask(self, turn: Turn, gate: asyncio.Semaphore) -> None:
        before = turn.parent.answer if turn.parent is not None else None
        response = before.response if before is not None else None
        question = Question(turn.messages, response, self._settings.load.answer)
        async with gate:
            sent = time.perf_counter()
            try:
                answer = await self._in_time(self._clients[turn.conversation], question)
            except AskFailed as error:
                self._records.append(Record(turn, sent, None, error))
                return
        record = Record(turn, answer.sent, answer)
        self._records.append(record)
        self._talks[turn.conversation, turn.step.name] = record

    async def _in_time(self, client: Client, question: Question) -> Answer:
        try:
            async with asyncio.timeout(self._settings.timeout):
                return await client.ask(question)
        except TimeoutError as error:
            await client.close()
            raise AskFailed(f"no answer within {self._settings.timeout:g} s") from error


async def warm_up(arm: Arm, settings: Settings) -> ArmRun:
    """Two turns of the load's shape that count nowhere, on texts of their own.

    The arm of what is returned is plain where the server refuses other options. Raises AskFailed.
    """
    load = replace(settings.load, conversations=1, turns=2, edit=False)
    failure = AskFailed("nothing was asked")
    for attempt in (arm, replace(arm, is_plain=True)):
        async with _players([attempt], replace(settings, load=load), "warm-up") as (player,):
            for step in load.rounds():
                await player.play(step, 1)
        error = player.run.records[-1].error
        if error is None:
            return player.run
        failure = error
        if not isinstance(error, OptionRefused):
            break
    raise failure


async def play_cell(arms: Sequence[Arm], settings: Settings, concurrency: int) -> CellRun:
    """Every round through every arm; the arms take turns at being first. Then the cold one."""
    cell = f"{concurrency} at a time"
    async with _players(arms, settings, cell) as players:
        for index, step in enumerate(settings.load.rounds()):
            for player in players if index % 2 else players[::-1]:
                await player.play(step, concurrency)
            click.echo(f"{cell}: round {step.name} is done", err=True)
    runs = [player.run for player in players]
    if settings.has_cold:
        runs.append(await _play_cold(runs[0], settings, concurrency, cell))
        click.echo(f"{cell}: {COLD} is done", err=True)
    return CellRun(concurrency, tuple(runs))


async def _play_cold(warm: ArmRun, settings: Settings, concurrency: int, cell: str) -> ArmRun:
    """What the warm arm was asked, each time with a number of its own at the front.

    After it, for it would push what the others have cached out of a small cache.
    """
    load, arm = settings.load, replace(warm.arm, name=COLD, transport=HTTP)
    async with _players([arm], settings, cell) as (player,):
        for step in load.rounds():
            turns = []
            for turn in (each.turn for each in warm.records if each.turn.step == step):
                names = (cell, COLD, str(turn.conversation), step.name)
                system = load.system_prompt(front_number(settings.seed, *names))
                messages = (system, *turn.messages[1:])
                turns.append(replace(turn, parent=None, messages=messages))
            await player.send(turns, concurrency)
    return player.run


@asynccontextmanager
async def _players(
    arms: Sequence[Arm], settings: Settings, cell: str
) -> AsyncIterator[list[_Player]]:
    """Their users hang up afterwards."""
    clients = [[arm.client() for _ in range(settings.load.conversations)] for arm in arms]
    try:
        yield [
            _Player(arm, settings, users, cell) for arm, users in zip(arms, clients, strict=True)
        ]
    finally:
        for users in clients:
            for client in users:
                await client.close()
