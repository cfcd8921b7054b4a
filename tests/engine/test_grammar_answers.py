"""Answers bound by a schema: all parse, and all are those of masking one token at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from radixchat.engine.engine import Engine
from radixchat.engine.grammar import GrammarCompiler
from radixchat.engine.prompt import ChatMessage
from radixchat.engine.prompt_lookup import PromptLookup
from radixchat.engine.request import FinishReason, Request
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.template import ChatTemplate
from radixchat.engine.tokenizer import Tokenizer
from radixchat.engine.weights import Checkpoint, load_checkpoint
from radixchat.tests.engine.driver import Outcome, make_engine, run
from radixchat.tests.tiny_model import tiny_model_directory

WHITE_SPACE = r" |\n[ \t]{0,32}"
COMPACT = {"whitespace_flexible": False}  # a random model would write white space most of the time


@dataclass(frozen=True)
class Case:
    """A schema, what it means in Python, and what somebody would ask for it."""

    schema: dict[str, Any]
    holds: Callable[[Any], bool]
    question: str

    def source(self, compact: bool) -> str:
        return json.dumps({**self.schema, **({"x-guidance": COMPACT} if compact else {})})


def is_object(value: Any, **fields: Callable[[Any], bool]) -> bool:
    """Whether these are its fields, in this order, and each of them holds."""
    return (
        isinstance(value, dict)
        and list(value) == list(fields)
        and all(holds(value[name]) for name, holds in fields.items())
    )


def record(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def is_int(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value <= high


def is_list(length: int, holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and len(value) <= length and all(map(holds, value))


def is_text(length: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and len(value) <= length


CITIES = ["Prague", "Lisbon", "Tromsø"]
CASES = [
    Case(
        record(
            name={"enum": ["Anna", "Annabel", "Bob"]},
            age={"type": "integer", "minimum": 0, "maximum": 120},
        ),
        lambda v: is_object(v, name=["Anna", "Annabel", "Bob"].__contains__, age=is_int(0, 120)),
        "Invent a person.",
    ),
    Case(
        record(
            city={"enum": CITIES},
            temperature_in_degrees={"type": "integer", "minimum": -40, "maximum": 50},
            rain={"type": "boolean"},
        ),
        lambda v: is_object(
            v,
            city=CITIES.__contains__,
            temperature_in_degrees=is_int(-40, 50),
            rain=lambda rain: isinstance(rain, bool),
        ),
        "What is the weather like today?",
    ),
    Case(
        {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 3},
        is_list(3, is_text(5)),
        "Name three fruits.",
    ),
    Case(
        record(
            point=record(
                x={"type": "integer", "minimum": 0, "maximum": 9},
                y={"type": "integer", "minimum": 0, "maximum": 9},
            ),
            label={"type": ["string", "null"], "maxLength": 4},
        ),
        lambda v: is_object(
            v,
            point=lambda p: is_object(p, x=is_int(0, 9), y=is_int(0, 9)),
            label=lambda label: label is None or is_text(4)(label),
        ),
        "Choose a point on the board.",
    ),
    Case(
        record(
            date={"type": "string", "format": "date"},
            code={"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
        ),
        lambda v: is_object(v, date=is_text(10), code=is_text(6)),
        "When does the flight leave?",
    ),
]


class Naive:
    """Masking one token at a time: for each, a new matcher and a request of one token."""

    def __init__(self, checkpoint: Checkpoint, tokenizer: Tokenizer) -> None:
        controls = set(tokenizer.control_tokens.values())
        texts = [b"" if i in controls else b for i, b in enumerate(tokenizer.token_bytes)]
        texts += [b""] * (checkpoint.config.vocab_size - len(texts))

        class Words:
            eos_token_id = len(texts)
            bos_token_id = None
            tokens = (*texts, b"<end>")

            def __call__(self, text: str) -> list[int]:
                return tokenizer.encode(text)

        self._words = LLTokenizer(TokenizerWrapper(Words()))
        self._stop_ids = sorted(tokenizer.stop_ids)
        self._engine = make_engine(checkpoint, max_draft_tokens=0)

    def answer(self, request: Request, source: str) -> list[int]:
        """The answer of an equal request that has no grammar."""
        grammar = LLMatcher.grammar_from_json_schema(
            source, defaults={} if "x-guidance" in source else {"whitespace_pattern": WHITE_SPACE}
        )
        answer: list[int] = []
        while not set(answer) & set(self._stop_ids):
            matcher = LLMatcher(self._words, grammar)
            assert matcher.consume_tokens(answer), matcher.get_error()
            mask = np.frombuffer(matcher.compute_bitmask(), np.uint8)
            allowed = np.unpackbits(mask, bitorder="little")[: self._words.vocab_size - 1]
            if matcher.is_accepting():
                allowed[self._stop_ids] = 1
            banned = tuple((int(token),) for token in np.flatnonzero(allowed == 0))
            params = replace(request.sampling, max_tokens=1, bad_words=banned)
            step = Request(0, [*request.tokens[: request.num_prompt], *answer], params)
            answer += run(self._engine, [step])[0].tokens
        return answer


def check_answers(
    checkpoint: Checkpoint, tokenizer: Tokenizer, prompts: Sequence[Sequence[int]], compact: bool
) -> tuple[int, int]:
    """Ask each prompt, greedy and sampled; how many tokens there are, and how many were drafts.

    With drafts, without, and masked one token at a time the answers are the same, and they parse.
    """
    compiler = GrammarCompiler(tokenizer, checkpoint.config.vocab_size)
    sources = [CASES[i % len(CASES)].source(compact) for i in range(len(prompts))]

    def requests(lookup: bool) -> Iterator[Request]:
        for i, prompt in enumerate(prompts):
            yield Request(
                i,
                list(prompt),
                SamplingParams(temperature=i % 2, seed=i, max_tokens=300),
                tokenizer.stop_ids,
                grammar=compiler.compile("json_schema", sources[i]),
                lookup=PromptLookup([]) if lookup else None,
            )

    def answers(engine: Engine, lookup: bool) -> dict[int, Outcome]:
        return run(engine, requests(lookup))

    plain = answers(make_engine(checkpoint, max_draft_tokens=0), lookup=False)
    drafted = answers(make_engine(checkpoint), lookup=True)
    naive = Naive(checkpoint, tokenizer)
    for i, request in enumerate(requests(lookup=False)):
        outcome = drafted[i]
        assert outcome.finish == FinishReason.STOP
        assert outcome.tokens == plain[i].tokens
        assert outcome.tokens == naive.answer(request, sources[i])
        value = json.loads(tokenizer.decode(outcome.tokens))
        assert CASES[i % len(CASES)].holds(value), value
    compiler.close()
    usages = [outcome.usage for outcome in drafted.values() if outcome.usage is not None]
    return sum(u.output_tokens for u in usages), sum(u.accepted_tokens for u in usages)


def tiny_prompts(tokenizer: Tokenizer, count: int) -> list[list[int]]:
    """Prompts that have parts of an answer, for a lookup to find."""
    return [
        tokenizer.encode(f'{i} {{"name":"Annabel","age":1{i % 10}}} {CASES[i % 5].question}')
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def tiny_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.from_directory(tiny_model_directory(tmp_path_factory.mktemp("tiny")))


def test_answers_are_those_of_masking_each_step(
    tiny: Checkpoint, tiny_tokenizer: Tokenizer
) -> None:
    """Five answers of a random model, greedy and sampled, with forced tokens as drafts."""
    num_tokens, num_accepted = check_answers(
        tiny, tiny_tokenizer, tiny_prompts(tiny_tokenizer, 5), compact=True
    )
    assert num_accepted > 0.3 * num_tokens


@pytest.mark.slow
def test_200_answers_are_those_of_masking_each_step(
    tiny: Checkpoint, tiny_tokenizer: Tokenizer
) -> None:
    """200 answers of a random model, half of them sampled."""
    num_tokens, num_accepted = check_answers(
        tiny, tiny_tokenizer, tiny_prompts(tiny_tokenizer, 200), compact=True
    )
    # Those of a step share its drafts: 0.28, where five answers have more.
    assert num_accepted > 0.2 * num_tokens


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(900)
def test_answers_of_the_default_model(default_model: Path) -> None:
    """Ten answers of the real model, half of them sampled, with its own white space."""
    checkpoint = load_checkpoint(default_model)
    assert checkpoint.fields is not None
    tokenizer = Tokenizer.from_gguf(checkpoint.fields)
    template = ChatTemplate.of(tokenizer)
    prompts = [
        tokenizer.encode_prompt(
            template.render([ChatMessage("user", case.question)], add_generation_prompt=True)
        )
        for case in [*CASES, *CASES]
    ]
    num_tokens, num_accepted = check_answers(checkpoint, tokenizer, prompts, compact=False)
    assert num_accepted > 0.05 * num_tokens


def test_the_end_of_a_grammar_is_no_part_of_an_answer_that_ignores_ends(
    tiny: Checkpoint, tiny_tokenizer: Tokenizer
) -> None:
    """Without stop tokens of the request the grammar's still ends it, and is not kept."""
    compiler = GrammarCompiler(tiny_tokenizer, tiny.config.vocab_size)
    sampling = SamplingParams(temperature=0, max_tokens=20)
    engine = make_engine(tiny)
    request = Request(0, tiny_prompts(tiny_tokenizer, 1)[0], sampling)
    request.grammar = compiler.compile("choice", '["yes"]')
    engine.submit(request)
    events = []
    while engine.has_work:
        events += engine.step()
    assert tiny_tokenizer.decode(request.tokens[request.num_prompt :]) == "yes"
    assert events[-1].finish is FinishReason.STOP
    assert events[-1].token in tiny_tokenizer.stop_ids
    assert events[-1].num_kept == 3
    compiler.close()
