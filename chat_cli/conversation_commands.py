"""Which conversation one is in, and what becomes of it besides being answered.

Owns the numbers of the branches that were drawn. Knows no turn.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import assert_never

from rich.text import Text

from radixchat.chat_cli.chat_state import NO_TURN, ChatState, system_of
from radixchat.chat_cli.commands import (
    ConversationCommand,
    Delete,
    Export,
    Fork,
    ListConversations,
    Rename,
    Save,
    Search,
    SetSystem,
    ShowTree,
    StartNew,
    Switch,
    Undo,
)
from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.conversation_lists import conversation_lines, hit_line
from radixchat.chat_cli.conversation_names import (
    all_conversations,
    checked_name,
    described,
    named,
)
from radixchat.chat_cli.conversation_tree import branch_ends
from radixchat.chat_cli.render import Output
from radixchat.chat_cli.settings import ChatSettings
from radixchat.chat_cli.tail import show_tail
from radixchat.chat_cli.tree_picture import LEGEND, tree_picture
from radixchat.chat_cli.way_back import way_back
from radixchat.chat_cli.written_file import write_new_file
from radixchat.server.protocol import ErrorInfo, InvalidRequest, MessageView, RadixChatError

_EXCERPT = 60
_LISTED = 20
_NO_SYSTEM = '""'  # what stands for no system message: without a text /system shows it


class ConversationCommands:
    """Performs what changes the conversation, or goes to another; raises RadixChatError."""

    def __init__(self, state: ChatState, settings: ChatSettings, output: Output) -> None:
        self._state = state
        self._settings = settings
        self._output = output
        self._drawn: tuple[str, tuple[str, ...]] | None = None

    async def perform(self, command: ConversationCommand) -> ErrorInfo | None:
        """Do it and say so; why it was refused, if it was."""
        match command:
            case Undo():
                await self._undo()
            case StartNew():
                await self._state.leave()
                self._state.notes.aside("new conversation")
            case Fork(name):
                await self._fork(name)
            case ListConversations():
                await self._list()
            case Switch(name):
                await self._switch(name)
            case Rename(name):
                await self._rename(name)
            case Delete(name):
                await self._delete(name)
            case SetSystem(text):
                await self._system(text)
            case Search(words):
                await self._search(words)
            case Save(name):
                await self._save(name)
            case Export(kind, file):
                await self._export(kind, file)
            case ShowTree():
                await self._show_tree()
            case _:
                assert_never(command)
        return None

    async def _undo(self) -> None:
        state = self._state
        conversation = state.require_conversation()
        await state.look_elsewhere()
        message = await state.client.undo(conversation)
        await state.know()
        excerpt = neutral_line(message.text)
        if len(excerpt) > _EXCERPT:
            excerpt = f"{excerpt[:_EXCERPT]}…"
        state.notes.aside(f"taken back: {excerpt}")

    async def _fork(self, name: str) -> None:
        state = self._state
        title = checked_name(name) if name else ""
        conversation, last = self._with_turn(), state.last
        await state.look_elsewhere()
        fork = await state.client.fork_conversation(conversation, title=title)
        state.made.append(fork.id)
        await state.enter(fork.id)
        state.last = last
        state.notes.aside(f"in a fork now: {described(fork)}")
        await self._tell_namesakes(title)

    async def _list(self) -> None:
        state = self._state
        views = await state.client.conversations(_LISTED)
        if not views:
            state.notes.styled(Text("there is no conversation yet"))
        for line in conversation_lines(views, state.conversation, state.notes.width):
            state.notes.styled(line)

    async def _switch(self, name: str) -> None:
        if name.startswith("#"):
            await self._switch_branch(name)
            return
        state = self._state
        view = named(name, await all_conversations(state.client))
        if view.id == state.conversation:
            state.notes.aside(f"this is {described(view)} already")
            return
        left = state.conversation
        messages = await state.enter(view.id)
        if left is not None:
            await state.close(left)
        self._tell_place(f"in {described(view)} now", messages)
        view = await state.client.conversation(view.id)
        if view.running is not None:
            state.notes.note("it is being answered just now; what is here of that is not all")

    async def _switch_branch(self, name: str) -> None:
        state = self._state
        conversation = state.require_conversation()
        ends = await self._branch_ends(conversation)
        number = name.removeprefix("#")
        is_number = number.isascii() and number.isdecimal() and len(number) < 10
        if not (is_number and 1 <= int(number) <= len(ends)):
            count = f"#1 to #{len(ends)}" if len(ends) > 1 else "#1" if ends else "none"
            raise InvalidRequest(f"there is no branch {name}; /tree shows {count}")
        end = ends[int(number) - 1]
        await state.look_elsewhere()
        if state.known and state.known[-1].id == end:
            state.notes.aside(f"this is branch {name} already")
            return
        await state.client.update_conversation(conversation, tip=end)
        await state.look()
        self._tell_place(f"in branch {name} now", state.known)

    async def _branch_ends(self, conversation: str) -> tuple[str, ...]:
        """As they were drawn last, or as they would be drawn."""
        if self._drawn is not None and self._drawn[0] == conversation:
            return self._drawn[1]
        return branch_ends(await self._state.client.tree(conversation))

    async def _rename(self, name: str) -> None:
        title = checked_name(name)
        await self._state.client.update_conversation(self._with_turn(), title=title)
        self._state.notes.aside(f'named "{title}"')
        await self._tell_namesakes(title)

    async def _delete(self, name: str | None) -> None:
        state = self._state
        if name is None:
            view = await state.client.conversation(state.require_conversation())
        else:
            view = named(name, await all_conversations(state.client))
        if state.chooser is not None:
            question = f"delete {neutral_line(described(view))}? y: for good, Enter: not"
            if await state.chooser.choose(question, "ny") != "y":
                state.notes.aside("nothing is deleted")
                return
        await state.client.delete_conversation(view.id)
        state.notes.aside(f"deleted: {described(view)}")
        if view.id == state.conversation:
            state.forget()
            state.notes.aside("new conversation")

    async def _system(self, text: str | None) -> None:
        state = self._state
        if text is None:
            if state.conversation is not None:
                await state.look_elsewhere()
                state.system = system_of(state.known)
            state.notes.styled(Text(state.system or "no system message"))
            return
        system = None if text == _NO_SYSTEM else text
        if state.conversation is None:
            state.system = system
            state.notes.aside("the conversation will begin with it" if system else _CLEARED)
            return
        await state.look_elsewhere()
        if system == system_of(state.known):
            state.notes.aside("that is the system message already")
            return
        conversation = state.conversation
        await state.client.update_conversation(conversation, system=system or "")
        state.system = system
        await state.know()
        told = f"the conversation begins with {'it' if system else 'no system message'} now"
        with contextlib.suppress(RadixChatError):  # it is changed, whatever can be told of it
            report = await state.client.inspect(conversation=conversation)
            tokens = report.input_tokens - report.cached_tokens
            told += f"; the next turn computes {tokens:,} tokens of it again"
        state.notes.aside(told)

    async def _search(self, words: str) -> None:
        hits = await self._state.client.search(words)
        for hit in hits:
            self._state.notes.styled(hit_line(hit))
        if not hits:
            self._state.notes.styled(Text("no message has these words"))

    async def _save(self, name: str | None) -> None:
        conversation = self._with_turn()
        if name is not None:
            await self._rename(name)
        else:
            await self._state.client.conversation(conversation)  # it may be gone
        self._state.notes.styled(Text(f"{way_back(conversation, self._settings)}"))

    async def _export(self, kind: str, file: str | None) -> None:
        text = await self._state.client.export(self._with_turn(), kind)
        if file is None:
            self._output.document(text)
            return
        path = write_new_file(file, text)
        self._state.notes.aside(f"written to {path}, {len(text.encode()):,} bytes")

    async def _show_tree(self) -> None:
        state = self._state
        conversation = self._with_turn(passed=True)
        await state.look_elsewhere()
        messages = await state.client.tree(conversation, warmth=True)
        if not messages:
            raise InvalidRequest(NO_TURN)
        self._drawn = conversation, branch_ends(messages)
        for line in tree_picture(messages, state.notes.width):
            state.notes.styled(line)
        state.notes.aside(LEGEND)

    def _with_turn(self, *, passed: bool = False) -> str:
        """The conversation; passed: also one whose turns were taken back. Raises InvalidRequest."""
        conversation = self._state.conversation if passed else self._state.stored
        if conversation is None:
            raise InvalidRequest(NO_TURN)
        return conversation

    def _tell_place(self, told: str, messages: Sequence[MessageView]) -> None:
        self._state.notes.aside(told)
        if self._state.on_screen:
            show_tail(messages, self._output, self._state.notes)

    async def _tell_namesakes(self, title: str) -> None:
        if not title:
            return
        views = await all_conversations(self._state.client)
        others = [v for v in views if v.title == title and v.id != self._state.conversation]
        if others:
            some = described(others[0])
            self._state.notes.note(f"{some} has this name too; /switch takes the ids of both")


_CLEARED = "the conversation will begin without a system message"
