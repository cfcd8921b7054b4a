"""The clipboard of whoever sits at the terminal: the desktop's here, or the terminal's own.

Owns which of them it is. A terminal can write its clipboard (OSC 52) wherever the program runs, but
tells nobody what is in it. Knows no answer.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import sys
from dataclasses import dataclass
from typing import TextIO

import pyperclip

from radixchat.server.protocol import InvalidRequest

MAX_TERMINAL_BYTES = 74_994
"""So much fits into the 100,000 bytes of base64 that xterm and others take of one sequence."""
_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Clipboard:
    """terminal: what understands escape sequences; None: nothing does. at_desktop: this machine's
    clipboard is the user's. The methods raise InvalidRequest.
    """

    terminal: TextIO | None
    at_desktop: bool

    @classmethod
    def of_this_process(cls) -> Clipboard | None:
        """None: nobody sits at a terminal of this process."""
        # Answers may be JSON; what is said beside them is none.
        for stream in (sys.stderr, sys.stdout):
            if stream is not None and stream.isatty():
                break
        else:
            return None
        is_remote = any(os.environ.get(name) for name in ("SSH_CONNECTION", "SSH_TTY"))
        has_display = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
        dumb = os.environ.get("TERM", "dumb") in ("dumb", "unknown")
        return cls(None if dumb else stream, has_display or not is_remote)

    async def write(self, text: str) -> str:
        """Put `text` there; where that is, for people."""
        if self.at_desktop:
            # It waits for a program of the desktop, which may hang.
            with contextlib.suppress(pyperclip.PyperclipException, TimeoutError):
                await asyncio.wait_for(asyncio.to_thread(pyperclip.copy, text), _PATIENCE_S)
                return "the clipboard"
        if self.terminal is None:
            raise InvalidRequest("no clipboard can be reached from here")
        data = text.encode("utf-8", "replace")
        if len(data) > MAX_TERMINAL_BYTES:
            raise InvalidRequest(
                f"the text has {len(data):,} bytes, a terminal's clipboard takes "
                f"{MAX_TERMINAL_BYTES:,}; /export md FILE writes a file"
            )
        self.terminal.write(f"\x1b]52;c;{base64.b64encode(data).decode('ascii')}\x07")
        self.terminal.flush()
        return "the terminal's clipboard, if it has one for programs (OSC 52)"

    async def read(self) -> str:
        """What is there."""
        if self.at_desktop:
            with contextlib.suppress(pyperclip.PyperclipException, TimeoutError):
                pasted = asyncio.to_thread(pyperclip.paste)
                return str(await asyncio.wait_for(pasted, _PATIENCE_S))
        raise InvalidRequest(
            "the clipboard cannot be read from here; the terminal's own key for pasting can"
        )
