"""An input line without a chat: says what is entered. For tests in a pseudo-terminal.

Entries that it follows: `ask` asks for one of the keys 1 to 3, `ask later` when a key
that was typed before waits; `multi` is the switch of that name; `draft` begins the next line with
the text of the last entry; `wait` waits as for an answer, to be stopped.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import select
import sys
from pathlib import Path

from rich.console import Console

from radixchat.chat_cli.completion import CommandCompletion
from radixchat.chat_cli.interrupts import Interrupts, Target
from radixchat.chat_cli.notes import Notes
from radixchat.chat_cli.prompt import Prompt, PromptInterrupted
from radixchat.chat_cli.quiet_terminal import QuietTerminal

BOTTOM = "what stands below:"
COMMAND = (sys.executable, "-m", "radixchat.tests.chat_cli.prompt_program")


def say(text: str) -> None:
    """At once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def described(text: str) -> str:
    """What is said of an entry; of a long one only what identifies it."""
    if len(text) <= 200:
        return f"got {text!r}"
    return f"got {len(text)} characters {hashlib.sha256(text.encode()).hexdigest()[:16]}"


async def run(path: Path | None, interrupts: Interrupts) -> None:
    """Read until Ctrl-D."""
    notes = Notes(Console(file=sys.stderr, highlight=False, markup=False))
    dumb = os.environ["TERM"] == "dumb"
    prompt = Prompt(sys.stdout, path, notes, interrupts, dumb=dumb)
    prompt.completion = CommandCompletion(("temperature", "top_p", "top_k"))
    if not dumb:
        prompt.show_below(lambda width: (BOTTOM + "·" * width)[:width])
    terminal = QuietTerminal(0, None if dumb else sys.stdout)
    loop = asyncio.get_running_loop()
    interrupts.on_interrupt = lambda: loop.call_soon_threadsafe(prompt.drop_keys)
    draft = last = ""
    while interrupts.leaving is None:
        try:
            entry = await prompt.read("> ", draft)
        except EOFError:
            return
        except PromptInterrupted:
            say("interrupted")
            continue
        draft = last if entry == "draft" else ""
        if entry == "multi":
            prompt.multiline = not prompt.multiline
        if entry.startswith("ask"):
            with terminal.quiet():
                if entry == "ask later":
                    say("asking later")
                    select.select([0], [], [])
                say(f"chose {await prompt.choose('which?', '123')}")
        if entry == "wait":
            with terminal.quiet(), prompt.keys_kept():
                say("waiting")
                await stopped(interrupts)
            say(f"stopped by {interrupts.stopped_by}")
        say(described(entry))
        last = entry


async def stopped(interrupts: Interrupts) -> None:
    """Until something stops it."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def stop() -> None:
        loop.call_soon_threadsafe(stopping.set)

    with interrupts.directed_to(Target(stop=stop, abandon=stop)):
        await stopping.wait()


def main() -> None:
    """The argument is the history's file; without it there is none."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    idle = Target(stop=lambda: None, abandon=lambda: None)
    with Interrupts(interrupt_leaves=False) as interrupts, interrupts.directed_to(idle):
        asyncio.run(run(path, interrupts))
    raise SystemExit(interrupts.leaving or 0)


if __name__ == "__main__":
    main()
