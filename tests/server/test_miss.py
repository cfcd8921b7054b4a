"""Each reason for a miss, with every number and text of its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radixchat.engine.common_prefix import common_prefix
from radixchat.engine.request import Usage
from radixchat.server.comparison import Comparison, closest
from radixchat.server.conversation import Conversation
from radixchat.server.miss import AskedPrompt, explain_miss
from radixchat.server.protocol import MissReport
from radixchat.server.turn import next_turn
from radixchat.tests.server.paths import EMPTY, Asked, Speaker
from radixchat.tests.server.templates import CHATML, DATED, STRIPS_REASONING

GENERATE = "?\n?assistant\n"  # one character a token: "?" stands for a control token


@pytest.fixture(scope="module")
def chatml(tiny_directory: Path) -> Speaker:
    return Speaker.of(tiny_directory, CHATML)


def computed(path: Conversation, **changes: Any) -> Comparison:
    """What the response that ends the path has computed: all but its last token."""
    values: dict[str, Any] = {
        "path": path,
        "num_tokens": len(path.token_ids) - 1,
        "token_ids": path.token_ids[:-1],
        "render_hash": "r",
        "principal": "local",
        "here": True,
        "began": 1000.0,
    }
    return Comparison(**values | changes)


def explain(
    speaker: Speaker,
    asked: Asked,
    comparison: Comparison | None,
    cached: int,
    usage: Callable[[Usage], Usage] = lambda usage: usage,
    **changes: Any,
) -> MissReport | None:
    """Why only `cached` tokens of the prompt were cached."""
    path, ids = asked
    prompt = replace(AskedPrompt(path, ids, "r", "local", cache_began=500.0), **changes)
    layout = speaker.prompts.layout(path, ids)
    cost = usage(Usage(len(ids), cached, 0, 5))
    return explain_miss(prompt, comparison, cost, layout, speaker.tokenizer)


@pytest.fixture(scope="module")
def turn(chatml: Speaker) -> Conversation:
    """A system message, a question and its answer."""
    path, _ = chatml.ask(chatml.system("Be brief."), "Hi")
    return chatml.answer(path, "Hello")


def test_a_first_turn_is_cold(chatml: Speaker) -> None:
    """Nothing to compare with: the first token that was not cached, and its message."""
    asked = chatml.ask(chatml.system("Be brief."), "Hi")
    path, ids = asked
    report = explain(chatml, asked, None, 0)
    assert report == MissReport("cold", 0, path.messages[0].id, None, None, 0, 0)
    after_system = len("?system\nBe brief.")
    report = explain(chatml, asked, None, after_system)
    assert report == MissReport("cold", after_system, path.messages[1].id, None, None, 0, 0)
    assert explain(chatml, asked, None, len(ids) - 1) is None


def test_nothing_is_said_where_nothing_was_missed(chatml: Speaker, turn: Conversation) -> None:
    """A turn, another answer and an edit that find all that the last response had in common."""
    comparison = computed(turn)
    later = chatml.ask(turn, "More")
    assert explain(chatml, later, comparison, comparison.num_tokens) is None
    assert explain(chatml, later, comparison, comparison.num_tokens + 3) is None
    again = turn.for_regeneration()
    ids = chatml.prompts.prompt_ids(again)
    assert explain(chatml, (again, ids), comparison, len(ids) - 1) is None
    edited = chatml.ask(turn.before_turn(1), "Hello?")
    common = len("?system\nBe brief.?\n?user\nH")
    assert comparison.common(edited[1], "r") == common
    assert explain(chatml, edited, comparison, common) is None
    report = explain(chatml, edited, comparison, common - 1)
    assert report is not None
    assert (report.reason, report.cache_missed_tokens) == ("unknown", 1)


def test_evicted_tokens_are_told_with_their_age(chatml: Speaker, turn: Conversation) -> None:
    """The cache's own record proves it: it had the next token and gave it up."""
    later = chatml.ask(turn, "More")
    comparison = computed(turn)

    def evicted(usage: Usage) -> Usage:
        return replace(usage, evicted_tokens=4, evicted_seconds_ago=12.5)

    cached = len("?system\nBe brief.")
    report = explain(chatml, later, comparison, cached, evicted)
    reusable = comparison.num_tokens
    message = turn.messages[1].id
    assert report == MissReport(
        "evicted", cached, message, None, None, reusable - cached, reusable, 12.5
    )


def test_tokens_of_an_earlier_process_have_expired(chatml: Speaker, turn: Conversation) -> None:
    """Only where another process computed them before this cache began; else it is unknown."""
    later = chatml.ask(turn, "More")
    for here, began, reason in (
        (False, 400.0, "expired"),
        (False, 600.0, "unknown"),
        (True, 400.0, "unknown"),
    ):
        comparison = computed(turn, here=here, began=began)
        reusable = comparison.num_tokens
        first = turn.messages[0].id
        report = explain(chatml, later, comparison, 0)
        assert report == MissReport(reason, 0, first, None, None, reusable, reusable)


