"""One way to show an answer, measured: its CPU time, how far it lags behind, the first token.

Owns how an answer is fed. Knows no table and no goal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import TextIO, cast

from rich.console import Console

from radixchat.bench.percentiles import Percentiles
from radixchat.bench.render_screen import PtyScreen, SkippingClock
from radixchat.chat_cli.client import ChatClient
from radixchat.chat_cli.interrupts import Interrupts
from radixchat.chat_cli.markdown_answer import MarkdownAnswer
from radixchat.chat_cli.notes import Notes
from radixchat.chat_cli.render import Answer, PlainAnswer, TextOutput
from radixchat.chat_cli.turn import TICK_SECONDS, Turn, failed
from radixchat.server.protocol import (
    ErrorInfo,
    OutputTextDelta,
    ResponseCreated,
    ResponseEvent,
)

COLUMNS, ROWS = 80, 24

Arm = Callable[[PtyScreen, Callable[[], float]], Answer]
"""Begins an answer on a screen, with a clock."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer that was shown.

    cpu_s: of this process, from its first piece to its end, the terminal's driver included.
    lag_ms: from a piece's arrival to the end of the write that shows it.
    """

    cpu_s: float
    num_bytes: int
    num_writes: int
    lag_ms: Percentiles


def markdown(screen: PtyScreen, clock: Callable[[], float]) -> Answer:
    """As a terminal shows it."""
    return MarkdownAnswer(_console(screen), live=True, clock=clock)


def plain(screen: PtyScreen, clock: Callable[[], float]) -> Answer:
    """As it is printed where there is no Markdown."""
    return PlainAnswer(_text_stream(screen))


def show(pieces: Sequence[str], rate: float | None, arm: Arm) -> Shown:
    """The pieces, `rate` a second; None: one after the other, without a pause.

    Time in which nothing happens is skipped, all other time is real.
    """
    clock = SkippingClock()
    lags: list[float] = []
    waiting: list[float] = []
    with PtyScreen(COLUMNS, ROWS) as screen:
        answer = arm(screen, clock.now)
        begun, cpu, writes = clock.now(), time.process_time(), screen.num_writes

        def note() -> None:
            nonlocal writes
            if screen.num_writes > writes:
                lags.extend(clock.now() - arrival for arrival in waiting)
                waiting.clear()
                writes = screen.num_writes

        for number, piece in enumerate(pieces):
            if rate is not None:
                while clock.now() + TICK_SECONDS < begun + number / rate:
                    clock.wait_until(clock.now() + TICK_SECONDS)
                    answer.tick()
                    note()
                clock.wait_until(begun + number / rate)
            waiting.append(clock.now() if rate is None else begun + number / rate)
            answer.feed(piece)
            note()
        answer.close()
        note()
        cpu = time.process_time() - cpu
        milliseconds = [1000 * lag for lag in lags]
        return Shown(cpu, screen.num_bytes, screen.num_writes, Percentiles.of(milliseconds))


def first_token_ms(repeats: int) -> list[float]:
    """From the event of an answer's first token to its first character on the terminal.

    Through everything between: the turn that reads the events, the output, the terminal.
    """
    return [asyncio.run(_first_token(number)) for number in range(repeats)]


async def _first_token(number: int) -> float:
    token = f"token{number}"
    times: list[float] = []
    with PtyScreen(COLUMNS, ROWS) as screen, Interrupts(interrupt_leaves=False) as interrupts:

        async def events() -> AsyncGenerator[ResponseEvent]:
            yield ResponseCreated("conv_bench", "resp_bench")
            await asyncio.sleep(TICK_SECONDS)  # the mark of waiting is on the screen
            begun = time.perf_counter()
            yield OutputTextDelta("resp_bench", token, 1)
            times.append(time.perf_counter() - begun)
            assert token.encode() in screen.shown, screen.shown
            yield failed("conv_bench", "resp_bench", ErrorInfo("server_error", 500, "over", {}))

        notes = Notes(Console(file=_text_stream(screen)), quiet=True)
        output = TextOutput(_console(screen), notes)
        client = cast(ChatClient, None)  # only a turn that is stopped asks for one
        await Turn(client, "conv_bench", events(), output, interrupts, lambda _: None).run()
    (seconds,) = times
    return 1000 * seconds


def _console(screen: PtyScreen) -> Console:
    """A console as the client makes its own, of a terminal with colours whatever TERM says."""
    return Console(
        file=_text_stream(screen),
        highlight=False,
        markup=False,
        emoji=False,
        force_terminal=True,
        color_system="256",
        width=COLUMNS,
        height=ROWS,
    )


def _text_stream(screen: PtyScreen) -> TextIO:
    return cast(TextIO, screen)
