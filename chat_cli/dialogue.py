"""Who performs which command; and the turns of the conversation a user is in.

Owns the running turn. Knows neither a prompt nor a pipe: `repl.py` and `script.py` feed it
commands; what it is about is in `chat_state.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable

from radixchat.chat_cli.cache_commands import CacheCommands
from radixchat.chat_cli.chat_state import NO_TURN, ChatState
from radixchat.chat_cli.chooser import Chooser
from radixchat.chat_cli.client import ChatClient
from radixchat.chat_cli.clipboard_commands import ClipboardCommands
from radixchat.chat_cli.command_line import HELP, help_of
from radixchat.chat_cli.commands import (
    CacheCommand,
    ClipboardCommand,
    Command,
    Continue,
    ConversationCommand,
    Edit,
    Misunderstood,
    Regenerate,
    Say,
    SettingCommand,
    ShowHelp,
    TurnCommand,
)
from radixchat.chat_cli.conversation_commands import ConversationCommands
from radixchat.chat_cli.interrupts import Interrupts
from radixchat.chat_cli.left_out import left_out_note
from radixchat.chat_cli.notes import Notes
from radixchat.chat_cli.refusal import refusal_of
from radixchat.chat_cli.render import Output
from radixchat.chat_cli.setting_commands import SettingCommands
from radixchat.chat_cli.settings import ChatSettings
from radixchat.chat_cli.siblings import Siblings
from radixchat.chat_cli.turn import Turn, failed
from radixchat.server.protocol import (
    ErrorInfo,
    MessageView,
    RadixChatError,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ServerUnreachable,
)

_TOO_LONG = "context_length_exceeded"
_LOST = "server_unavailable"
_NO_TURN = ErrorInfo("invalid_value", 400, NO_TURN, {})


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
        self.state = ChatState(client, settings, notes)
        self._client = client
        self._output = output
        self._notes = notes
        self._interrupts = interrupts
        self._conversations = ConversationCommands(self.state, settings, output)
        self._cache = CacheCommands(self.state)
        self._settings = SettingCommands(self.state, settings)
        self._clipboard = ClipboardCommands(self.state)

    @property
    def chooser(self) -> Chooser | None:
        """Who can be asked for a key, if anybody can."""
        return self.state.chooser

    @chooser.setter
    def chooser(self, chooser: Chooser | None) -> None:
        self.state.chooser = chooser

    @property
    def exit_code(self) -> int:
        """What the run has earned so far."""
        return self.state.exit_code

    @property
    def engine_failed(self) -> bool:
        """Nothing is answered any more."""
        return self.state.engine_failed

    @property
    def stored(self) -> str | None:
        """The conversation's id, once it has a turn that one can come back to."""
        return self.state.stored

    async def resume(self, conversation: str) -> list[MessageView]:
        """Go on with a stored conversation; its messages so far."""
        return await self.state.enter(conversation)

    async def perform(self, command: Command) -> ErrorInfo | None:
        """Do what the command asks and show it; why it was refused, if it was.

        Refused means that nothing has changed. An answer that failed after its message was stored
        is no refusal: the same command would store that a second time. Raises what Turn.run raises.
        """
        try:
            return await self._perform(command)
        except RadixChatError as error:
            return self.state.say_failed(refusal_of(error, self.state.conversation))

    async def user_turns(self) -> list[str]:
        """The texts of the user's turns so far. Raises RadixChatError."""
        if self.state.conversation is None:
            return []
        messages = await self._client.messages(self.state.conversation)
        return [message.text for message in messages if message.role == "user"]

    async def _perform(self, command: Command) -> ErrorInfo | None:
        match command:
            case Say() | Edit() | Regenerate() | Continue():
                return await self._take_turn(command)
            case Misunderstood(reason):
                return self._refuse(ErrorInfo("unknown_command", 400, reason, {}))
            case ShowHelp(None):
                self._notes.table(HELP)
                return None
            case ShowHelp(str(word)):
                self._notes.table(dict([help_of(word)]))
                return None
        if isinstance(command, ConversationCommand):
            return await self._conversations.perform(command)
        if isinstance(command, CacheCommand):
            return await self._cache.perform(command)
        if isinstance(command, SettingCommand):
            return await self._settings.perform(command)
        if isinstance(command, ClipboardCommand):
            return await self._clipboard.perform(command)
        raise AssertionError(f"whoever reads the input does this: {command}")

    async def _take_turn(self, command: TurnCommand) -> ErrorInfo | None:
        client, options = self._client, self.state.options
        match command:
            case Say(text):
                return await self._say(text)
            case Edit(turn, text):
                assert turn is not None, "whoever reads the input completes an edit"
                assert text is not None
                return await self._answer(lambda place: client.edit(place, turn, text, options))
            case Regenerate(1):
                return await self._answer(lambda place: client.regenerate(place, options))
            case Regenerate(count):
                return await self._answer_often(count)
            case Continue():
                return await self._answer(lambda place: client.extend(place, options))

    async def _say(self, text: str) -> ErrorInfo | None:
        is_new = self.state.conversation is None
        try:
            await self.state.create()
        except RadixChatError as error:
            return self._refuse(refusal_of(error, self.state.conversation))
        attached = tuple(self.state.attachments)
        message = "\n\n".join([*attached, text])
        options = self.state.options
        refusal = await self._answer(
            lambda place: self._client.send(place, message, options), attached=len(attached)
        )
        if is_new and refusal is not None and refusal.code != _LOST:
            with contextlib.suppress(RadixChatError):
                await self.state.unmake()
        return refusal

    async def _answer(
        self, ask: Callable[[str], AsyncGenerator[ResponseEvent]], *, attached: int = 0
    ) -> ErrorInfo | None:
        """Ask for an answer in this place and show it. attached: texts that it takes along."""
        conversation = await self._place()
        if isinstance(conversation, ErrorInfo):
            return conversation

        def accepted(created: ResponseCreated) -> None:
            del self.state.attachments[:attached]
            self._tell_left_out(created)

        turn = Turn(
            self._client,
            conversation,
            ask(conversation),
            self._output,
            self._interrupts,
            accepted,
            self._notes.note,
        )
        done = await turn.run()
        await self._conclude(done)
        return self._refusal(done)

    async def _answer_often(self, count: int) -> ErrorInfo | None:
        """Several answers beside each other, of which one goes on."""
        conversation = await self._place()
        if isinstance(conversation, ErrorInfo):
            return conversation
        siblings = Siblings(
            self._client,
            conversation,
            self.state.options,
            count,
            self._output,
            self._interrupts,
            self._notes,
        )
        answers = await siblings.run(self._tell_left_out)
        for answer in answers[1:]:
            self.state.note_failure(answer.error)
        await self._conclude(answers[0])
        if answers[0].response is not None and not self.state.is_behind:
            try:
                self.state.last = await siblings.choose(answers, self.chooser)
            finally:
                await self.state.know()
        return self._refusal(answers[0])

    async def _place(self) -> str | ErrorInfo:
        """The conversation to answer in, as it is now; or why there is none to be answered in."""
        conversation = self.state.conversation
        if conversation is None:
            return self._refuse(_NO_TURN)
        try:
            await self.state.look_elsewhere()
        except ServerUnreachable as error:  # the question would wait as long once more
            return self._refuse(refusal_of(error, conversation))
        return conversation

    async def _conclude(self, done: ResponseDone) -> None:
        """What a turn that was shown leaves behind."""
        state = self.state
        state.note_failure(done.error)
        if done.error is not None and done.error.code == _TOO_LONG:
            self._tell_way_out()
        if done.response is None:
            return
        state.last = done
        if done.error is not None and done.error.code == _LOST:
            state.is_behind = True  # whoever has given the server up does not wait for it again
        else:
            await state.know()

    def _refusal(self, done: ResponseDone) -> ErrorInfo | None:
        """Why there was no turn; of one that failed it is told how to have its answer."""
        if done.error is None or done.response is None:
            return done.error
        goes_on = self.state.goes_on and not self.engine_failed
        again = "/regen" if goes_on else "`radixchat chat -c /regen`"
        self._notes.aside(f"your message is kept; {again} asks for its answer again")
        return None

    def _tell_left_out(self, created: ResponseCreated) -> None:
        """Which turns this answer does without; once, while they stay the same."""
        note = left_out_note(created, self.state.known)
        if note is not None and created.left_out != self.state.left_out:
            self._notes.note(note)
        self.state.left_out = created.left_out

    def _tell_way_out(self) -> None:
        """How to go on with a conversation that is too long; without turns there is no other."""
        if self.state.options.truncation == "disabled" and self.stored is not None:
            self._notes.aside(
                "`--truncation auto` answers without the oldest turns, /new without any"
            )

    def _refuse(self, error: ErrorInfo) -> ErrorInfo:
        """What should have become a turn did not; it is shown as one."""
        self._output.conclude(failed(self.state.conversation, None, error))
        self.state.note_failure(error)
        return error
