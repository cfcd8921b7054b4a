"""Which turns a prompt leaves out when the conversation no longer fits, and how it goes on."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixchat.engine.errors import InvalidRequest
from radixchat.engine.template import ChatTemplate
from radixchat.server.conversation import Conversation
from radixchat.server.message import NOTHING, LeftOut, NewMessage
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
    after = next_turn(speaker.prompts, answered, answered, "then", len(path.token_ids))
    assert after.prompt_ids[: len(answered.token_ids)] == answered.token_ids
    assert after.asked.left_out == answered.left_out
    edited = next_turn(speaker.prompts, answered, answered.before_turn(7), "Now", None)
    assert edited.asked.left_out == ()
    assert edited.prompt_ids[: len(path.token_ids)] == path.token_ids


def test_another_model_leaves_out_what_was_left_out(tiny_directory: Path) -> None:
    """Its prompt is rendered anew, of the same messages; it counts for itself what is out."""
    speaker = Speaker.of(tiny_directory, CHATML)
    path = turns(speaker, "Be brief.", *"abcdef")
    count = 8
    shorter = speaker.prompts.render_without(path, "now", count)
    # What another tokenizer makes of these messages may be any number of tokens.
    message = NewMessage("now", shorter, absolute=True, left_out=LeftOut(count, 10**6))
    answered = speaker.answer(path.said(message, "other"), "Yes.")
    _, whole = speaker.ask(turns(speaker, "Be brief.", *"abcdef", "now"), "then")
    turn = next_turn(speaker.prompts, answered, answered, "then", len(whole) - 1)
    kept = turns(speaker, "Be brief.", *"abcdef"[count // 2 :], "now")
    assert turn.prompt_ids == speaker.ask(kept, "then")[1]
    assert turn.asked.gap == LeftOut(count, len(whole) - len(turn.prompt_ids))
    full = next_turn(speaker.prompts, answered, answered, "then", len(whole))
    assert (full.asked.gap, full.prompt_ids) == (NOTHING, whole)
    _, before = speaker.ask(path, "now")
    same = another_answer(speaker.prompts, answered, len(before) - 1)
    assert (same.message, same.prompt_ids) == (None, shorter)
    again = another_answer(speaker.prompts, answered, len(before))
    assert (again.asked.gap, again.prompt_ids) == (NOTHING, before)


@TEMPLATES
@pytest.mark.parametrize("system", [None, "Be brief."])
def test_what_was_left_out_comes_back_as_soon_as_it_fits(
    tiny_directory: Path, template: str, system: str | None
) -> None:
    """The user message then holds the whole prompt; with one token less nothing changes."""
    speaker = Speaker.of(tiny_directory, template)
    path = turns(speaker, system, *"abcdef")
    cut = next_turn(speaker.prompts, path, path, "now", len(path.token_ids))
    answered = speaker.answer(cut.asked, "Yes.")
    _, whole = speaker.ask(turns(speaker, system, *"abcdef", "now"), "then")
    for limit in (len(whole) - 1, len(cut.prompt_ids) + 40):
        assert next_turn(speaker.prompts, answered, answered, "then", limit).asked.gap.messages
    for fits in (len(whole), None):
        turn = next_turn(speaker.prompts, answered, answered, "then", fits)
        assert turn.prompt_ids == whole
        assert turn.message == NewMessage("then", whole, absolute=True)
        assert (turn.asked.gap, turn.parent) == (NOTHING, answered.tip)
        # From there it goes on as if nothing had ever been out.
        on = speaker.answer(turn.asked, "Yes.")
        after = next_turn(speaker.prompts, on, on, "more", fits and 2 * fits)
        assert after.asked.gap == NOTHING
        kept = turns(speaker, system, *"abcdef", "now", "then")
        assert after.prompt_ids == speaker.ask(kept, "more")[1]


def test_another_answer_and_an_edit_have_it_back_too(tiny_directory: Path) -> None:
    """Also where the ids of the message that is answered again are without it."""
    speaker = Speaker.of(tiny_directory, CHATML)
    path = turns(speaker, "Be brief.", *"abcdef")
    limit = len(path.token_ids)
    cut = next_turn(speaker.prompts, path, path, "now", limit)
    answered = speaker.answer(cut.asked, "Yes.")
    _, before = speaker.ask(path, "now")
    for fits in (len(before), None):
        # The message that made the cut: before it there is none, and its ids are gone on from.
        again = another_answer(speaker.prompts, answered, fits)
        assert (again.prompt_ids, again.asked.gap) == (before, NOTHING)
        assert again.message is not None
        assert (again.message.text, again.message.absolute) == ("now", False)
        assert again.parent == path.tip
    later = next_turn(speaker.prompts, answered, answered, "then", limit)
    assert later.asked.gap == cut.asked.gap
    _, whole = speaker.ask(turns(speaker, "Be brief.", *"abcdef", "now"), "then")
    last = speaker.answer(later.asked, "Yes.")
    assert another_answer(speaker.prompts, last, len(whole) - 1).message is None
    for fits in (len(whole), None):
        again = another_answer(speaker.prompts, last, fits)
        assert again.message == NewMessage("then", whole, absolute=True)
        assert (again.prompt_ids, again.parent) == (whole, answered.tip)
        edited = next_turn(speaker.prompts, last, last.before_turn(8), "Then", fits)
        assert edited.asked.gap == NOTHING
        assert len(edited.prompt_ids) == len(whole)


def test_what_stays_cut_is_never_rendered_as_a_whole(tiny_directory: Path) -> None:
    """What is known to be out tells that all of it is too long; this template would refuse it."""
    refusing = "{% if messages | length > 41 %}{{ raise_exception('long') }}{% endif %}" + CHATML
    speaker = Speaker.of(tiny_directory, refusing)
    path = speaker.system("Be brief.")
    for number in range(60):
        turn = next_turn(speaker.prompts, path, path, f"question {number}", 400)
        again = another_answer(speaker.prompts, speaker.answer(turn.asked, "No."), 400)
        assert (again.message, again.prompt_ids) == (None, turn.prompt_ids)
        path = speaker.answer(turn.asked, "Yes.")
    assert path.gap.messages > 41
    with pytest.raises(InvalidRequest, match="long"):
        next_turn(speaker.prompts, path, path, "all of it?", None)


def test_the_layout_counts_the_messages_that_are_shown(tiny_directory: Path) -> None:
    """Each begins where it does in a conversation that never had the others."""
    speaker = Speaker.of(tiny_directory, CHATML)
    path = turns(speaker, "Be brief.", *"abcdef")
    cut = next_turn(speaker.prompts, path, path, "now", len(path.token_ids))
    answered = speaker.answer(cut.asked, "Yes.")
    turn = next_turn(speaker.prompts, path, answered, "then", len(path.token_ids))
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
