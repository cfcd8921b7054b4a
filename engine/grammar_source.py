"""What an answer has to look like, as a client writes it, in llguidance's language.

Owns the kinds of `response_format` and the sentences that refuse one. Knows no token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from llguidance import LLMatcher

from radixchat.engine.errors import InvalidRequest

# Compiling takes 0.1 ms for each of a schema's properties, about 40 characters.
MAX_CHARACTERS = 1 << 16
MAX_CHOICE_CHARACTERS = 1 << 18
# llguidance recurses on the thread's stack, of which there may be 8 MiB and no more: 6.4 KiB for
# each object in an object of a schema, 3.7 KiB for a rule of another, and 2.1 KiB for a group.
MAX_LEVELS = 500
MAX_RULES = 500
MAX_GROUPS = 1000
# The time of a mask grows with their square: 16,000 take 0.25 s.
MAX_ALTERNATIVES = 2000
MAX_REASON = 400
MAX_ECHO = 40  # of what a client wrote, in a sentence about it

# JSON admits any amount of white space between its tokens, and a small model that has begun with it
# need not find an end: a space, or a new line with its indentation, is what they write on purpose.
# A schema's "x-guidance" may say otherwise.
JSON_WHITE_SPACE = r" |\n[ \t]{0,32}"


def grammar_source(kind: str, value: str, *, skips_space: bool) -> str:
    """The grammar for llguidance; it is well-formed, which does not mean that it compiles.

    skips_space: the answer begins with a space that is not shown. Raises InvalidRequest.
    """
    write = _KINDS.get(kind)
    if write is None:
        named, allowed = _cut(repr(kind), MAX_ECHO), ", ".join(_KINDS)
        raise InvalidRequest(f"response_format is {named}; allowed: {allowed}")
    limit = MAX_CHOICE_CHARACTERS if kind == "choice" else MAX_CHARACTERS
    _check_number(kind, "characters", len(value), limit)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        refuse(kind, f"it is not Unicode: half a surrogate pair at position {error.start}")
    source = write(value)
    if not skips_space:
        return source
    grammars = json.loads(source)["grammars"]
    spaced = f'start: " " @{grammars[0]["name"]}'
    return json.dumps({"grammars": [{"lark_grammar": spaced}, *grammars]})


def refuse(kind: str, reason: str) -> NoReturn:
    """Raise InvalidRequest for a response format that cannot be used; a long reason is cut."""
    raise InvalidRequest(f"response_format {kind!r} cannot be used: {_cut(reason, MAX_REASON)}")


def explain(error: str) -> str:
    """The part of llguidance's message that is about the client's text, MAX_REASON of it."""
    if not error or error.startswith("NoExtension"):
        return "no answer satisfies it"
    if "special token" in error:
        return "it names a control token; an answer is text only"
    error = re.split(r"<backtrace>|<non-verbose/>", error)[0].strip()
    if problem := re.search(r"^error: (.*)", error, re.MULTILINE):
        error = problem[1]
    return _cut(error, MAX_REASON)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 4]} ..."


def _json_object(value: str) -> str:
    if value:
        refuse(
            "json_object",
            f"it takes no value, but has {value[:MAX_ECHO]!r}; a schema is json_schema",
        )
    return _grammar_of_schema({"type": "object"})


def _json_schema(value: str) -> str:
    schema = _load("json_schema", value)
    if not isinstance(schema, dict | bool):
        refuse("json_schema", f"a schema is an object, true or false, not {value[:MAX_ECHO]!r}")
    if schema is False:
        refuse("json_schema", "no answer satisfies false")
    return _grammar_of_schema({} if schema is True else schema)


def _grammar_of_schema(schema: dict[str, Any]) -> str:
    _check_number("json_schema", "levels", _levels(schema), MAX_LEVELS)
    guidance = schema.get("x-guidance")
    own = isinstance(guidance, dict) and "whitespace_flexible" in guidance
    try:
        # A pattern would go before the schema's own choice between any white space and none.
        return LLMatcher.grammar_from_json_schema(
            schema, defaults={} if own else {"whitespace_pattern": JSON_WHITE_SPACE}
        )
    except ValueError as error:
        refuse("json_schema", str(error))


def _regex(value: str) -> str:
    return LLMatcher.grammar_from_regex(value)


def _choice(value: str) -> str:
    texts = _load("choice", value)
    if not isinstance(texts, list) or not texts:
        refuse("choice", f"it is a JSON list of one text or more, not {value[:MAX_ECHO]!r}")
    for text in texts:
        if not isinstance(text, str) or not text:
            refuse("choice", f"{_cut(repr(text), MAX_ECHO)} is no text to choose")
    # One terminal: as many rules are too much for the parser from 2,000 texts on.
    return _wrap("start: CHOICE\nCHOICE: " + " | ".join(json.dumps(text) for text in texts))


def _lark(value: str) -> str:
    # Counted in strings too: whoever skips them has to find them exactly as llguidance does.
    _check_number("lark", "colons (one for each rule)", value.count(":"), MAX_RULES)
    groups = value.count("(") + value.count("[")
    _check_number("lark", "opening brackets", groups, MAX_GROUPS)
    _check_number("lark", "alternatives", value.count("|"), MAX_ALTERNATIVES)
    levels = 0
    for found in re.finditer(r"%json\s*", value):
        try:
            schema, _ = _DECODER.raw_decode(value, found.end())
        except (ValueError, RecursionError) as error:
            refuse("lark", f"what follows %json is not JSON: {error}")
        levels += _levels(schema)
    _check_number("lark", "levels of its schemas", levels, MAX_LEVELS)
    return _wrap(value)


def _tool_calls(value: str) -> str:
    """Calls of functions as JSON between marks.

    It is an object. tools: a list of {name, parameters}, the latter a JSON schema. begin, end: the
    marks. many: whether there may be several calls. otherwise: null where the answer has to be a
    call; else {kind, value} of what it may be instead, kind "text" being any text, which may also
    stand before the first call. A call is on one line: the model's choice is in the arguments.
    """
    asked = _load("tool_calls", value)
    begin, end = json.dumps(asked["begin"]), json.dumps("}\n" + asked["end"])
    calls, schemas = [], []
    for number, tool in enumerate(asked["tools"]):
        source = _grammar_of_schema({**tool["parameters"], "x-guidance": _ONE_LINE})
        schemas.append({**_only_grammar(source), "name": f"arguments{number}"})
        head = json.dumps(f'\n{{"name": {json.dumps(tool["name"])}, "arguments": ')
        calls.append(f"{head} @arguments{number}")
    more = f'("\\n" {begin} call)*' if asked["many"] else ""
    lines = [f"call: ({' | '.join(calls)}) {end}"]
    match asked["otherwise"]:
        case None:
            lines.insert(0, f"start: {begin} call {more}")
        case {"kind": "text"}:
            lines.insert(0, f"start: before call {more} | TEXT")
            lines += [f"before[suffix={begin}]: TEXT", "TEXT: /(?s:.*)/"]
        case {"kind": str(kind), "value": str(other)}:
            schemas.append({**_only_grammar(_KINDS[kind](other)), "name": "otherwise"})
            lines.insert(0, f"start: {begin} call {more} | @otherwise")
    return json.dumps(
        {"grammars": [{"name": "answer", "lark_grammar": "\n".join(lines)}, *schemas]}
    )


_ONE_LINE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def _only_grammar(source: str) -> dict[str, Any]:
    (grammar,) = json.loads(source)["grammars"]
    assert isinstance(grammar, dict)
    return grammar


def _wrap(value: str) -> str:
    return json.dumps({"grammars": [{"name": "answer", "lark_grammar": value}]})


# Python has a limit on the digits of an integer, which JSON does not have.
_DECODER = json.JSONDecoder(parse_int=float)


def _check_number(kind: str, what: str, number: int, limit: int) -> None:
    if number > limit:
        refuse(kind, f"it has {number} {what}, at most {limit} are allowed")


def _levels(schema: Any) -> int:
    """At most so many objects lie in one another, where each reference is followed once."""
    nodes = [schema]
    for node in nodes:
        nodes += _children(node)  # and goes on with them
    depths: dict[int, int] = {}
    for node in reversed(nodes):
        inner = max((depths[id(child)] for child in _children(node)), default=0)
        depths[id(node)] = isinstance(node, dict) + inner
    objects = [node for node in nodes if isinstance(node, dict)]
    references = {node["$ref"] for node in objects if isinstance(node.get("$ref"), str)}
    # A schema with a name of its own is the root of the references in it.
    has_roots = any(isinstance(node.get(key), str) for node in objects[1:] for key in ("$id", "id"))
    targets = [schema if has_roots else _target(schema, text) for text in references]
    return sum(depths[id(target)] for target in [schema, *targets])


def _children(node: Any) -> list[Any]:
    values = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [value for value in values if isinstance(value, dict | list)]


def _target(schema: Any, reference: str) -> Any:
    """What it refers to; all where it is written in another way than usual."""
    node = schema
    for key in reference.split("/")[1:] if reference.startswith("#/") else ():
        node = node.get(key) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else schema


def _load(kind: str, value: str) -> Any:
    def no_number(name: str) -> NoReturn:
        raise ValueError(f"{name} is no number of JSON")

    try:
        loaded = json.loads(value, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        refuse(kind, f"{value[:MAX_ECHO]!r} is not JSON: {error}")
    return loaded


_KINDS: Mapping[str, Callable[[str], str]] = {
    "json_object": _json_object,
    "json_schema": _json_schema,
    "regex": _regex,
    "choice": _choice,
    "lark": _lark,
    "tool_calls": _tool_calls,
}
