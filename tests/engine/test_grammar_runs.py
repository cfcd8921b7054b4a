"""Text that has to come: its masks against the definition, what it costs, and how much may come."""

from __future__ import annotations

import random
from itertools import takewhile
from time import perf_counter

import pytest

from radixchat.engine.grammar import GrammarCompiler
from radixchat.tests.engine.grammar_model import Model, bits
from radixchat.tests.tiny_model import VOCABULARY


@pytest.mark.parametrize("looks_ahead", [True, False])
def test_masks_of_a_run_without_choice_are_those_of_the_definition(
    byte_model: Model, looks_ahead: bool
) -> None:
    """Also before it, after it, for a draft that leaves it or goes beyond it, and for copies."""
    encode, stops = byte_model.tokenizer.encode, sorted(byte_model.tokenizer.stop_ids)
    rows = [encode("ab"), *[encode("x")] * 30, encode("cd"), *[encode("y")] * 3, stops]
    answer = [*encode("a" + "x" * 30 + "d" + "yyy"), stops[0]]
    chance = random.Random(0)
    for _ in range(40):
        grammar, place = byte_model.compiler.compile("regex", "[ab]x{30}[cd]y{3}"), 0
        while not grammar.finished:
            if looks_ahead:
                run = list(takewhile(lambda i: len(rows[i]) == 1, range(place, len(rows))))
                assert grammar.forced(99) == [answer[i] for i in run]
                assert grammar.forced(2) == [answer[i] for i in run[:2]]
            draft = answer[place : place + chance.choice([0, 1, 5, 40])]
            if draft and chance.random() < 0.5:
                draft[chance.randrange(len(draft))] = chance.choice([*encode("cxz"), *stops, 999])
            expected, reached, reachable = [rows[place]], place, True
            for token in draft:
                reachable = reachable and token in rows[reached] and token not in stops
                reached += reachable
                expected.append(rows[reached])
            grammar.begin_masks(draft)
            assert [bits(mask) for mask in grammar.masks()] == expected
            grammar = grammar.copy() if chance.random() < 0.2 else grammar
            for token in answer[place : place + chance.choice([1, 1, 3])]:
                grammar.accept(token)
                place += 1


@pytest.mark.parametrize("looks_ahead", [True, False])
def test_a_run_without_choice_asks_no_worker_and_takes_no_time(
    byte_model: Model, looks_ahead: bool
) -> None:
    """Of 20,000 bytes that have to come nothing is computed again: a step takes microseconds."""
    compiler = GrammarCompiler(byte_model.tokenizer, VOCABULARY)
    grammar = compiler.compile("regex", "[ab](x{1000}){20}")
    grammar.accept(byte_model.tokenizer.encode("b")[0])
    (x,) = byte_model.tokenizer.encode("x")
    if looks_ahead:
        assert grammar.forced(20_001) == [x] * 20_000
    else:
        grammar.begin_masks([])
        assert bits(*grammar.masks()) == [x]
    compiler.close()  # a worker that is asked from here on refuses
    seconds = []
    for _ in range(200):
        start = perf_counter()
        draft = grammar.forced(4) if looks_ahead else []
        grammar.begin_masks(draft)
        masks = grammar.masks()
        grammar.accept(x)
        seconds.append(perf_counter() - start)
        assert [bits(mask) for mask in masks] == [[x]] * (5 if looks_ahead else 1)
    assert sorted(seconds)[100] < 0.001


def test_more_given_text_than_anybody_waits_for_is_a_dead_end(byte_model: Model) -> None:
    """One free character before it does not make it any shorter."""
    grammar = byte_model.compiler.compile("lark", 'start: /[ab]/ x{9000}\nx: "Hello "')
    assert grammar.dead_end() is None
    grammar.accept(byte_model.tokenizer.encode("a")[0])
    assert grammar.forced(5) == []
    assert byte_model.allowed(grammar) == []
    assert grammar.dead_end() == "54000 given bytes would come next, more than 32768"
