"""The client's output without a model: shows an answer that is given, piece by piece.

    python -m radixchat.tests.chat_cli.answer_program PIECES [--raw] [--quiet] [--json]

PIECES: a JSON list of strings. After each piece it waits for a key, where standard input is a
terminal, and draws meanwhile, as a turn does. Afterwards come a status line, a note and an error.
"""

from __future__ import annotations

import json
import os
import select
import sys
from dataclasses import replace

from radixchat.chat_cli.exit_codes import BROKEN_PIPE
from radixchat.chat_cli.quiet_terminal import QuietTerminal
from radixchat.chat_cli.render import Answer
from radixchat.chat_cli.streams import STDIN, Streams
from radixchat.chat_cli.turn import TICK_SECONDS
from radixchat.tests.chat_cli.turns import turn

COMMAND = (sys.executable, "-m", "radixchat.tests.chat_cli.answer_program")


def show(streams: Streams, pieces: list[str]) -> None:
    """All of it."""
    answer = streams.output.begin()
    for piece in pieces:
        answer.feed(piece)
        if sys.stdin.isatty():
            await_key(answer)
    answer.close()
    streams.output.conclude(replace(turn(), output_text="".join(pieces)))
    streams.notes.note("a note \x1b[31mof 漢\u202eothers")
    streams.notes.error("an error\rof \x9b2Jothers")


def await_key(answer: Answer) -> None:
    """Until a key is pressed; the answer is drawn."""
    while not select.select([STDIN], [], [], TICK_SECONDS)[0]:
        answer.tick()
    os.read(STDIN, 1)


def main() -> int:
    """The exit code."""
    pieces, flags = json.loads(sys.argv[1]), sys.argv[2:]
    streams = Streams.of_this_process(
        json="--json" in flags, ids=False, raw="--raw" in flags, quiet="--quiet" in flags
    )
    try:
        if sys.stdin.isatty():
            with QuietTerminal(STDIN, None).quiet():
                show(streams, pieces)
        else:
            show(streams, pieces)
    except BrokenPipeError:
        return BROKEN_PIPE
    return 0


if __name__ == "__main__":
    sys.exit(main())
