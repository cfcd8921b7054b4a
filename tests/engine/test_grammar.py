"""Masks against the definition, drafts against step by step, and how an answer ends."""

from __future__ import annotations

import inspect
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from radixchat.engine import grammar as grammar_module
from radixchat.engine import grammar_source, grammar_vocabulary
from radixchat.engine.gguf_vocabulary import read_gguf_vocabulary
from radixchat.engine.grammar import GrammarCompiler
from radixchat.engine.json_vocabulary import read_json_vocabulary
from radixchat.engine.tokenizer import Tokenizer
from radixchat.tests.engine.grammar_model import Model, bits
from radixchat.tests.engine.vocabularies import byte_level_fields, sentencepiece_fields
from radixchat.tests.tiny_model import VOCABULARY, tiny_model_directory

CHOICES = ["yes", "yes please", "no", "ne zn", "não", "😀", "\n"]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"enum": ["Anna", "Annabel", "Bob", "Žofie"]},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 2},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
FORMATS = [
    ("json_schema", json.dumps(SCHEMA)),
    ("choice", json.dumps(CHOICES)),
    ("regex", r"(Hello|Hallo), [a-z]{2,8}( and [a-z]+){0,2}!"),
    ("lark", 'start: "<" word ">"\nword[max_tokens=3]: /[a-z ]+/'),
]


@pytest.fixture(scope="module")
def word_model() -> Iterator[Model]:
    """A byte-level vocabulary with merges, and user-defined tokens."""
    tokenizer = Tokenizer.from_gguf(byte_level_fields())
    model = Model(tokenizer, tokenizer.vocab_size + 9)
    yield model
    model.compiler.close()


@pytest.fixture(scope="module")
def space_model() -> Iterator[Model]:
    """A SentencePiece vocabulary, whose answers begin with a space that is not shown."""
    tokenizer = Tokenizer.from_gguf(sentencepiece_fields())
    model = Model(tokenizer, tokenizer.vocab_size)
    yield model
    model.compiler.close()


def test_masks_are_those_of_the_definition(byte_model: Model) -> None:
    """A byte is allowed iff a choice goes on with it, a stop token iff one is complete."""
    texts = [text.encode() for text in CHOICES]
    shown, stops = byte_model.tokenizer.token_bytes, sorted(byte_model.tokenizer.stop_ids)
    assert len(stops) == 2
    for text in texts:
        grammar = byte_model.compiler.compile("choice", json.dumps(CHOICES))
        for end in range(len(text) + 1):
            following = {t[end : end + 1] for t in texts if t[:end] == text[:end] and len(t) > end}
            expected = [i for i in range(256) if shown[i] in following]
            expected += stops if text[:end] in texts else []
            assert byte_model.allowed(grammar) == expected
            if end < len(text):
                grammar.accept(shown.index(text[end : end + 1]))


@pytest.mark.parametrize(("kind", "value"), FORMATS)
def test_a_draft_gets_the_masks_of_its_steps(word_model: Model, kind: str, value: str) -> None:
    """Masks after each draft token are those after accepting it, and drafts leave no trace."""
    for seed in range(6):
        tokens = word_model.walk(kind, value, seed)
        grammar, stepped = (word_model.compiler.compile(kind, value) for _ in range(2))
        chance = random.Random(seed)
        while tokens:
            draft = tokens[: chance.randint(0, 5)]
            if chance.random() < 0.5:  # another draft comes to nothing before
                grammar.begin_masks([*draft, *word_model.tokenizer.encode("x{")])
                grammar.masks()
            grammar.begin_masks(draft)
            masks = grammar.masks()
            assert len(masks) == 1 + len(draft)
            for mask, token in zip(masks, draft, strict=False):
                assert bits(mask) == word_model.allowed(stepped)
                stepped.accept(token)
                grammar.accept(token)
            if not draft:
                stepped.accept(tokens[0])
                grammar.accept(tokens[0])
            tokens = tokens[max(1, len(draft)) :]
        assert grammar.finished
        assert stepped.finished


def test_what_a_draft_cannot_reach_repeats_the_last_mask(word_model: Model) -> None:
    """After a wrong token, a stop token or an id beyond the rows nothing new is computed."""
    grammar = word_model.compiler.compile("regex", "(ab|cd)*")
    good, bad = word_model.tokenizer.encode("ab"), word_model.tokenizer.encode("x")
    stop = sorted(word_model.tokenizer.stop_ids)[:1]
    for wrong in (bad, stop, [word_model.rows + 40]):
        grammar.begin_masks([*good, *wrong, *good])
        masks = grammar.masks()
        assert len(masks) == 2 + 2 * len(good)
        assert all((mask == masks[len(good)]).all() for mask in masks[len(good) :])
    assert grammar.valid_prefix([*good, *bad]) == len(good)
    assert grammar.valid_prefix([*good, *stop]) == len(good)
    assert grammar.valid_prefix([word_model.rows + 40]) == 0