def test_an_edited_system_prompt_has_changed(chatml: Speaker, turn: Conversation) -> None:
    """The first token that differs, its message, and both texts; the new question is no miss."""
    path, ids = asked = chatml.ask(chatml.system("Be boring, please."), "More")
    index = len("?system\nBe b")
    assert explain(chatml, asked, computed(turn), index) == MissReport(
        reason="changed",
        index=index,
        message=path.messages[0].id,
        expected_text=r"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n…",
        got_text=r"<|im_start|>system\nBe boring, please.<|im_end|>\n<|im_start|>user\nMore…",
        cache_missed_tokens=len("oring, please."),
        comparison_reusable_tokens=index,
    )
    # Had some other conversation left more of it, nothing before the question would be missed.
    before_question = len("?system\nBe boring, please.")
    assert explain(chatml, asked, computed(turn), before_question) is None
    assert len(ids) > before_question


def test_a_system_prompt_that_was_added_has_changed(chatml: Speaker) -> None:
    """Another role at the same place is another message, though its text is not reached."""
    old = chatml.answer(chatml.ask(EMPTY, "Hi")[0], "Hello")
    path, _ = asked = chatml.ask(chatml.system("S"), "Hi")
    report = explain(chatml, asked, computed(old), 1)
    assert report is not None
    assert (report.reason, report.index, report.message) == ("changed", 1, path.messages[0].id)
    assert report.cache_missed_tokens == len("?system\nS") - 1


def test_an_earlier_message_of_the_user_has_changed(chatml: Speaker, turn: Conversation) -> None:
    """An edit whose answer never came, and then another question: the edited one is named."""
    edited, _ = chatml.ask(turn.before_turn(1), "Hey")
    path, ids = asked = chatml.ask(edited, "More")
    index = len("?system\nBe brief.?\n?user\nH")
    report = explain(chatml, asked, computed(turn), index)
    assert report is not None
    assert (report.reason, report.index, report.message) == ("changed", index, path.messages[1].id)
    had = computed(turn).num_tokens
    before = len(ids) - len(path.messages[2].token_ids)
    assert report.cache_missed_tokens == min(had, before) - index
    assert report.expected_text == r"\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHell"
    assert report.got_text == (
        r"\n<|im_start|>user\nHey<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n…"
    )


def dated(model: Path, day: str) -> Speaker:
    """With a template that writes the day into its head."""
    return Speaker.of(model, DATED.replace("{{ strftime_now('%d %B') }}", day))


def test_a_date_in_the_template(tiny_directory: Path) -> None:
    """The same messages on another day: the template's own text differs, at the date."""
    yesterday, today = (dated(tiny_directory, day) for day in ("03 May", "04 May"))
    old = yesterday.answer(yesterday.ask(EMPTY, "Hi")[0], "Hello")
    path, _ = asked = today.ask(old, "More")
    index = len("?day\n0")
    rest = r"<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>…"
    assert explain(today, asked, computed(old), index) == MissReport(
        reason="template",
        index=index,
        message=path.messages[0].id,
        expected_text=rf"<|im_start|>day\n03 May{rest}",
        got_text=rf"<|im_start|>day\n04 May{rest}",
        cache_missed_tokens=len("4 May?\n?user\nHi" + GENERATE + "Hello") - 1,
        comparison_reusable_tokens=index,
    )


def test_a_date_before_a_message_that_has_changed_too(tiny_directory: Path) -> None:
    """The first difference is the template's, and so is the reason."""
    yesterday, today = (dated(tiny_directory, day) for day in ("03 May", "04 May"))
    old = yesterday.answer(yesterday.ask(yesterday.system("Be brief."), "Hi")[0], "Hello")
    path, _ = asked = today.ask(today.system("Be boring, please."), "More")
    report = explain(today, asked, computed(old), len("?day\n0"))
    assert report is not None
    assert (report.reason, report.index) == ("template", len("?day\n0"))
    assert report.message == path.messages[0].id


def test_whitespace_that_the_template_trims(tiny_directory: Path) -> None:
    """The old answer's end is gone; what follows it is the place of the first other token."""
    speaker = Speaker.of(tiny_directory, STRIPS_REASONING.replace("[-1]", "[-1].strip()"))
    old = speaker.answer(speaker.ask(EMPTY, "Hi")[0], "Hello  \n\n")
    unanswered, _ = speaker.ask(old, "Well?")
    path, _ = asked = speaker.ask(unanswered, "More")
    index = len("?user\nHi" + GENERATE + "Hello")
    report = explain(speaker, asked, computed(old), index)
    assert report is not None
    assert (report.reason, report.index, report.message) == ("template", index, path.messages[2].id)
    assert report.cache_missed_tokens == len("  \n")


def test_stripped_reasoning(tiny_directory: Path) -> None:
    """The template cuts the old answer: it differs from its first token on."""
    speaker = Speaker.of(tiny_directory, STRIPS_REASONING)
    old = speaker.answer(speaker.ask(EMPTY, "Hi")[0], "<think>Hm.</think>Hello")
    path, _ = asked = speaker.ask(old, "More")
    index = len("?user\nHi" + GENERATE)
    assert explain(speaker, asked, computed(old), index) == MissReport(
        reason="template",
        index=index,
        message=path.messages[1].id,
        expected_text=r"<|im_start|>assistant\n<think>Hm.</think>Hell",
        got_text=r"<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nMore<|im_end|>\n…",
        cache_missed_tokens=len("Hello"),
        comparison_reusable_tokens=index,
    )


