"""The chats of `bench serve`: rounds, texts, and what makes them new."""

from __future__ import annotations

from radixchat.bench.serve_load import Round, ServeLoad, front_number
from radixchat.bench.trace_words import encode


def test_rounds_follow_each_other() -> None:
    """An edit follows what stood before the middle turn; going back follows the last."""
    assert [(each.name, each.after) for each in ServeLoad(turns=3).rounds()] == [
        ("1", None), ("2", "1"), ("3", "2"),
    ]  # fmt: skip
    *_, edit, back = ServeLoad(turns=6, edit=True).rounds()
    assert (edit, back) == (Round("edit", 3, "2"), Round("back", 7, "6"))
    *_, edit, back = ServeLoad(turns=2, edit=True).rounds()
    assert (edit, back) == (Round("edit", 1, None), Round("back", 3, "2"))


def test_texts_have_about_their_length() -> None:
    """In tokens; a message is the same in every arm, and no two are the same."""
    load = ServeLoad()
    system = load.system_prompt(front_number(1, "a"))
    assert abs(len(encode(system.text)) - load.system) < 20
    steps = list(load.rounds())
    messages = {load.message_of(n, step).text for n in range(8) for step in steps}
    assert len(messages) == 48
    assert all(len(text.split()) == load.message for text in messages)
    assert load.message_of(3, steps[2]) == load.message_of(3, steps[2])


def test_the_number_at_the_front_is_as_new_as_its_names() -> None:
    """Twelve digits, and all that follows them is the same."""
    numbers = {front_number(seed, name) for seed in range(50) for name in ("a", "b")}
    assert len(numbers) == 100
    assert all(len(number) == 12 and number.isdigit() for number in numbers)
    texts = {ServeLoad().system_prompt(number).text[12:] for number in numbers}
    assert len(texts) == 1
