"""What is typed while an answer streams: read at once, and kept in order for the next prompt.

Owns that reading, and what Esc is then. A terminal that nobody reads takes 4 KB, and behind them no
Ctrl-C either. Knows no modes of the terminal and no answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Callable, Iterator

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import clear_typeahead, get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

MOST_KEYS = 1 << 16
"""A paste is one key; where a terminal does not say that it is one, each of its characters."""
ESCAPE_SECONDS = 0.1
"""Keys that begin with Esc come in one piece; what does not go on for so long was Esc alone."""
_BACKGROUND_SECONDS = 0.2


class TypeAhead:
    """The keys of `terminal` that came before they were asked for.

    dropped: how many came beyond MOST_KEYS since `kept` began.
    """

    def __init__(self, terminal: Input) -> None:
        self.dropped = 0
        self._terminal = terminal
        self._room = MOST_KEYS
        self._escape: Callable[[], object] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def kept(self, escape: Callable[[], object]) -> Iterator[None]:
        """Read while the block runs, in an event loop. escape: is called for Esc alone."""
        self._escape = escape
        self._room, self.dropped = MOST_KEYS, 0
        self._begin()
        try:
            yield
        finally:
            self._end()
            self._escape = None

    @contextlib.contextmanager
    def left_alone(self) -> Iterator[None]:
        """Somebody else reads while the block runs, in one of `kept` or not."""
        if self._escape is None:
            yield
            return
        self._end()
        try:
            yield
        finally:
            self._begin()

    @property
    def has_keys(self) -> bool:
        """Whether there are any."""
        keys = get_typeahead(self._terminal)
        store_typeahead(self._terminal, keys)
        return bool(keys)

    def drop(self) -> None:
        """Forget them, what nobody has read yet, too."""
        if self._escape is not None and self._is_ours():
            self._terminal.read_keys()
        clear_typeahead(self._terminal)
        self._room = MOST_KEYS

    def _begin(self) -> None:
        asyncio.get_running_loop().add_reader(self._terminal.fileno(), self._read)

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._terminal.fileno())
        self._cancel_timer()
        if self._is_ours():
            self._keep(self._terminal.read_keys())
        # An Esc that is still doubtful belongs to no key of the next prompt.
        self._flush()

    def _read(self) -> None:
        self._cancel_timer()
        loop = asyncio.get_running_loop()
        if not self._is_ours():
            loop.remove_reader(self._terminal.fileno())
            self._timer = loop.call_later(_BACKGROUND_SECONDS, self._begin)
            return
        self._keep(self._terminal.read_keys())
        if self._terminal.closed:
            loop.remove_reader(self._terminal.fileno())
        else:
            self._timer = loop.call_later(ESCAPE_SECONDS, self._flush)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _flush(self) -> None:
        """Nothing has come for a while."""
        keys = self._terminal.flush_keys()
        if [pressed.key for pressed in keys] == [Keys.Escape]:
            assert self._escape is not None
            self._escape()
        else:
            self._keep(keys)

    def _keep(self, keys: list[KeyPress]) -> None:
        kept = keys[: self._room]
        self._room -= len(kept)
        self.dropped += len(keys) - len(kept)
        store_typeahead(self._terminal, kept)

    def _is_ours(self) -> bool:
        """Whether a read gets keys: in the background it would stop this process."""
        try:
            return os.tcgetpgrp(self._terminal.fileno()) == os.getpgrp()
        except OSError as error:
            return error.errno == errno.ENOTTY  # it has no foreground; else it is gone
