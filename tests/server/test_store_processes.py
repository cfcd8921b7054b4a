"""Several processes on one file, and processes that are killed: nothing is lost, nothing stolen."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from radixchat.engine.errors import ConversationLocked, ConversationNotFound
from radixchat.server.message import NewMessage
from radixchat.server.migrations import SCHEMA_VERSION
from radixchat.server.store import Store
from radixchat.tests.server.test_migrations import as_of_version_3

PROGRAM = Path(__file__).with_name("store_process.py")

Spawn = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts store_process.py; whatever still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, str(PROGRAM), *map(str, arguments)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def facts(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line that the process prints."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"the process ended with {process.wait()}"
    found: dict[str, Any] = json.loads(line)
    return found


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def begin(store: Store, conversation: str) -> None:
    tip = store.conversation(conversation, principal="local").tip
    store.begin_response(
        conversation=conversation,
        expected_tip=tip,
        parent=tip,
        user=NewMessage("next", (7,)),
        options={},
        principal="local",
        render_hash="r",
    )


def check_recovered(store: Store, held: dict[str, Any]) -> None:
    """The question and the partial answer are there, marked, and the conversation goes on."""
    path = store.path(
        store.conversation(held["conversation"], principal="local").tip, principal="local"
    )
    assert [message.role for message in path] == ["system", "user", "assistant"]
    assert (path[-1].text, path[-1].token_ids) == ("partial", (1, 2, 3))
    assert path[-1].status == "interrupted"
    response = store.response(held["response"], principal="local")
    assert (response.status, response.reason) == ("incomplete", "server_shutdown")
    assert (response.question, response.answer) == (path[1].id, path[2].id)
    assert store.verify() == []
    begin(store, held["conversation"])


def test_killed_process_is_recovered_at_open(spawn: Spawn, tmp_path: Path) -> None:
    """After kill -9 the next open has the user's turn and the partial answer, at once."""
    process = spawn("hold", tmp_path / "s.db")
    held = facts(process)
    process.kill()
    process.wait()
    with Store(tmp_path / "s.db") as store:
        check_recovered(store, held)
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"]


def test_killed_process_is_recovered_by_one_that_is_open(spawn: Spawn, tmp_path: Path) -> None:
    """A store that was open before finds out when it wants the conversation."""
    with Store(tmp_path / "s.db") as store:
        process = spawn("hold", tmp_path / "s.db")
        held = facts(process)
        with pytest.raises(ConversationLocked) as locked:
            begin(store, held["conversation"])
        assert locked.value.retry_after_ms > 0
        process.kill()
        process.wait()
        with pytest.raises(ConversationLocked) as moved:  # the tip is the recovered answer now
            store.move_tip(
                held["conversation"], expected=held["question"], new=None, principal="local"
            )
        assert moved.value.retry_after_ms == 0
        check_recovered(store, held)


def test_a_conversation_that_is_settled_first_goes_on_at_once(spawn: Spawn, tmp_path: Path) -> None:
    """The tip that is read is the recovered answer's, so the next turn is not refused."""
    with Store(tmp_path / "s.db") as store:
        process = spawn("hold", tmp_path / "s.db")
        held = facts(process)
        store.settle(held["conversation"])  # a live process keeps what it has
        assert store.conversation(held["conversation"], principal="local").tip == held["question"]
        process.kill()
        process.wait()
        store.settle(held["conversation"])
        check_recovered(store, held)


@pytest.mark.parametrize("stopped", [False, True])
def test_live_process_is_not_robbed(spawn: Spawn, tmp_path: Path, stopped: bool) -> None:
    """A process that runs, or sleeps for hours, keeps its response whoever opens the file."""
    process = spawn("hold", tmp_path / "s.db")
    held = facts(process)
    if stopped:
        process.send_signal(signal.SIGSTOP)
    connection = sqlite3.connect(tmp_path / "s.db")
    connection.execute("UPDATE response SET updated_at = 1")
    connection.commit()
    connection.close()
    link = tmp_path / "link" / "other.db"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "s.db")
    for path in (tmp_path / "s.db", link):
        with Store(path) as store:
            assert store.recover() == []
            assert store.response(held["response"], principal="local").status == "in_progress"
            with pytest.raises(ConversationLocked, match=held["response"]):
                begin(store, held["conversation"])
    if stopped:
        process.send_signal(signal.SIGCONT)
    tell(process, "")
    assert facts(process) == {"answer": "question"}


