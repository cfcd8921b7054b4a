"""The terminal is closed while an answer comes."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

from radixchat.server.store import Store
from radixchat.tests.chat_cli.chat_terminal import PATIENCE_S, ChatTerminal
from radixchat.tests.slow_steps import slow_command


def test_a_terminal_closed_in_mid_answer(tiny_model: Path, tmp_path: Path) -> None:
    """Exit code 129, whatever write fails first; the partial answer is kept."""
    database = tmp_path / "chat.db"
    flags = ("-m", str(tiny_model), "--db", str(database), "--threads", "1", "--no-speculation")
    command = slow_command(0.004)  # 4,000 steps: more than 16 s
    with ChatTerminal("chat", *flags, "--max-tokens", "4000", command=command) as chat:
        chat.wait_for("leaves")
        chat.enter("talk")
        chat.wait_for(r"> talk\n(?!loading )(?s:.)*\S\S\S")
        wait_until_full(chat)
        chat.process.ptyproc.fileobj.close()
        chat.process.ptyproc.closed = True
        deadline = time.monotonic() + PATIENCE_S
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


def wait_until_full(chat: ChatTerminal) -> None:
    """Until the terminal takes no more, as nobody reads it: the answer waits in a write."""
    own = os.open(Path(f"/proc/{chat.process.pid}/fd/1").readlink(), os.O_RDWR | os.O_NOCTTY)
    try:
        deadline, full = time.monotonic() + PATIENCE_S, 0
        while full < 5:  # a write that does not wait keeps it for a moment, too
            assert time.monotonic() < deadline
            time.sleep(0.05)
            full = 0 if select.select([], [own], [], 0)[1] else full + 1
    finally:
        os.close(own)
