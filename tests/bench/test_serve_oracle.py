"""What an unlimited cache finds in prompts of which little more than the length is known."""

from __future__ import annotations

from radixchat.bench.serve_answer import Answer, TokenCount
from radixchat.bench.serve_load import Round
from radixchat.bench.serve_oracle import Counted, oracle
from radixchat.bench.serve_record import Record, Turn


def record(parent: Record | None = None, finish: str = "length") -> Record:
    answer = Answer("x", 0.0, ((1.0, "x"),), 1.0, finish, TokenCount())
    return Record(Turn(0, Round("1", 1, None), parent, ()), 0.0, answer)


def counted(
    each: Record, prompt: int | None, output: int | None, ids: tuple[int, ...] | None
) -> Counted:
    return Counted(each, prompt, None, output, ids)


def test_what_begins_alike_is_found() -> None:
    """Never the last token of a prompt."""
    requests = [counted(record(), 4, 2, ids) for ids in ((1, 2, 3, 4), (1, 2, 9, 9), (1, 2, 3, 4))]
    assert oracle(requests) == [0, 2, 3]


def test_a_turn_finds_its_prompt_and_answer() -> None:
    """But for the last token of the answer, which was sampled and not computed."""
    first = record()
    second = record(first)
    ids = (1, 2, 3, 4, 7, 7, 7, 5, 6)
    requests = [counted(first, 4, 3, (1, 2, 3, 4)), counted(second, 9, 3, ids)]
    assert oracle(requests) == [0, 6]


def test_an_answer_that_ended_early_may_have_computed_its_end() -> None:
    """The larger of the two is no error."""
    first = record(finish="stop")
    requests = [counted(first, 4, 3, None), counted(record(first), 9, 3, None)]
    assert oracle(requests) == [None, 7]


def test_two_that_follow_the_same_answer() -> None:
    """Share what the template puts behind it, which only a tokenizer tells."""
    first = record()
    known = [
        counted(first, 4, 3, (1, 2, 3, 4)),
        counted(record(first), 9, 3, (1, 2, 3, 4, 7, 7, 7, 5, 6)),
        counted(record(first), 9, 3, (1, 2, 3, 4, 7, 7, 7, 5, 8)),
    ]
    assert oracle(known) == [0, 6, 8]
    unknown = [counted(each.record, each.prompt, each.output, None) for each in known]
    assert oracle(unknown) == [None, 6, None]


def test_what_has_no_length_has_no_oracle() -> None:
    """Nor has what follows it, or what failed."""
    first = record()
    failed = Record(first.turn, 0.0, None)
    requests = [
        counted(first, None, 3, None), counted(record(first), 9, 3, None),
        counted(failed, None, None, None),
    ]  # fmt: skip
    assert oracle(requests) == [None, None, None]


def test_a_prompt_may_be_shorter_than_what_it_follows() -> None:
    """A server that encodes an answer anew may need fewer tokens for it."""
    first = record()
    requests = [counted(first, 4, 9, (1, 2, 3, 4)), counted(record(first), 8, 3, None)]
    assert oracle(requests) == [0, 7]
