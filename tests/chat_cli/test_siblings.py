"""Several answers to one message: all are shown and kept, and one goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.chat_cli.render import JsonOutput
from radixchat.tests.chat_cli.chat_terminal import ChatTerminal
from radixchat.tests.chat_cli.sibling_scene import (
    Picks,
    Scene,
    play,
    texts,
    written,
)


def test_all_are_shown_in_their_order(tiny_model: Path, tmp_path: Path) -> None:
    """Each as a whole, under its heading; stored as siblings, the first on the path."""
    shown: list[str] = []

    async def work(scene: Scene) -> None:
        told: list[str] = []
        answers = await scene.siblings(3).run(lambda created: told.append(created.response))
        assert [done.status for done in answers] == ["incomplete"] * 3
        assert told == [answers[0].response]
        stored = await scene.stored(answers)
        assert [message.text for message in stored] == texts(answers)
        assert len({message.parent for message in stored}) == 1
        assert await scene.tip() == answers[0].output_text
        shown.extend(texts(answers))

    scene = play(tiny_model, tmp_path, work)
    assert scene.stream.getvalue() == written(shown)
    headings = [line for line in scene.errors.getvalue().splitlines() if " of 3 " in line]
    assert [line.strip("─ ") for line in headings] == [f"answer {n} of 3" for n in (1, 2, 3)]
    assert scene.errors.getvalue().count("max tokens reached") == 3


def test_json_has_a_record_of_each(tiny_model: Path, tmp_path: Path) -> None:
    """In their order, one line each."""

    async def work(scene: Scene) -> None:
        scene.output = JsonOutput(scene.stream, ids=False)
        answers = await scene.siblings(2).run(lambda _: None)
        lines = scene.stream.getvalue().splitlines()
        assert len(lines) == 2
        for line, done in zip(lines, answers, strict=True):
            assert f'"response": "{done.response}"' in line

    play(tiny_model, tmp_path, work)


def test_a_seed_makes_them_repeatable_and_different(tiny_model: Path, tmp_path: Path) -> None:
    """Answer i has the seed and i; the highest one is followed by 0."""
    seed = 2**63 - 2

    async def work(scene: Scene) -> None:
        answers = await scene.siblings(3).run(lambda _: None)
        assert [done.seed for done in answers] == [seed, seed + 1, 0]
        again = await scene.siblings(3).run(lambda _: None)
        assert texts(again) == texts(answers)
        assert len(set(texts(answers))) > 1

    play(tiny_model, tmp_path, work, seed=seed)


def test_one_prefill_serves_them_all(tiny_model: Path, tmp_path: Path) -> None:
    """None of them computes more of the prompt than its last token."""

    async def work(scene: Scene) -> None:
        for done in await scene.siblings(4).run(lambda _: None):
            assert done.usage.input_tokens - done.usage.cached_tokens == 1

    play(tiny_model, tmp_path, work)


def test_the_chosen_one_goes_on(tiny_model: Path, tmp_path: Path) -> None:
    """Its key is asked for among all; the tip moves, and it is said where the others are."""

    async def work(scene: Scene) -> None:
        siblings, somebody = scene.siblings(3), Picks("3")
        answers = await siblings.run(lambda _: None)
        assert await siblings.choose(answers, somebody) is answers[2]
        assert somebody.asked == ["123"]
        assert await scene.tip() == answers[2].output_text

    scene = play(tiny_model, tmp_path, work, seed=1)
    assert scene.errors.getvalue().splitlines()[-1].startswith("answer 3 of 3 goes on; /tree ")


@pytest.mark.parametrize("chooser", [None, Picks(None)], ids=["a script", "no answer"])
def test_without_a_choice_the_first_goes_on(
    tiny_model: Path, tmp_path: Path, chooser: Picks | None
) -> None:
    """Where nobody can be asked, or does not say."""

    async def work(scene: Scene) -> None:
        siblings = scene.siblings(2)
        answers = await siblings.run(lambda _: None)
        assert await siblings.choose(answers, chooser) is answers[0]
        assert await scene.tip() == answers[0].output_text

    scene = play(tiny_model, tmp_path, work, seed=1)
    assert "answer 1 of 2 goes on; /tree" in scene.errors.getvalue()


def test_greedy_answers_are_announced_as_alike(tiny_model: Path, tmp_path: Path) -> None:
    """Who asks for several at temperature 0 is told before they come."""

    async def work(scene: Scene) -> None:
        answers = await scene.siblings(2).run(lambda _: None)
        assert answers[0].output_text == answers[1].output_text

    scene = play(tiny_model, tmp_path, work, temperature=0.0)
    assert "note: at temperature 0 the answers are all alike" in scene.errors.getvalue()


@pytest.mark.slow
def test_a_key_chooses_at_a_terminal(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three answers the second is taken with one key; the picture of its prompt has styles."""
    monkeypatch.setenv("RADIXCHAT_MODEL", str(tiny_model))
    arguments = ("--temperature", "1.5", "--seed", "3", "--max-tokens", "12", "--threads", "1")
    with ChatTerminal("chat", *arguments) as chat:
        chat.wait_for(r"^> ?\Z")
        chat.enter("hello")
        chat.answered(1)
        chat.enter("/regen 3")
        chat.wait_for(r"^which answer goes on\? 1, 2, 3; Enter keeps 1 ?\Z")
        for number in (1, 2, 3):
            assert f"── answer {number} of 3 ──" in chat.text
        chat.type("2")
        chat.wait_for("^answer 2 of 3 goes on; /tree shows the others")
        chat.wait_for(r"^> ?\Z")
        chat.enter("/cache")
        chat.wait_for("^editing turn 1 recomputes [0-9]+ tokens")
        chat.wait_for(r"^> ?\Z")
        assert "\x1b[2m  <|im_start|>user" in chat.raw
        assert "\x1b[1m+ " in chat.raw
        chat.type("\x04")
        assert chat.exit_code() == 0
        assert "Traceback" not in chat.text