@pytest.mark.parametrize(("kind", "value"), FORMATS)
@pytest.mark.parametrize("name", ["byte_model", "word_model", "space_model"])
def test_forced_tokens_are_those_with_a_mask_to_themselves(
    request: pytest.FixtureRequest, name: str, kind: str, value: str
) -> None:
    """What is forced is what step-by-step masking leaves no choice about, and all of it."""
    model: Model = request.getfixturevalue(name)
    num_forced = 0
    for seed in range(4):
        grammar = model.compiler.compile(kind, value)
        for token in model.walk(kind, value, seed):
            alone, follower = [], grammar.copy()
            while len(allowed := model.allowed(follower)) == 1 and not follower.finished:
                alone += allowed
                follower.accept(allowed[0])
            assert grammar.forced(100) == alone
            assert grammar.forced(1) == alone[:1]
            num_forced += len(alone)
            grammar.accept(token)
    assert num_forced > 0


@pytest.mark.parametrize("name", ["byte_model", "word_model", "space_model"])
def test_every_answer_satisfies_its_format(request: pytest.FixtureRequest, name: str) -> None:
    """Whatever is sampled under the masks, the text that is shown is what was asked for."""
    model: Model = request.getfixturevalue(name)
    for seed in range(12):
        decode = model.tokenizer.decode
        assert decode(model.walk("choice", json.dumps(CHOICES), seed)) in CHOICES
        value = json.loads(decode(model.walk("json_schema", json.dumps(SCHEMA), seed)))
        assert list(value) == ["name", "age", "tags"]
        assert value["name"] in ("Anna", "Annabel", "Bob", "Žofie")
        assert 0 <= value["age"] <= 120
        assert all(len(tag) <= 6 for tag in value["tags"])


def test_the_space_that_is_not_shown_is_not_the_grammars(space_model: Model) -> None:
    """Where an answer's first space is swallowed, one comes before whatever was asked for."""
    for text in ("Hello there", " Hello there", "{}", "\n", "😀"):
        tokens = space_model.walk("choice", json.dumps([text]), 0)
        assert space_model.tokenizer.decode(tokens) == text


def test_forced_text_comes_in_the_models_tokens(word_model: Model, space_model: Model) -> None:
    """Of all ways to write a text that has to come, the one that the tokenizer has for it."""
    text = "Hello there, how are you?"
    for model in (word_model, space_model):
        expected = model.tokenizer.encode(text)
        assert len(expected) < len(text) / 2
        assert model.walk("choice", json.dumps([text]), 0)[:-1] == expected
        grammar = model.compiler.compile("choice", json.dumps([text]))
        assert grammar.forced(100) == expected[: len(grammar.forced(100))]
        assert len(grammar.forced(100)) >= len(expected) - 2  # the last may begin a longer token


def test_there_may_be_thousands_of_choices(byte_model: Model) -> None:
    """The parser sees one terminal, however many texts it stands for."""
    texts = [f"option {i}" for i in range(10_000)]
    assert byte_model.tokenizer.decode(byte_model.walk("choice", json.dumps(texts), 1)) in texts


def test_only_text_and_the_end_come_from_a_grammar(word_model: Model) -> None:
    """Control tokens, shown ones too, and rows without a token are never allowed."""
    controls = set(word_model.tokenizer.control_tokens.values())
    stops = set(word_model.tokenizer.stop_ids)
    shown = [i for i in controls if word_model.tokenizer.token_bytes[i]]
    assert shown, "some control tokens are shown"
    for kind, value in (("regex", "(.|\n)*"), ("lark", "start: <[*]>*")):
        allowed = set(word_model.allowed(word_model.compiler.compile(kind, value)))
        assert len(allowed) > 400
        assert allowed & controls == stops
        assert max(allowed) < word_model.tokenizer.vocab_size
    grammar = word_model.compiler.compile("regex", "<tool_call>")
    tokens: list[int] = []
    while not grammar.finished:
        tokens.append(word_model.allowed(grammar)[0])
        grammar.accept(tokens[-1])
    assert word_model.tokenizer.decode(tokens) == "<tool_call>"
    assert len(tokens) > 2


def test_an_answer_ends_with_a_stop_token(byte_model: Model) -> None:
    """A complete answer that could go on may do either; one that cannot has to end."""
    stops = sorted(byte_model.tokenizer.stop_ids)
    a = byte_model.tokenizer.encode("a")
    more = byte_model.compiler.compile("regex", "a{1,2}")
    more.accept(a[0])
    assert byte_model.allowed(more) == sorted([*a, *stops])
    ended = more.copy()
    ended.accept(stops[0])
    assert ended.finished
    assert ended.copy().finished
    more.accept(a[0])
    assert byte_model.allowed(more) == stops
    assert not more.finished
    with pytest.raises(AssertionError, match="before the end"):
        byte_model.compiler.compile("regex", "a").accept(stops[0])


