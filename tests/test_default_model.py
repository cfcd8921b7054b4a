"""The command line over the default model: what is cached, and what `kill -9` leaves."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from radixchat.server.store import Store
from radixchat.tests.engine.driver import common_prefix

pytestmark = [pytest.mark.slow, pytest.mark.model, pytest.mark.usefixtures("default_model")]

CHAT = [str(Path(sys.executable).with_name("radixchat")), "chat", "--temperature", "0"]
# One thread: the bits do not depend on it, and a busy machine does not stall a team of two.
FLAGS = ["--threads", "1", "--json", "--ids"]
LINES = ["My name is Ada.", "What is my name?", "Say it backwards."]
CHANGES = ["/regen", "/edit 2 Who am I?", "/undo", "/regen", "Thank you. 谢谢 👩‍👩‍👧"]


def turns(lines: list[str], *flags: str) -> list[dict[str, Any]]:
    """The turn objects of one conversation, piped."""
    done = subprocess.run(
        [*CHAT, *FLAGS, *flags],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_oracle(answered: list[dict[str, Any]]) -> None:
    """Each turn's cached tokens equal the longest common prefix with anything that has KV."""
    computed: list[list[int]] = []
    for turn in answered:
        prompt, usage = turn["input_ids"], turn["usage"]
        longest = max((common_prefix(prompt, known) for known in computed), default=0)
        cached = usage["input_tokens_details"]["cached_tokens"]
        assert cached == min(longest, len(prompt) - 1)
        assert cached > 0 or not computed
        assert usage["input_tokens"] == len(prompt)
        computed.append([*prompt, *turn["output_ids"]][:-1])


def without_cost(turn: dict[str, Any]) -> tuple[Any, ...]:
    return turn["input_ids"], turn["output_ids"], turn["output_text"], turn["status"]


@pytest.mark.parametrize("page_size", ["1", "8", "16", "32"])
def test_only_new_tokens_cost_and_the_cache_is_invisible(page_size: str, tmp_path: Path) -> None:
    """Turns, /regen, /edit, /undo and -c cost what the oracle says; --no-cache says the same."""
    lines = LINES + CHANGES
    flags = ["--max-tokens", "20", "--page-size", page_size]
    cached = turns(lines, *flags, "--db", str(tmp_path / "on.db"))
    assert len(cached) == 7
    check_oracle(cached)
    continued = turns(["And now?", "/regen"], *flags, "--db", str(tmp_path / "on.db"), "-c")
    check_oracle(continued)
    last = cached[-1]
    assert continued[0]["input_ids"][: len(last["input_ids"])] == last["input_ids"]

    plain = turns(lines, *flags, "--no-cache", "--db", str(tmp_path / "off.db"))
    assert [without_cost(turn) for turn in plain] == [without_cost(turn) for turn in cached]
    details = [turn["usage"]["input_tokens_details"] for turn in plain]
    assert all(d == {"cached_tokens": 0, "cache_write_tokens": 0} for d in details)


def wait_for_a_part(database: Path) -> None:
    """Until some of the running answer is stored."""
    part = "SELECT count(*) FROM response WHERE status = 'in_progress' AND text != ''"
    deadline = time.monotonic() + 30
    with contextlib.closing(sqlite3.connect(database)) as raw:
        while raw.execute(part).fetchone() == (0,):
            assert time.monotonic() < deadline, "nothing of the answer is stored"
            time.sleep(0.02)


@pytest.mark.timeout(900)
def test_kill_at_any_moment_loses_no_turn(tmp_path: Path) -> None:
    """`kill -9` in mid-answer, 20 times: the turn and the partial stay, and -c goes on."""
    database = tmp_path / "chat.db"
    flags = ["--threads", "1", "--db", str(database), "--temperature", "1.5"]  # it rambles
    moments = random.Random(5)
    partials = 0
    for attempt in range(20):
        question = (
            f"Tell me a very long story about {attempt + 2} dragons and their {attempt} towns."
        )
        resume = ["-c"] if attempt else []
        chat = subprocess.Popen(
            [*CHAT, *flags, *resume, "--seed", str(attempt), question],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"RADIXCHAT_MAX_TOKENS": "400"},
        )
        assert chat.stdout is not None
        os.read(chat.stdout.fileno(), 1)  # the answer has begun
        if attempt % 2:
            wait_for_a_part(database)
        time.sleep(moments.uniform(0, 2 - attempt % 2))
        chat.send_signal(signal.SIGKILL)
        chat.wait()
        chat.stdout.close()
        with sqlite3.connect(database) as raw:
            assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        raw.close()
        with Store(database) as store:
            assert store.verify() == []
            conversation = store.latest(principal="local")
            assert conversation is not None
            path = store.path(
                store.conversation(conversation, principal="local").tip, principal="local"
            )
        users = [m.text for m in path if m.role == "user"]
        assert users[-1] == question
        assert len(users) == attempt + 1
        if path[-1].role == "assistant":  # else it had not been saved, nor been talking for 0.5 s
            assert path[-1].token_ids
            partials += path[-1].status == "interrupted"
    assert partials >= 8
    [after] = turns(["Are you still there?"], "--db", str(database), "-c", "--max-tokens", "5")
    assert after["status"] in {"completed", "incomplete"}
