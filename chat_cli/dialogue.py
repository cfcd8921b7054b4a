"""The conversation a user is in, and what each command does to it.

Owns which conversation that is, what of it is known here, and the exit code the run has earned so
far. Knows neither a prompt nor a pipe: `repl.py` and `script.py` feed it commands.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence

from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.client import ChatClient
from radixchat.chat_cli.command_line import HELP
from radixchat.chat_cli.commands import (
    Command,
    Edit,
    Leave,
    Misunderstood,
    Regenerate,
    Say,
    ShowHelp,
    ShowStats,
    StartNew,
    Undo,
)
from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.foreign_changes import foreign_changes
from radixchat.chat_cli.interrupts import Interrupts
from radixchat.chat_cli.left_out import left_out_note
from radixchat.chat_cli.notes import Notes
from radixchat.chat_cli.render import Output
from radixchat.chat_cli.settings import ChatSettings
from radixchat.chat_cli.turn import Turn, failed
from radixchat.server.protocol import (
    ErrorInfo,
    MessageView,
    RadixChatError,
    ResponseCreated,
    ResponseEvent,
    ServerUnreachable,
    describe_error,
)

_EXCERPT = 60
_TOO_LONG = "context_length_exceeded"
_LOST = "server_unavailable"


class Dialogue:
    """One conversation at a time; it is created with its first message."""

    def __init__(
        self,
        client: ChatClient,
        settings: ChatSettings,
        output: Output,
        notes: Notes,
        interrupts: Interrupts,
    ) -> None:
        self.exit_code = exit_codes.OK
        self.engine_failed = False
        self._client = client
        self._options = settings.answer
        self._system = settings.system
        self._output = output
        self._notes = notes
        self._interrupts = interrupts
        self._conversation: str | None = None
        self._known: Sequence[MessageView] = ()
        self._is_behind = False  # a turn was begun whose server is lost: nobody tells what of it is
        self._left_out: tuple[str, ...] = ()

    @property
    def stored(self) -> str | None:
        """The conversation's id, once it has a turn that one can come back to."""
        has_turn = self._is_behind or any(message.role == "user" for message in self._known)
        return self._conversation if has_turn else None

    async def resume(self, conversation: str) -> list[MessageView]:
        """Go on with a stored conversation; its messages so far."""
        messages = await self._client.messages(conversation)
        self._conversation = conversation
        self._known = messages
        # /new keeps the system message of the conversation that it leaves.
        self._system = next((m.text for m in messages if m.role == "system"), None)
        return messages

    async def perform(self, command: Command) -> ErrorInfo | None:
        """Do what the command asks and show it; why it was refused, if it was.

        Refused means that nothing has changed. An answer that failed after its message was stored
        is no refusal: the same command would store that a second time. Raises what Turn.run raises.
        """
        match command:
            case Say(text):
                return await self._say(text)
            case Edit(turn, text):
                assert turn is not None, "whoever reads the input completes an edit"
                assert text is not None
                return await self._answer(
                    lambda conversation: self._client.edit(conversation, turn, text, self._options)
                )
            case Regenerate():
                return await self._answer(
                    lambda conversation: self._client.regenerate(conversation, self._options)
                )
            case Misunderstood(reason):
                return self._refuse(ErrorInfo("unknown_command", 400, reason, {}))
            case Undo():
                return await self._undo()
            case ShowStats():
                return await self._show_stats()
            case StartNew():
                if self._conversation is not None:
                    await self._client.close_conversation(self._conversation)
                self._conversation = None
                self._known = self._left_out = ()
                self._is_behind = False
                self._notes.aside("new conversation")
            case ShowHelp():
                self._notes.table(HELP)
            case Leave():
                raise AssertionError("whoever reads the input ends it")
            case _:
                raise NotImplementedError(command)  # handlers follow
        return None

    async def user_turns(self) -> list[str]:
        """The texts of the user's turns so far. Raises RadixChatError."""
        if self._conversation is None:
            return []
        messages = await self._client.messages(self._conversation)
        return [message.text for message in messages if message.role == "user"]

    async def _say(self, text: str) -> ErrorInfo | None:
        if self._conversation is None:
            try:
                self._conversation = await self._client.create_conversation(self._system)
                self._known = await self._client.messages(self._conversation)
            except RadixChatError as error:
                return self._refuse(describe_error(error))
        return await self._answer(
            lambda conversation: self._client.send(conversation, text, self._options)
        )

    async def _answer(
        self, ask: Callable[[str], AsyncGenerator[ResponseEvent]]
    ) -> ErrorInfo | None:
        if self._conversation is None:
            return self._refuse(_NO_TURN)
        try:
            await self._look_elsewhere(self._conversation)
        except ServerUnreachable as error:  # the question would wait as long once more
            return self._refuse(describe_error(error))
        events = ask(self._conversation)
        turn = Turn(
            self._client,
            self._conversation,
            events,
            self._output,
            self._interrupts,
            self._tell_left_out,
        )
        done = await turn.run()
        self._note_failure(done.error)
        if done.error is not None and done.error.code == _TOO_LONG:
            self._tell_way_out()
        if done.response is not None and done.error is not None and done.error.code == _LOST:
            self._is_behind = True  # whoever has given the server up does not wait for it again
        elif done.response is not None:
            await self._know(self._conversation)
        if done.error is None or done.response is None:
            return done.error
        again = "`radixchat chat -c /regen`" if self.engine_failed else "/regen"
        self._notes.aside(f"your message is kept; {again} asks for its answer again")
        return None

    async def _undo(self) -> ErrorInfo | None:
        if self._conversation is None:
            return self._say_failed(_NO_TURN)
        try:
            await self._look_elsewhere(self._conversation)
            message = await self._client.undo(self._conversation)
        except RadixChatError as error:
            return self._say_failed(describe_error(error))
        await self._know(self._conversation)
        excerpt = neutral_line(message.text)
        if len(excerpt) > _EXCERPT:
            excerpt = f"{excerpt[:_EXCERPT]}…"
        self._notes.aside(f"taken back: {excerpt}")
        return None

    async def _show_stats(self) -> ErrorInfo | None:
        try:
            stats = await self._client.stats()
        except RadixChatError as error:
            return self._say_failed(describe_error(error))
        figures = {name.replace("_", " "): figure(value) for name, value in stats.items()}
        self._notes.table({"conversation": self._conversation or "none yet", **figures})
        return None

    async def _look_elsewhere(self, conversation: str) -> None:
        """Tell what another process did to the conversation since it was last looked at.

        Raises ServerUnreachable.
        """
        before, was_behind = self._known, self._is_behind
        try:
            await self._look(conversation)
        except ServerUnreachable:
            raise
        except RadixChatError:
            return  # a store that cannot be read fails the command too, which then says so
        told = None if was_behind else foreign_changes(before, self._known)
        if told is not None:
            self._notes.note(told)

    def _tell_left_out(self, created: ResponseCreated) -> None:
        """Which turns this answer does without; once, while they stay the same."""
        note = left_out_note(created, self._known)
        if note is not None and created.left_out != self._left_out:
            self._notes.note(note)
        self._left_out = created.left_out

    def _tell_way_out(self) -> None:
        """How to go on with a conversation that is too long; without turns there is no other."""
        if self._options.truncation == "disabled" and self.stored is not None:
            self._notes.aside(
                "`--truncation auto` answers without the oldest turns, /new without any"
            )

    async def _know(self, conversation: str) -> None:
        # A store that cannot be read fails the command too, which then says so.
        with contextlib.suppress(RadixChatError):
            await self._look(conversation)

    async def _look(self, conversation: str) -> None:
        self._known = await self._client.messages(conversation)
        self._is_behind = False

    def _refuse(self, error: ErrorInfo) -> ErrorInfo:
        """What should have become a turn did not; it is shown as one."""
        self._output.conclude(failed(self._conversation, None, error))
        self._note_failure(error)
        return error

    def _say_failed(self, error: ErrorInfo) -> ErrorInfo:
        self._notes.error(error.message)
        self._note_failure(error)
        return error

    def _note_failure(self, error: ErrorInfo | None) -> ErrorInfo | None:
        if error is not None:
            self.engine_failed = self.engine_failed or error.code == "engine_failed"
            if self.exit_code == exit_codes.OK:
                self.exit_code = exit_codes.for_error(error)
        return error


def figure(value: int | float | str) -> str:
    """A value for people: three digits of a fraction, whole numbers with commas, texts as is."""
    if isinstance(value, str):
        return value
    is_small_fraction = isinstance(value, float) and 0.001 <= abs(value) < 100
    return f"{value:.3g}" if is_small_fraction else f"{value:,.0f}"


_NO_TURN = ErrorInfo("invalid_value", 400, "the conversation has no turn yet", {})
