"""Where the messages of a conversation lie in its prompt."""

from __future__ import annotations

from pathlib import Path

from radixchat.server.prompt_layout import Place, PromptLayout
from radixchat.tests.server.paths import EMPTY, Asked, Speaker
from radixchat.tests.server.templates import CHATML, STRIPS_REASONING

# The tiny model's tokens are bytes and control tokens. "?" stands for one of the latter.
NEXT = len("?\n")  # what ends a message; it is in the share of the one that follows
GENERATE = NEXT + len("?assistant\n")


def layout(speaker: Speaker, asked: Asked) -> PromptLayout:
    return speaker.prompts.layout(*asked)


def starts(speaker: Speaker, asked: Asked) -> list[int | None]:
    found = layout(speaker, asked)
    return [found.start(position) for position in range(found.last + 1)]


def test_a_first_prompt_is_rendered_as_a_whole(tiny_directory: Path) -> None:
    """The share of a message begins where the text of the one before it ends."""
    speaker = Speaker.of(tiny_directory, CHATML)
    asked = speaker.ask(speaker.system("Be brief."), "Hi")
    after_system = len("?system\nBe brief.")
    assert starts(speaker, asked) == [0, after_system]
    places = [layout(speaker, asked).place(index) for index in (0, 7, 8, after_system)]
    assert places == [Place(0, False), Place(0, False), Place(0, True), Place(1, False)]
    text = after_system + NEXT + len("?user\n")
    assert [layout(speaker, asked).place(text + offset) for offset in (-1, 0, 2)] == [
        Place(1, False),
        Place(1, True),
        Place(1, True),
    ]


def test_appended_messages_lie_where_their_ids_do(tiny_directory: Path) -> None:
    """After the part that was rendered as a whole each message has its own ids."""
    speaker = Speaker.of(tiny_directory, CHATML)
    path, first = speaker.ask(EMPTY, "Hi")
    asked = speaker.ask(speaker.answer(path, "Hello"), "More")
    assert starts(speaker, asked) == [0, len(first), len(first) + 5]
    # A message's own ids hold the start of its answer, too.
    assert layout(speaker, asked).place(len(first) - 1) == Place(0, True)
    assert layout(speaker, asked).place(len(first)) == Place(1, True)
    assert layout(speaker, asked).place(len(asked[1]) - 1) == Place(2, True)


def test_a_rewritten_history_is_found_by_rendering_it_again(tiny_directory: Path) -> None:
    """A template that cuts answers keeps no borders, and yet each message is found."""
    speaker = Speaker.of(tiny_directory, STRIPS_REASONING)
    path = speaker.answer(speaker.ask(EMPTY, "Hi")[0], "<think>Hm.</think>Hello")
    asked = speaker.ask(path, "More")
    question, answer = len("?user\nHi"), len("?user\nHi") + GENERATE + len("Hello")
    assert starts(speaker, asked) == [0, question, answer]
    assert layout(speaker, asked).place(question + GENERATE - 1) == Place(1, False)
    assert layout(speaker, asked).place(question + GENERATE) == Place(1, True)
    assert layout(speaker, asked).place(answer) == Place(2, False)


def test_a_question_that_was_never_answered_is_in_its_place(tiny_directory: Path) -> None:
    """The empty answer that a template gets for it belongs to the next message's share."""
    speaker = Speaker.of(tiny_directory, STRIPS_REASONING)
    path, _ = speaker.ask(EMPTY, "Hi")
    asked = speaker.ask(path, "Still there?")
    assert starts(speaker, asked) == [0, len("?user\nHi")]
    text = len("?user\nHi") + GENERATE + NEXT + len("?user\n")
    assert layout(speaker, asked).place(text - 1) == Place(1, False)
    assert layout(speaker, asked).place(text) == Place(1, True)


def test_a_prompt_that_cannot_be_rendered_again_has_no_places(tiny_directory: Path) -> None:
    """Where the template gives other tokens now (a date has changed, say) nothing is claimed."""
    speaker = Speaker.of(tiny_directory, CHATML)
    path, ids = speaker.ask(speaker.system("Be brief."), "Hi")
    found = speaker.prompts.layout(path, (*ids[:-1], 0))
    assert found.place(3) is None
    assert (found.start(0), found.start(1)) == (0, None)
