"""Which turns a prompt leaves out when the conversation no longer fits, and how it goes on."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixchat.engine.template import ChatTemplate
from radixchat.server.conversation import Conversation
from radixchat.server.message import NOTHING, LeftOut
from radixchat.server.prompt import PromptBuilder
from radixchat.server.truncation import prompt_limit, shortened_turn
from radixchat.server.turn import another_answer, next_turn
from radixchat.tests.engine.driver import common_prefix
from radixchat.tests.server.paths import EMPTY, Speaker
from radixchat.tests.server.templates import CHATML, STRIPS_REASONING

TEMPLATES = pytest.mark.parametrize("template", [CHATML, STRIPS_REASONING])


@pytest.mark.parametrize(
    ("max_output_tokens", "limit"),
    [(None, 448), (10, 502), (256, 256), (257, 256), (10**9, 256)],
)
def test_a_prompt_leaves_room_for_its_answer(max_output_tokens: int | None, limit: int) -> None:
    """As much as the answer may take, at most half of the context; an eighth by default."""
    assert prompt_limit(512, max_output_tokens) == limit


def test_the_smallest_context_has_room_for_one_token() -> None:
    """The limit is never the whole context."""
    assert prompt_limit(4, None) == 3
    assert prompt_limit(1, 8) == 0


def turns(speaker: Speaker, system: str | None, *texts: str) -> Conversation:
    """A conversation of these questions, each answered "Yes."."""
    path = EMPTY if system is None else speaker.system(system)
    for text in texts:
        path = speaker.answer(speaker.ask(path, text)[0], "Yes.")
    return path


def rendered(speaker: Speaker, template: str, path: Conversation) -> tuple[int, ...]:
    """The prompt of a conversation that holds just these messages."""
    chat = ChatTemplate(template, bos_token=None, eos_token=None)
    return PromptBuilder(speaker.tokenizer, chat, "another").prompt_ids(path)


@TEMPLATES
@pytest.mark.parametrize("system", [None, "Be brief."])
def test_whole_oldest_turns_go(tiny_directory: Path, template: str, system: str | None) -> None:
    """The prompt is that of a conversation that never had them; the system message stays."""
    speaker = Speaker.of(tiny_directory, template)
    asked, ids = speaker.ask(turns(speaker, system, *"abcdef"), "now")
    said = shortened_turn(speaker.prompts, asked, len(ids), len(ids) - 1)
    assert said is not None
    count = said.message.left_out.messages
    assert count in range(2, 12, 2)
    kept = turns(speaker, system, *"abcdef"[count // 2 :])
    assert said.prompt_ids == rendered(speaker, template, speaker.ask(kept, "now")[0])
    assert said.message.absolute
    assert said.message.token_ids == said.prompt_ids
    assert said.message.left_out.tokens == len(ids) - len(said.prompt_ids)
    assert [m.text for m in asked.without(count)][-1] == "now"


@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    question=st.integers(1, 60),
    limit=st.integers(1, 400),
)
def test_the_turns_that_stay_fill_at_most_half_of_the_room(
    tiny_directory: Path, lengths: list[int], question: int, limit: int
) -> None:
    """As many as do; none, where the system message and the newest turn leave no room."""
    speaker = Speaker.of(tiny_directory, CHATML)
    texts = ["x" * length for length in lengths]
    asked, ids = speaker.ask(turns(speaker, "Be brief.", *texts), "y" * question)
    said = shortened_turn(speaker.prompts, asked, len(ids), limit)
    assert said is not None
    prompts = [
        rendered(
            speaker, CHATML, speaker.ask(turns(speaker, "Be brief.", *kept), "y" * question)[0]
        )
        for kept in (texts[first:] for first in range(1, len(texts) + 1))
    ]
    alone = len(prompts[-1])
    fitting = [p for p in prompts if len(p) - alone <= max(0, limit - alone) // 2]
    assert said.prompt_ids == fitting[0]
    assert len(said.prompt_ids) <= max(limit, alone)


def test_a_first_turn_has_nothing_to_leave_out(tiny_directory: Path) -> None:
    """However long it is; whoever asks is told that it is too long."""
    speaker = Speaker.of(tiny_directory, CHATML)
    asked, ids = speaker.ask(speaker.system("Be brief."), "x" * 100)
    assert shortened_turn(speaker.prompts, asked, len(ids), 10) is None
    history = speaker.system("Be brief.")
    turn = next_turn(speaker.prompts, history, history, "x" * 100, 10)
    assert (turn.prompt_ids, turn.asked.gap) == (ids, NOTHING)


@TEMPLATES
def test_a_long_conversation_cuts_seldom(tiny_directory: Path, template: str) -> None:
    """Each cut makes room for many turns, which the template's next prompts only append to."""
    speaker = Speaker.of(tiny_directory, template)
    path, limit, cuts = speaker.system("Be brief."), 400, []
    before: tuple[int, ...] = ()
    whole = path
    for number in range(60):
        text = f"question {number}"
        turn = next_turn(speaker.prompts, path, path, text, limit)
        whole, ids = speaker.ask(whole, text)
        assert len(turn.prompt_ids) <= limit
        assert turn.asked.gap.tokens == len(ids) - len(turn.prompt_ids)
        assert [m.text for m in turn.asked.messages] == [m.text for m in whole.messages]
        if turn.asked.gap != path.gap:
            cuts.append(number)
        else:
            assert turn.prompt_ids[: len(before)] == before
        before = turn.prompt_ids
        path, whole = speaker.answer(turn.asked, "Yes."), speaker.answer(whole, "Yes.")
    assert 3 <= len(cuts) <= 12
    assert min(after - cut for cut, after in pairwise(cuts)) >= 4
    # What stays at the front is the system message, so that it stays cached.
    system = len("?system\nBe brief.?\n")
    assert common_prefix(before, speaker.ask(speaker.system("Be brief."), "a")[1]) >= system


