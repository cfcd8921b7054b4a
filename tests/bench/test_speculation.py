"""`radixchat bench speculation`: both arms agree, guesses are counted, and a difference is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from radixchat.bench.speculation import load_tokenizer, main, measure, totals
from radixchat.bench.speculation_run import Comparison, Cost, SpeculationRun, SpeculationShows
from radixchat.bench.speculation_set import CHAT, EDIT_AND_REPEAT, EDITED, REGENERATE, Task, tasks
from radixchat.engine.errors import PromptTooLong
from radixchat.engine.prompt_lookup import PromptLookup
from radixchat.engine.weights import Checkpoint

TASKS = [
    Task(EDITED, "edited", "How much is 2 and 3?", "How much is 2 and 4?"),
    Task(REGENERATE, "again", "How are you?", "How are you?", temperature=0.001),
    Task(CHAT, "chat", "Who are you?"),
]


@pytest.fixture(scope="module")
def run(tiny: Checkpoint, tiny_path: Path) -> SpeculationRun:
    return SpeculationRun(tiny, load_tokenizer(str(tiny_path), tiny), max_tokens=24)


def test_the_arms_say_the_same_and_only_one_guesses(run: SpeculationRun) -> None:
    """A second answer is guessed from the first, in fewer steps; without guesses a step is a token.

    SpeculationRun itself compares the tokens and all that is cached.
    """
    edited, again, chat = measure(run, TASKS, rounds=2)
    for each in (edited, again, chat):
        assert (each.plain.guessed, each.plain.right) == (0, 0)
        assert each.plain.tokens == each.plain.steps
        assert each.guessing.right <= each.guessing.guessed
    assert again.guessing.right > 0
    assert again.guessing.steps < again.plain.steps
    assert again.tokens_per_step > 3


def test_sums_are_of_the_kinds_and_of_the_set() -> None:
    """The edit-and-repeat set leaves open chat out; the speed is that of all tokens together."""
    slow, fast = Cost(10, 10, 2.0, 0, 0), Cost(10, 5, 1.0, 8, 4)
    sums = totals(
        [
            Comparison(EDITED, "a", slow, fast),
            Comparison(REGENERATE, "b", slow, replace(fast, seconds=4.0, guessed=0, right=0)),
            Comparison(CHAT, "c", slow, slow),
        ]
    )
    assert [each.kind for each in sums] == ["edit and repeat", EDITED, REGENERATE, CHAT]
    assert [each.speedup for each in sums] == [0.8, 2.0, 0.5, 1.0]
    assert [each.acceptance for each in sums] == [0.5, 0.5, None, None]
    assert sums[0].tokens_per_step == 2.0


def test_a_guess_that_shows_is_told(run: SpeculationRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup that changes the request's tokens changes the answer, and the bench says where."""

    def spoil(self: PromptLookup, tokens: Sequence[int], limit: int) -> list[int]:
        assert isinstance(tokens, list)
        tokens[-1] = (tokens[-1] + 1) % 200
        return []

    monkeypatch.setattr(PromptLookup, "propose", spoil)
    with pytest.raises(SpeculationShows, match="open chat, chat: the answers differ"):
        run.compare(TASKS[2])


def test_the_tasks_are_of_every_kind() -> None:
    """Each has a name of its own within its kind; a second answer is sampled."""
    every = tasks()
    assert {task.kind for task in every} == {*EDIT_AND_REPEAT, CHAT}
    assert len({(task.kind, task.name) for task in every}) == len(every)
    for task in every:
        assert (task.kind == REGENERATE) == (task.first == task.question)
        assert (task.kind == EDITED) == (task.first not in (None, task.question))
        assert task.kind != REGENERATE or task.temperature > 0


def test_the_command_ends_with_json(tiny_path: Path) -> None:
    """A table with a line for each task and the sums, then one object."""
    arguments = ["--json", "--model", str(tiny_path), "--answer", "8", "--kind", CHAT]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout.splitlines()[-1])
    assert document["bench"] == "speculation"
    assert {"version", "date", "commit", "machine", "load", "model"} <= document.keys()
    names = [task.name for task in tasks() if task.kind == CHAT]
    assert [task["name"] for task in document["tasks"]] == names
    assert [total["kind"] for total in document["totals"]] == [CHAT]
    assert all(f"{CHAT}        {name} " in done.stdout for name in names)


def test_a_task_that_the_model_cannot_hold_is_refused(run: SpeculationRun) -> None:
    """With the numbers; the command shows them without a traceback."""
    with pytest.raises(PromptTooLong, match="at most 511"):
        run.compare(Task(CHAT, "long", "x" * 600))