def test_without_stop_tokens_an_answer_ends_where_nothing_can_follow(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A model that names no stop token ends with the last token of its grammar."""
    vocabulary = read_json_vocabulary(tiny_model_directory(tmp_path_factory.mktemp("tiny")))
    tokenizer = Tokenizer(replace(vocabulary, stop_ids=frozenset()))
    model = Model(tokenizer, VOCABULARY)
    assert tokenizer.decode(model.walk("choice", '["yes", "no"]', 0)) in ("yes", "no")
    model.compiler.close()


def test_a_copy_goes_its_own_way(byte_model: Model) -> None:
    """What one accepts does not move the other."""
    first = byte_model.compiler.compile("choice", '["ab", "cd"]')
    second = first.copy()
    first.accept(byte_model.tokenizer.encode("a")[0])
    second.accept(byte_model.tokenizer.encode("c")[0])
    assert first.forced(9) == byte_model.tokenizer.encode("b")
    assert second.forced(9) == byte_model.tokenizer.encode("d")
    again = byte_model.compiler.compile("choice", '["ab", "cd"]')
    assert byte_model.allowed(again) == sorted(byte_model.tokenizer.encode("ac"))


@pytest.mark.parametrize("lark", ['start: ("a" | "c") x\nx: x "b"', "start: /[ac]/ <[256]>"])
def test_a_dead_end_says_why(byte_model: Model, lark: str) -> None:
    """Where nothing may follow the mask is empty, and the grammar tells the reason."""
    grammar = byte_model.compiler.compile("lark", lark)
    assert grammar.dead_end() is None
    grammar.accept(byte_model.tokenizer.encode("a")[0])
    assert byte_model.allowed(grammar) == []
    assert grammar.dead_end() == "no answer satisfies it"
    assert grammar.forced(5) == []


def test_a_grammar_that_gets_too_complex_is_a_dead_end(
    byte_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the lexer meets its limit on the way, that answer stops and its grammar says so."""
    monkeypatch.setattr("radixchat.engine.grammar_place.MAX_LEXER_STATES", 200)
    grammar = byte_model.compiler.compile("regex", "(a|b)*a(a|b){12}")
    chance = random.Random(0)
    for _ in range(500):
        if grammar.dead_end() is not None:
            break
        grammar.accept(chance.choice(byte_model.tokenizer.encode("ab")))
    assert "too many states" in (grammar.dead_end() or "")
    assert byte_model.allowed(grammar) == []
    assert grammar.valid_prefix(byte_model.tokenizer.encode("a")) == 0
    assert grammar.forced(5) == []
    grammar.accept(byte_model.tokenizer.encode("a")[0])
    assert byte_model.allowed(grammar) == []


def test_text_is_not_normalised() -> None:
    """A grammar's text comes as it is written, where the tokenizer would write it otherwise."""
    fields = {**byte_level_fields(), "tokenizer.ggml.pre": "qwen2"}
    tokenizer = Tokenizer(read_gguf_vocabulary(fields))
    text = "cafe\u0301 ok"
    assert tokenizer.decode(tokenizer.encode(text)) != text, "the tokenizer composes"
    model = Model(tokenizer, tokenizer.vocab_size)
    assert tokenizer.decode(model.walk("choice", json.dumps([text]), 0)) == text
    model.compiler.close()


def test_many_answers_are_masked_at_once(word_model: Model) -> None:
    """Masks that are begun together are those of each answer alone."""
    walks: list[Sequence[int]] = [word_model.walk(*FORMATS[i % 4], seed=i) for i in range(40)]
    grammars = [word_model.compiler.compile(*FORMATS[i % 4]) for i in range(40)]
    for grammar, walk in zip(grammars, walks, strict=True):
        grammar.begin_masks(walk)
    together = [[bits(mask) for mask in grammar.masks()] for grammar in grammars]
    for i, (grammar, walk) in enumerate(zip(grammars, walks, strict=True)):
        grammar.begin_masks(walk)
        assert [bits(mask) for mask in grammar.masks()] == together[i]


def test_a_process_ends_with_masks_under_way(byte_model: Model) -> None:
    """Nobody has to close a compiler for the program to end."""
    code = (
        "from radixchat.engine.grammar import GrammarCompiler\n"
        "from radixchat.engine.tokenizer import Tokenizer\n"
        "from radixchat.tests.engine.vocabularies import byte_level_fields\n"
        "tokenizer = Tokenizer.from_gguf(byte_level_fields())\n"
        "grammar = GrammarCompiler(tokenizer, tokenizer.vocab_size).compile('json_object', '')\n"
        "grammar.begin_masks([])\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_few_compiled_grammars_are_kept(byte_model: Model) -> None:
    """Each holds what its lexer has met; the last eight wait for an equal one."""
    compiler = GrammarCompiler(byte_model.tokenizer, VOCABULARY)
    for i in range(20):
        compiler.compile("regex", f"{i}a*")
    assert compiler._compiled.cache_info().currsize == 8
    compiler.close()


def test_grammars_name_nobody_above_the_engine() -> None:
    """What serves answers knows of grammars, and they know nothing of it."""
    for module in (grammar_module, grammar_source, grammar_vocabulary):
        assert not re.search(r"\b(server|chat_cli|bench)\b", inspect.getsource(module))
