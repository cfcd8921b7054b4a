"""What answers are asked for, and who answers: /set, /model. Knows no terminal."""

from __future__ import annotations

from typing import assert_never

from radixchat.chat_cli.answer_settings import (
    DEFAULT,
    AnswerSetting,
    answer_setting,
    answer_settings,
)
from radixchat.chat_cli.chat_state import ChatState
from radixchat.chat_cli.client import ChangesModel
from radixchat.chat_cli.commands import ChangeModel, SetOption, SettingCommand
from radixchat.chat_cli.settings import DEFAULT_ANSWER, ChatSettings
from radixchat.server.protocol import ErrorInfo, InvalidRequest, ResponseOptions


class SettingCommands:
    """Performs what changes the answers to come; raises RadixChatError."""

    def __init__(self, state: ChatState, settings: ChatSettings) -> None:
        self._state = state
        self._shows_logprobs = settings.json

    async def perform(self, command: SettingCommand) -> ErrorInfo | None:
        """Change it, or show it; why it was refused, if it was."""
        match command:
            case SetOption(name, value):
                self._set(name, value)
            case ChangeModel(None):
                client = self._state.client
                context = f"{client.n_ctx:,} tokens" if client.n_ctx else "not known yet"
                self._state.notes.table({"model": client.model_name, "context": context})
            case ChangeModel(name):
                assert name is not None
                await self._change_model(name)
            case _:
                assert_never(command)
        return None

    async def _change_model(self, name: str) -> None:
        client = self._state.client
        if not isinstance(client, ChangesModel):
            raise InvalidRequest(f"the server has one model, {client.model_name}")
        await client.change_model(name)
        self._state.notes.aside(f"model: {client.model_name}")

    def _set(self, name: str | None, value: str | None) -> None:
        if name is None:
            self._show(*answer_settings())
            return
        setting = answer_setting(name)
        if value is not None:
            if setting.name == "logprobs" and value != DEFAULT and not self._shows_logprobs:
                raise InvalidRequest("logprobs adds to the objects of --json, and here are none")
            self._state.options = setting.change(self._state.options, value)
        self._show(setting)

    def _show(self, *settings: AnswerSetting) -> None:
        options = self._state.options
        self._state.notes.table({one.name: _told(one, options) for one in settings})


def _told(setting: AnswerSetting, options: ResponseOptions) -> str:
    """Its value; where that was changed, with what it was without."""
    shown = setting.shown(options)
    if setting.is_default(options):
        return shown
    return f"{shown}  (changed; default: {setting.shown(DEFAULT_ANSWER)})"
