"""What a client may ask an answer to look like, and the sentences that refuse the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from radixchat.engine.errors import InvalidRequest
from radixchat.engine.grammar import GrammarCompiler
from radixchat.engine.grammar_source import MAX_CHARACTERS
from radixchat.engine.tokenizer import Tokenizer
from radixchat.tests.tiny_model import VOCABULARY, tiny_model_directory


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.from_directory(tiny_model_directory(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def compiler(tokenizer: Tokenizer) -> Iterator[GrammarCompiler]:
    compiler = GrammarCompiler(tokenizer, VOCABULARY)
    yield compiler
    compiler.close()


REFUSED = {
    "kind": ("xml", "<a/>", r"'xml'; allowed: json_object, json_schema, regex, choice, lark"),
    "object with a value": ("json_object", "{}", "takes no value, but has '{}'"),
    "not JSON": ("json_schema", "{'type'}", r"\"\{'type'\}\" is not JSON: Expecting property name"),
    "no number": ("json_schema", '{"const": NaN}', "NaN is no number of JSON"),
    "not a schema": ("json_schema", "[1]", r"an object, true or false, not '\[1\]'"),
    "nothing satisfies": ("json_schema", "false", "no answer satisfies false"),
    "conflict": ("json_schema", '{"type":"string","enum":[1]}', "Unsatisfiable schema: incompat"),
    "crossed bounds": (
        "json_schema",
        '{"type":"integer","minimum":5,"maximum":3}',
        r"minimum \(5\) is greater than maximum \(3\)",
    ),
    "forbidden but required": (
        "json_schema",
        '{"type":"object","properties":{"a":false},"required":["a"]}',
        "required property 'a' is unsatisfiable",
    ),
    "endless": ("json_schema", '{"$ref": "#"}', "no answer satisfies it"),
    "unsupported keyword": (
        "json_schema",
        '{"type":"array","uniqueItems":true}',
        r'Unimplemented keys: \["uniqueItems"\]',
    ),
    "unknown type": ("json_schema", '{"type":"strnig"}', "Invalid type: strnig"),
    "elsewhere": ("json_schema", '{"$ref":"http://example.com/x"}', "does not fetch resources"),
    "nested too deep": (
        "json_schema",
        '{"not":' * 5000 + "{}" + "}" * 5000,
        "is not JSON: maximum",
    ),
    "nested deep": (
        "json_schema",
        '{"items":' * 200 + "{}" + "}" * 200,
        "recursion limit exceeded",
    ),
    "half a character": ("json_schema", '{"const":"\\ud800"}', "not JSON serializable"),
    "half a pair": ("regex", "a\ud800", "half a surrogate pair at position 1"),
    "open group": ("regex", "(a", "cannot be used: unclosed group$"),
    "back reference": ("regex", r"(a)\1", "backreferences are not supported"),
    "look-ahead": ("regex", "(?=a)b", "look-around, .* is not supported"),
    "no character": ("regex", r"[^\s\S]", "no answer satisfies it"),
    "deep groups": ("regex", "(" * 30_000 + "a" + ")" * 30_000, "maximum number of nested"),
    "much given text": (
        "regex",
        "(x{1000}){40}",
        "40000 given bytes would come next, more than 32768",
    ),
    "long": ("regex", "a" * (MAX_CHARACTERS + 1), "65537 characters, at most 65536 are allowed"),
    "no choice": ("choice", "[]", "a JSON list of one text or more, not '\\[\\]'"),
    "empty choice": ("choice", '["a", ""]', "'' is no text to choose"),
    "number to choose": ("choice", "[1]", "1 is no text to choose"),
    "much to choose": (
        "choice",
        json.dumps([["x" * 100_000]]),
        r"\['x{34,35} \.\.\. is no text to choose",
    ),
    "choice is no list": ("choice", '"yes"', "a JSON list of one text or more"),
    "choice is no JSON": ("choice", "yes, no", "'yes, no' is not JSON"),
    "unknown rule": ("lark", "start: answer", 'unknown name: "answer"'),
    "long unknown type": (
        "json_schema",
        json.dumps({"type": "\nerror: " + "a" * 50_000}),
        r"cannot be used: a{396} \.\.\.$",
    ),
    "long kind": ("x" * 100_000, "", r"response_format is 'x{34,35} \.\.\.; allowed: json_object"),
    "no rule": ("lark", "", "no start rule found"),
    "itself first": ("lark", 'start: start "a"', "no answer satisfies it"),
    "control token": ("lark", "start: <|im_start|>", "it names a control token"),
    "control token by id": ("lark", "start: <[257]>", "no answer satisfies it"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused_with_its_reason(
    compiler: GrammarCompiler, case: str
) -> None:
    """An InvalidRequest says what is wrong, in a sentence of bounded length."""
    kind, value, message = REFUSED[case]
    with pytest.raises(InvalidRequest, match=message) as refusal:
        compiler.compile(kind, value)
    assert len(str(refusal.value)) < 600
    assert "panic" not in str(refusal.value)
    assert "backtrace" not in str(refusal.value)


ALLOWED = {
    "any object": ("json_object", "", '{"a": [1, null, {"b": "c"}]}'),
    "any value": ("json_schema", "true", "[1.5e3]"),
    "indented": (
        "json_schema",
        '{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}',
        '{\n    "a": 5\n}',
    ),
    "own white space": (
        "json_schema",
        '{"type":"array","x-guidance":{"whitespace_pattern":"_"}}',
        "[_1,_2]",
    ),
    "any white space": (
        "json_schema",
        '{"type":"array","x-guidance":{"whitespace_flexible":true}}',
        "[\t\n\n   1]",
    ),
    "own keywords": ("json_schema", '{"type":"string","x-widget":"area"}', '"text"'),
    "format": ("json_schema", '{"type":"string","format":"date"}', '"2024-02-29"'),
    "anchors": ("regex", "^a+$", "aaa"),
    "flags": ("regex", "(?i)yes|no", "YeS"),
    "nothing": ("regex", "", ""),
    "odd texts": ("choice", json.dumps(["\x00\x7f\u2028\r\n", "😀", '"/\\']), "😀"),
    "escapes": ("choice", json.dumps(["\x00\x7f\u2028\r\n", "😀", '"/\\']), "\x00\x7f\u2028\r\n"),
    "quotes": ("choice", json.dumps(["\x00\x7f\u2028\r\n", "😀", '"/\\']), '"/\\'),
    "no expression": ("choice", '["[a-z]+", "x"]', "[a-z]+"),
    "imported": ("lark", "%import common.INT\nstart: INT", "123"),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_each_kind_admits_what_it_describes(
    compiler: GrammarCompiler, tokenizer: Tokenizer, case: str
) -> None:
    """A text that the format describes can be written, and the answer can end there."""
    kind, value, text = ALLOWED[case]
    grammar = compiler.compile(kind, value)
    tokens = tokenizer.encode(text)
    assert grammar.valid_prefix(tokens) == len(tokens)
    for token in tokens:
        grammar.accept(token)
    grammar.begin_masks([])
    (mask,) = grammar.masks()
    assert int(mask[258 // 32]) >> (258 % 32) & 1, "the answer cannot end here"


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("json_object", "", "[1]"),
        ("json_object", "", " {}"),
        ("json_object", "", "{  }"),
        ("json_schema", '{"x-guidance":{"whitespace_flexible":false}}', "[1, 2]"),
        ("json_schema", '{"maxLength":2,"type":"string"}', '"abc"'),
        ("regex", "a+", "aab"),
        ("choice", '["yes","no"]', "yea"),
        ("choice", '["[a-z]+"]', "x"),
        ("lark", 'start: "a" "b"', "ac"),
    ],
)
def test_nothing_else_is_admitted(
    compiler: GrammarCompiler, tokenizer: Tokenizer, kind: str, value: str, text: str
) -> None:
    """Some byte of a text that the format does not describe is not allowed."""
    tokens = tokenizer.encode(text)
    assert compiler.compile(kind, value).valid_prefix(tokens) < len(tokens)
