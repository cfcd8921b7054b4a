"""A server's key: what is around it goes, what cannot be sent is refused, and none is shown."""

from __future__ import annotations

import os
import subprocess

import pytest

from radixchat.chat_cli.async_client import AsyncChatClient
from radixchat.chat_cli.exit_codes import USAGE
from radixchat.chat_cli.server_key import usable_key
from radixchat.server.protocol import ConfigError
from radixchat.tests.chat_cli.chat_terminal import COMMAND


def test_white_space_around_a_key() -> None:
    """The end of the line that a key was read from is not a part of it; nothing is no key."""
    assert usable_key(" rc_secret\r\n") == "rc_secret"
    assert usable_key(" \n") is None
    assert usable_key(None) is None


@pytest.mark.parametrize("key", ["rc_a\nsecret", "rc_a secret", "secret\x00", "secret\u00e9"])
def test_no_keys(key: str) -> None:
    """What no header can carry is refused before anybody connects, and is not quoted."""
    with pytest.raises(ConfigError, match="a character that no key has") as refused:
        AsyncChatClient("ws://h:1", key=key)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("verb", [("chat", "hi"), ("sessions", "list"), ("sessions", "show", "x")])
@pytest.mark.parametrize("by_flag", [True, False])
def test_a_command_says_where_the_key_is_from(verb: tuple[str, ...], by_flag: bool) -> None:
    """A usage error that names the flag or the variable, and has nothing of the key."""
    key = "rc_a\nsecret"
    given = ("--key", key) if by_flag else ()
    done = subprocess.run(
        [*COMMAND, *verb, "--url", "ws://127.0.0.1:1", *given],
        env=os.environ if by_flag else {**os.environ, "RADIXCHAT_KEY": key},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == USAGE
    assert f"the key ({'--key' if by_flag else 'RADIXCHAT_KEY'}) has a character" in done.stderr
    assert "secret" not in done.stdout + done.stderr
