"""What the keys of the input line do, beside those that prompt_toolkit has from readline.

Owns these keys. Knows no command: what Tab offers and what Enter sends are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus, has_selection
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from radixchat.chat_cli.completion import Candidates
from radixchat.chat_cli.line_drawing import length_after, length_before


class PromptInterrupted(Exception):
    """Ctrl-C at an empty input line, or a signal."""


@dataclass(frozen=True, slots=True)
class KeyActions:
    """What keys need that the line has not.

    sends: whether Enter sends a line; otherwise it begins another. paste: what is put into the line
    for a pasted text. candidates: how a line could go on; show_candidates shows several, edit opens
    the line in an editor, both after the key.
    """

    sends: Callable[[str], bool]
    paste: Callable[[str], str]
    candidates: Callable[[str], Candidates]
    show_candidates: Callable[[Candidates], None]
    edit: Callable[[Buffer], None]


def key_bindings(actions: KeyActions) -> KeyBindings:
    """The bindings of the line; while the history is searched, keys are the search's."""
    keys = KeyBindings()
    in_line = has_focus(DEFAULT_BUFFER)
    _bind_sending(keys, actions)
    _bind_steps(keys)

    @keys.add("c-c", filter=in_line)
    def _interrupt(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=PromptInterrupted())

    @keys.add(Keys.BracketedPaste, filter=in_line)
    def _paste(event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        event.current_buffer.insert_text(actions.paste(text))

    @keys.add("tab", filter=in_line)
    def _complete(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.cursor_position < len(buffer.text):
            return
        found = actions.candidates(buffer.text)
        typed = buffer.text[found.start :]
        if found.common not in ("", typed) and len(found.common) >= len(typed):
            buffer.insert_text(found.common[len(typed) :])
        elif len(found.texts) > 1:
            actions.show_candidates(found)

    @keys.add("c-x", "c-e", filter=in_line)
    @keys.add("c-g", filter=in_line & ~has_selection)
    def _edit(event: KeyPressEvent) -> None:
        actions.edit(event.current_buffer)

    return keys


def _bind_sending(keys: KeyBindings, actions: KeyActions) -> None:
    in_line = has_focus(DEFAULT_BUFFER)

    @Condition
    def sends() -> bool:
        return actions.sends(get_app().current_buffer.text)

    @keys.add("enter", filter=in_line & sends)
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("enter", filter=in_line & ~sends)
    @keys.add("escape", "enter", filter=in_line & sends)
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("escape", "enter", filter=in_line & ~sends)
    def _send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()


def _bind_steps(keys: KeyBindings) -> None:
    """One step is what is drawn as one: an emoji of five code points, an accent with its letter."""
    in_line = has_focus(DEFAULT_BUFFER)

    @keys.add("left", filter=in_line)
    @keys.add("c-b", filter=in_line)
    def _left(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        for _ in range(event.arg):
            buffer.cursor_position -= length_before(buffer.text, buffer.cursor_position)

    @keys.add("right", filter=in_line)
    @keys.add("c-f", filter=in_line)
    def _right(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        for _ in range(event.arg):
            buffer.cursor_position += length_after(buffer.text, buffer.cursor_position)

    @keys.add("backspace", filter=in_line & ~has_selection, save_before=_is_first_of_many)
    def _delete_before(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        for _ in range(event.arg):
            buffer.delete_before_cursor(length_before(buffer.text, buffer.cursor_position))

    @keys.add("delete", filter=in_line & ~has_selection, save_before=_is_first_of_many)
    def _delete(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        for _ in range(event.arg):
            buffer.delete(length_after(buffer.text, buffer.cursor_position))


def _is_first_of_many(event: KeyPressEvent) -> bool:
    return not event.is_repeat
