"""The terminal is closed while an answer comes."""

from __future__ import annotations

import time
from pathlib import Path

from radixchat.server.store import Store
from radixchat.tests.chat_cli.chat_terminal import ChatTerminal


def test_a_terminal_closed_in_mid_answer(tiny_model: Path, tmp_path: Path) -> None:
    """Exit code 129, whatever write fails first; the partial answer is kept."""
    database = tmp_path / "chat.db"
    flags = ("-m", str(tiny_model), "--db", str(database), "--threads", "1")
    with ChatTerminal("chat", *flags, "--max-tokens", "3000") as chat:
        chat.wait_for("leaves")
        chat.enter("talk")
        time.sleep(1.5)  # in the middle of the answer; nothing is read, as nobody would
        chat.process.ptyproc.fileobj.close()
        chat.process.ptyproc.closed = True
        deadline = time.monotonic() + 30
        while chat.process.isalive():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert chat.process.exitstatus == 129
        chat.process.closed = True
    with Store(database) as store:
        conversation = store.latest(principal="local")
        assert conversation is not None
        path = store.path(
            store.conversation(conversation, principal="local").tip, principal="local"
        )
    assert [message.role for message in path] == ["user", "assistant"]
    assert path[-1].status == "interrupted"