def test_another_answer_says_the_message_again_where_it_has_to_be_shorter(
    tiny_directory: Path,
) -> None:
    """Otherwise the ids that were asked with are asked with again."""
    speaker = Speaker.of(tiny_directory, CHATML)
    path = turns(speaker, None, *"abcdef")
    ids = path.for_regeneration().token_ids
    same = another_answer(speaker.prompts, path, len(ids))
    assert (same.message, same.parent, same.prompt_ids) == (None, path.messages[-2].id, ids)
    assert another_answer(speaker.prompts, path, None) == same
    shorter = another_answer(speaker.prompts, path, len(ids) - 1)
    assert shorter.message is not None
    assert (shorter.message.text, shorter.parent) == ("f", path.messages[-3].id)
    assert shorter.asked.gap == LeftOut(6, len(ids) - len(shorter.prompt_ids))
    # And once more: what is left out is left out already.
    answered = speaker.answer(shorter.asked, "No.")
    again = another_answer(speaker.prompts, answered, len(ids) - 1)
    assert (again.message, again.prompt_ids) == (None, shorter.prompt_ids)
    # Shorter still: it counts from the beginning of the path.
    least = another_answer(speaker.prompts, answered, len(shorter.prompt_ids) - 1)
    assert least.asked.gap == LeftOut(10, len(ids) - len(least.prompt_ids))


def test_turns_after_and_before_a_cut(tiny_directory: Path) -> None:
    """What follows one goes without the turns; what goes back before it has them again."""
    speaker = Speaker.of(tiny_directory, CHATML)
    path = turns(speaker, None, *"abcdef")
    cut = next_turn(speaker.prompts, path, path, "now", len(path.token_ids))
    answered = speaker.answer(cut.asked, "Yes.")
    assert [m.text for m in answered.left_out] == [
        "a",
        "Yes.",
        "b",
        "Yes.",
        "c",
        "Yes.",
        "d",
        "Yes.",
    ]
    assert [m.text for m in answered.shown] == ["e", "Yes.", "f", "Yes.", "now", "Yes."]
    after = next_turn(speaker.prompts, answered, answered, "then", None)
    assert after.prompt_ids[: len(answered.token_ids)] == answered.token_ids
    assert after.asked.left_out == answered.left_out
    edited = next_turn(speaker.prompts, answered, answered.before_turn(7), "Now", None)
    assert edited.asked.left_out == ()
    assert edited.prompt_ids[: len(path.token_ids)] == path.token_ids


def test_another_model_leaves_out_what_was_left_out(tiny_directory: Path) -> None:
    """Its prompt is rendered anew, of the same messages."""
    speaker = Speaker.of(tiny_directory, CHATML)
    path = turns(speaker, "Be brief.", *"abcdef")
    cut = next_turn(speaker.prompts, path, path, "now", len(path.token_ids))
    answered = speaker.answer(cut.asked, "Yes.")
    other = Speaker.of(tiny_directory, CHATML, render_hash="other")
    turn = next_turn(other.prompts, answered, answered, "then", None)
    assert turn.asked.gap == answered.gap
    kept = turns(speaker, "Be brief.", *"abcdef"[answered.gap.messages // 2 :], "now")
    assert turn.prompt_ids == speaker.ask(kept, "then")[1]
    question = answered.for_regeneration()
    assert other.prompts.prompt_ids(question) == cut.prompt_ids


def test_the_layout_counts_the_messages_that_are_shown(tiny_directory: Path) -> None:
    """Each begins where it does in a conversation that never had the others."""
    speaker = Speaker.of(tiny_directory, CHATML)
    path = turns(speaker, "Be brief.", *"abcdef")
    cut = next_turn(speaker.prompts, path, path, "now", len(path.token_ids))
    turn = next_turn(speaker.prompts, path, speaker.answer(cut.asked, "Yes."), "then", None)
    kept = "abcdef"[turn.asked.gap.messages // 2 :]
    plain, ids = speaker.ask(turns(speaker, "Be brief.", *kept, "now"), "then")
    assert turn.prompt_ids == ids
    layout = speaker.prompts.layout(turn.asked, ids)
    expected = Speaker.of(tiny_directory, CHATML, "other").prompts.layout(plain, ids)
    assert layout.last == expected.last == 1 + 2 * len(kept) + 2
    rendered_whole = range(layout.last - 1)
    assert [layout.start(at) for at in rendered_whole] == [
        expected.start(at) for at in rendered_whole
    ]
    # The last answer and the last question have ids of their own.
    assert layout.start(layout.last - 1) == len(cut.prompt_ids)
    assert layout.start(layout.last) == len(cut.prompt_ids) + len("Yes.")