def kill_while_writing(spawn: Spawn, path: Path, seconds: float) -> None:
    """Everything that a killed process said it had committed is there afterwards."""
    process = spawn("loop", path)
    conversation = facts(process)["conversation"]
    time.sleep(seconds)
    process.kill()
    said = [json.loads(line) for line in process.communicate()[0].splitlines()]
    with Store(path) as store:
        assert store.verify() == []
        messages = store.path(
            store.conversation(conversation, principal="local").tip, principal="local"
        )
        on_path = {message.id for message in messages}
        assert {fact["tip"] for fact in said if "tip" in fact} <= on_path
        for fact in said:
            if "partial" in fact:
                answer = store.response(fact["response"], principal="local").answer
                (text,) = (message.text for message in messages if message.id == answer)
                assert text.startswith(fact["partial"])
        statuses = {message.status for message in messages[:-2] if message.role == "user"}
        assert statuses <= {"complete"}


def test_kill_at_a_random_moment(spawn: Spawn, tmp_path: Path) -> None:
    """kill -9 in the middle of writing loses nothing acknowledged, again and again in one file."""
    for _ in range(3):
        kill_while_writing(spawn, tmp_path / "s.db", random.uniform(0.0, 0.3))


@pytest.mark.slow
def test_kill_at_many_random_moments(spawn: Spawn, tmp_path: Path) -> None:
    """The same, twenty times."""
    for _ in range(20):
        kill_while_writing(spawn, tmp_path / "s.db", random.uniform(0.0, 1.0))


def kill_while_deleting(spawn: Spawn, path: Path, seconds: float) -> None:
    """What a killed process has deleted stays deleted, what it has begun is known by its event."""
    process = spawn("churn", path)
    facts(process)
    time.sleep(seconds)
    process.kill()
    said = [json.loads(line) for line in process.communicate()[0].splitlines()]
    with Store(path) as store:
        assert store.verify() == []
        for fact in said:
            for gone in (fact[key] for key in ("gone", "passing") if key in fact):
                with pytest.raises(ConversationNotFound):
                    store.conversation(gone, principal="local")
            if "stays" in fact:
                assert store.conversation(fact["stays"], principal="local").num_turns == 1
                begun = store.begun_by(*fact["event"], principal="local")
                assert begun is not None
                assert begun.id == fact["response"]
        with store._file.reading() as db:
            assert db.table("conversation").count_where("kept = 0") == 0
            assert db.table("response").count_where("status = 'in_progress'") == 0


def test_kill_while_deleting(spawn: Spawn, tmp_path: Path) -> None:
    """kill -9 in the middle of deletions leaves no half of one, again and again in one file."""
    for _ in range(3):
        kill_while_deleting(spawn, tmp_path / "s.db", random.uniform(0.0, 0.3))


@pytest.mark.slow
def test_kill_while_deleting_many_times(spawn: Spawn, tmp_path: Path) -> None:
    """The same, fifty times."""
    for _ in range(50):
        kill_while_deleting(spawn, tmp_path / "s.db", random.uniform(0.0, 0.5))


def open_at_once(spawn: Spawn, folder: Path, rounds: int) -> None:
    processes = [spawn("open") for _ in range(6)]
    for number in range(rounds):
        path = folder / f"{number}.db"
        if number % 3 == 1:
            path.touch()  # an empty file is as good as none
        if number % 3 == 2:
            as_of_version_3(path)
        for process in processes:
            tell(process, str(path))
        made = {facts(process)["conversation"] for process in processes}
        with Store(path) as store:
            assert len(made) == 6
            assert all(store.conversation(id_, principal="local").id == id_ for id_ in made)
            assert store.verify() == []
            with store._file.reading() as db:
                steps = [row["name"] for row in db.query("SELECT name FROM _sqlite_migrations")]
        assert len(steps) == len(set(steps)) == SCHEMA_VERSION


def test_six_processes_open_one_empty_file(spawn: Spawn, tmp_path: Path) -> None:
    """The schema is made or brought up to date once, whoever comes first, and nobody fails."""
    open_at_once(spawn, tmp_path, rounds=12)


@pytest.mark.slow
def test_six_processes_open_many_empty_files(spawn: Spawn, tmp_path: Path) -> None:
    """The same, three hundred times."""
    open_at_once(spawn, tmp_path, rounds=300)


def write_at_once(spawn: Spawn, path: Path, processes: int, turns: int) -> None:
    writers = [spawn("turns", path, turns) for _ in range(processes)]
    made = [facts(writer)["conversation"] for writer in writers]
    with Store(path) as store:
        for conversation in made:
            assert (
                len(
                    store.path(
                        store.conversation(conversation, principal="local").tip, principal="local"
                    )
                )
                == 2 * turns
            )
        assert store.verify() == []


def test_two_processes_write_turns(spawn: Spawn, tmp_path: Path) -> None:
    """Two processes that write without a pause never see "database is locked"."""
    write_at_once(spawn, tmp_path / "s.db", processes=2, turns=25)


@pytest.mark.slow
def test_eight_processes_write_turns(spawn: Spawn, tmp_path: Path) -> None:
    """Nor do eight."""
    write_at_once(spawn, tmp_path / "s.db", processes=8, turns=50)