def test_another_tenant(chatml: Speaker, turn: Conversation) -> None:
    """The earlier response was computed for somebody else: no text is shown."""
    later = chatml.ask(turn, "More")
    comparison = computed(turn, principal="bob")
    reusable = comparison.num_tokens
    first = turn.messages[0].id
    report = explain(chatml, later, comparison, 0)
    assert report == MissReport("namespace", 0, first, None, None, reusable, reusable)
    changed = chatml.ask(chatml.system("Be boring, please."), "More")
    report = explain(chatml, changed, comparison, 0)
    assert report is not None
    assert (report.reason, report.expected_text, report.got_text) == ("namespace", None, None)


def test_another_model(tiny_directory: Path, chatml: Speaker, turn: Conversation) -> None:
    """Ids of another model mean nothing here, even where they are equal."""
    other = Speaker.of(tiny_directory, CHATML, render_hash="other")
    path, ids = asked = other.ask(turn, "More")
    report = explain(other, asked, computed(turn), 0, render_hash="other")
    missed = min(len(turn.token_ids) - 1, len(ids) - len("?\n?user\nMore" + GENERATE))
    assert report == MissReport("model", 0, path.messages[0].id, None, None, missed, 0)


def test_what_was_computed_but_not_stored_is_unknown(chatml: Speaker, turn: Conversation) -> None:
    """Another answer to another model's question was rendered for once: its ids are not kept."""
    comparison = computed(turn, token_ids=None)
    path, _ = asked = chatml.ask(turn, "More")
    report = explain(chatml, asked, comparison, 4)
    missed = comparison.num_tokens - 4
    assert report == MissReport("unknown", 4, path.messages[0].id, None, None, missed, None)
    assert explain(chatml, asked, comparison, comparison.num_tokens) is None


def test_a_prompt_that_cannot_be_rendered_again_is_unknown(
    chatml: Speaker, turn: Conversation
) -> None:
    """Without the messages' places a difference has no owner."""
    path, ids = chatml.ask(turn, "More")
    strange = (*ids[:9], 0, *ids[10:])
    report = explain(chatml, (path, strange), computed(turn), 9)
    reusable, missed = 9, computed(turn).num_tokens - 9
    assert report == MissReport("unknown", 9, None, None, None, missed, reusable)


def test_turns_that_were_left_out(chatml: Speaker, turn: Conversation) -> None:
    """The place where they were: what stands there now was computed before, elsewhere."""
    path = chatml.answer(chatml.ask(turn, "A long question that is left out")[0], "Hello again")
    path = chatml.answer(chatml.ask(path, "More")[0], "A")
    cut = next_turn(chatml.prompts, path, path, "Last", len(path.token_ids))
    assert len(cut.asked.left_out) == 4
    index = common_prefix(path.token_ids, cut.prompt_ids)
    report = explain(chatml, (cut.asked, cut.prompt_ids), computed(path), index)
    missed = len(cut.prompt_ids) - len("?\n?user\nLast" + GENERATE) - index
    assert missed > 0
    assert report is not None
    assert report.expected_text is not None
    assert report.got_text is not None
    assert report == MissReport(
        "truncated",
        index,
        cut.asked.shown[1].id,
        report.expected_text,
        report.got_text,
        missed,
        index,
    )
    assert r"user\nMore" in report.got_text
    assert r"user\nMore" not in report.expected_text[:40]
    # With all of that cached nothing is missed.
    assert explain(chatml, (cut.asked, cut.prompt_ids), computed(path), index + missed) is None
    # And what follows is compared with a path that is without the same turns.
    answered = chatml.answer(cut.asked, "Yes")
    then = next_turn(chatml.prompts, answered, answered, "Then", len(path.token_ids))
    comparison = computed(answered)
    asked = (then.asked, then.prompt_ids)
    assert explain(chatml, asked, comparison, comparison.num_tokens) is None
    lost = explain(chatml, asked, comparison, 5)
    assert lost is not None
    assert lost.reason == "unknown"
    # Where they are back, this is the reason, too.
    back = next_turn(chatml.prompts, answered, answered, "Then", None)
    index = common_prefix(answered.token_ids, back.prompt_ids)
    found = explain(chatml, (back.asked, back.prompt_ids), comparison, index)
    assert found is not None
    assert (found.reason, found.index, found.message) == ("truncated", index, path.messages[1].id)


def test_the_closest_of_two_is_compared(chatml: Speaker, turn: Conversation) -> None:
    """After a return to an older branch that branch counts, not the response made last."""
    other = chatml.answer(chatml.ask(EMPTY, "Something else")[0], "Well")
    _, ids = chatml.ask(turn, "More")
    last, own = computed(other), computed(turn)
    assert closest([last, own], ids, "r") is own
    assert closest([last, computed(turn, token_ids=None)], ids, "r") is last
    assert closest([last, own], ids, "another") is last
    assert closest([], ids, "r") is None
