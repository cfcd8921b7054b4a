"""The limits of a grammar: nothing ends the process, stalls others, or spoils others' answers."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from radixchat.engine import grammar_place
from radixchat.engine.errors import InvalidRequest
from radixchat.engine.grammar import Grammar
from radixchat.engine.grammar_source import (
    MAX_GROUPS,
    MAX_LEVELS,
    MAX_RULES,
)
from radixchat.tests.engine.grammar_model import Model
from radixchat.tests.tiny_model import VOCABULARY


def rules(count: int, nested: int = 0) -> str:
    """A chain of so many rules, each of them in nested groups."""
    opened, closed = "(" * nested, ")?" * nested
    chain = [f'r{i}: {opened}"b" r{i + 1}{closed}' for i in range(count - 2)]
    return "\n".join(["start: r0", *chain, f'r{count - 2}: "a"'])


def terminals(count: int) -> str:
    chain = [f'T{i}: T{i + 1} "a"' for i in range(count - 2)]
    return "\n".join(["start: T0", *chain, f'T{count - 2}: "a"'])


WRAPS: dict[str, Callable[[object], object]] = {
    "plain": lambda inner: inner,
    "any": lambda inner: {"anyOf": [inner, {"type": "number"}]},
    "all": lambda inner: {"allOf": [inner, {}]},
    "items": lambda inner: {"type": "array", "items": inner},
    "first": lambda inner: {"type": "array", "prefixItems": [inner], "minItems": 1},
    "property": lambda inner: {"type": "object", "properties": {"x": inner}, "required": ["x"]},
    "others": lambda inner: {"type": "object", "additionalProperties": inner},
}


def references(name: str, count: int, nested: int = 1) -> str:
    """A chain of so many references, each of them nested in the target of the one before."""
    targets: dict[str, object] = {f"a{count}": {"type": "null"}}
    for i in range(count):
        inner: object = {"$ref": f"#/$defs/a{i + 1}"}
        for _ in range(nested):
            inner = WRAPS[name](inner)
        targets[f"a{i}"] = inner
    return json.dumps({"$defs": targets, "$ref": "#/$defs/a0"})


def overlapping(count: int) -> str:
    """References to each level of the same nested objects."""
    inner: object = {"anyOf": [{"$ref": "#" + "/items" * i} for i in range(count)]}
    for _ in range(count):
        inner = {"items": inner}
    return json.dumps(inner)


TOO_MANY = {
    "rules": (
        "lark",
        rules(MAX_RULES + 1),
        rf"it has {MAX_RULES + 1} colons \(one for each rule\), at",
    ),
    "terminals": ("lark", terminals(3000), "3000 colons .*, at most 500 are"),
    "groups": ("lark", rules(60, nested=20), "1160 opening brackets, at most 1000"),
    "options": ("lark", rules(50) + "[" * 1001, "1001 opening brackets, at most 1000"),
    "alternatives": ("lark", "start: " + "|".join(['"a"'] * 2002), "2001 alternatives"),
    "references": ("json_schema", references("plain", 600), "levels, at most 500 are allowed"),
    "any": ("json_schema", references("any", 300), "levels, at most 500 are allowed"),
    "nested references": ("json_schema", references("items", 34, nested=40), "levels, at most 500"),
    "overlapping": ("json_schema", overlapping(60), "levels, at most 500"),
    "embedded": (
        "lark",
        f"start: %json {overlapping(60)}",
        "levels of its schemas, at most 500",
    ),
    "named root": (
        "json_schema",
        json.dumps({"items": {"$id": "x"}, "$defs": json.loads(references("any", 200))}),
        "levels, at most 500",
    ),
    "embedded text": ("lark", "start: %json {", "what follows %json is not JSON"),
}


@pytest.mark.parametrize("case", TOO_MANY)
def test_what_would_recurse_too_deep_is_refused(byte_model: Model, case: str) -> None:
    """Before anything is compiled, with the number and the limit."""
    kind, value, message = TOO_MANY[case]
    with pytest.raises(InvalidRequest, match=message):
        byte_model.compiler.compile(kind, value)


def deepest() -> list[tuple[str, str]]:
    """For each way to recurse what comes next to its limit."""
    found = [
        ("lark", rules(MAX_RULES)),
        ("lark", rules(MAX_RULES, nested=2)),
        ("lark", rules(MAX_GROUPS // 20, nested=20)),
        ("lark", terminals(MAX_RULES)),
        ("lark", "start: " + "|".join(['"a"'] * 1500)),
    ]
    for name in WRAPS:
        for nested in (1, 10, 40):
            # The root has a level for each of those of a target, and 2 of its own.
            width = 2 if name == "property" else 1
            levels = 1 if name == "plain" else width * nested + 1
            if nested == 1 or (name != "plain" and levels < 60):
                count = (MAX_LEVELS - levels - 4) // levels
                found.append(("json_schema", references(name, count, nested)))
    return found


def test_the_deepest_grammars_end_no_process() -> None:
    """Neither compiled, nor masked, nor dropped, on a thread with a stack of 8 MiB."""
    code = (
        "import threading\n"
        "from radixchat.engine.grammar import GrammarCompiler\n"
        "from radixchat.engine.tokenizer import Tokenizer\n"
        "from radixchat.tests.engine.test_grammar_place import deepest\n"
        "from radixchat.tests.engine.vocabularies import byte_level_fields\n"
        "tokenizer = Tokenizer.from_gguf(byte_level_fields())\n"
        "def run():\n"
        "    for kind, value in deepest():\n"
        "        compiler = GrammarCompiler(tokenizer, tokenizer.vocab_size)\n"
        "        grammar = compiler.compile(kind, value)\n"
        "        for _ in range(3):\n"
        "            grammar.begin_masks(grammar.forced(4))\n"
        "            grammar.masks()\n"
        "        grammar.copy().dead_end()\n"
        "        compiler.close()\n"
        "threading.stack_size(6 << 20)\n"
        "thread = threading.Thread(target=run)\n"
        "thread.start()\n"
        "thread.join()\n"
        "print('done')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True
    )
    assert done.stdout == "done\n", done.stderr
    assert not done.stderr


def properties(count: int) -> str:
    return json.dumps(
        {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(count)}}
    )


def test_what_the_parser_cannot_begin_is_refused(byte_model: Model) -> None:
    """Also where the limit lies behind text that has to come, and behind a first choice."""
    late = {"type": "array", "items": json.loads(properties(600))}
    for schema in (properties(600), json.dumps(late)):
        with pytest.raises(InvalidRequest, match="Current row has 2407 items; max is 2000"):
            byte_model.compiler.compile("json_schema", schema)
    byte_model.compiler.compile("json_schema", properties(400))


def test_nothing_follows_where_the_parser_cannot_go_on(byte_model: Model) -> None:
    """A token of a draft that is allowed and leads nowhere has an empty mask after it."""
    encode, last = byte_model.tokenizer.encode, {"properties": {"a": json.loads(properties(600))}}
    grammar = byte_model.compiler.compile("json_schema", json.dumps({"type": "object", **last}))
    draft = [*encode('{"a":{'), *encode('"x"')]
    grammar.begin_masks(draft)
    masks = grammar.masks()
    assert all(mask.any() for mask in masks[:6])
    assert not any(mask.any() for mask in masks[6:])
    for token in draft[:6]:
        assert grammar.dead_end() is None
        grammar.accept(token)
    assert "Current row has 2407 items" in (grammar.dead_end() or "")


def test_text_that_has_to_come_and_leads_nowhere_is_not_begun(byte_model: Model) -> None:
    """Its bytes are known before the parser meets its limit on their way."""
    fields = {"q": {"type": "string", "pattern": "^[xy]{4}$"}, "abc": json.loads(properties(600))}
    schema = {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "x-guidance": {"whitespace_flexible": False},
    }
    grammar = byte_model.compiler.compile("json_schema", json.dumps(schema))
    for token in byte_model.tokenizer.encode('{"q":"xyx'):
        assert grammar.dead_end() is None
        grammar.accept(token)
    grammar.accept(byte_model.tokenizer.encode("x")[0])
    assert grammar.forced(9) == []
    assert byte_model.allowed(grammar) == []
    assert "Current row has 2407 items" in (grammar.dead_end() or "")


def play(model: Model, grammar: Grammar, seed: int, length: int) -> list[list[int]]:
    """Go on at random for so many tokens or until there is none; what was allowed each time."""
    chance = random.Random(seed)
    seen: list[list[int]] = []
    while len(seen) < length and (allowed := model.allowed(grammar)):
        seen.append(allowed)
        grammar.accept(chance.choice([token for token in allowed if token < 256]))
    return seen


def test_what_one_answer_uses_up_no_other_lacks(
    byte_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lexer's limits are those of an answer: it goes on once, and the next one is as before."""
    form = ("regex", "(a|b)*a(a|b){12}")
    unbound = [play(byte_model, byte_model.compiler.compile(*form), seed, 900) for seed in range(6)]
    monkeypatch.setattr(grammar_place, "MAX_LEXER_STATES", 200)
    model = Model(byte_model.tokenizer, VOCABULARY)
    for seed, expected in enumerate(unbound):
        grammar = model.compiler.compile(*form)
        seen = play(model, grammar, seed, 900)
        assert seen == expected[: len(seen)]
        assert 100 < len(seen) < 900
        assert "too many states" in (grammar.dead_end() or "")
    model.compiler.close()


@pytest.mark.parametrize("many", [True, False])
def test_slow_masks_end_their_answer(
    byte_model: Model, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    """Others wait for them: no more than for so long."""
    grammar = byte_model.compiler.compile("regex", "[a-z]{50}")
    monkeypatch.setattr(grammar_place, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(grammar_place, "MAX_SLOW_SECONDS", 1e-4 if many else 0.0)
    assert len(play(byte_model, grammar, 0, 50)) < 50
    assert grammar.dead_end() == "its masks take too long"
    assert grammar.forced(3) == []
    assert grammar.valid_prefix(byte_model.tokenizer.encode("a")) == 0
    assert not any(np.any(mask) for mask in _masks(grammar, byte_model.tokenizer.encode("ab")))


def _masks(grammar: Grammar, draft: list[int]) -> list[np.ndarray]:
    grammar.begin_masks(draft)
    return list(grammar.masks())


def test_a_grammar_that_is_slow_from_the_start_is_refused(
    byte_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first masks show it."""
    monkeypatch.setattr(grammar_place, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(grammar_place, "MAX_FIRST_SECONDS", 0.0)
    with pytest.raises(InvalidRequest, match="its masks take too long"):
        byte_model.compiler.compile("regex", "[a-z]{51}")
