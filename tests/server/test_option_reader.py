"""What the options of a response mean to the engine, and which of them are refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radixchat.engine import grammar_vocabulary
from radixchat.engine.errors import InvalidRequest
from radixchat.engine.request import Request
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.option_reader import AnswerTerms, OptionReader
from radixchat.server.protocol import ResponseFormat, ResponseOptions
from radixchat.tests.engine.vocabularies import byte_level_fields, sentencepiece_fields
from radixchat.tests.tiny_model import VOCABULARY

PLAIN = ResponseOptions()


def read(tokenizer: Tokenizer, options: ResponseOptions) -> AnswerTerms:
    async def main() -> AnswerTerms:
        reader = OptionReader(tokenizer, VOCABULARY)
        try:
            return await reader.read(options)
        finally:
            reader.close()

    return asyncio.run(main())


def request(terms: AnswerTerms, branches: Sequence[Sequence[int]] = ()) -> Request:
    return terms.request(7, (1, 2, 3), namespace=b"n", conversation="conv_1", branches=branches)


@pytest.fixture(scope="module")
def tokenizer(tiny_directory: Path) -> Tokenizer:
    """The tiny model's: a token is a byte or a control token."""
    return Tokenizer.from_directory(tiny_directory)


def test_every_number_reaches_the_engine(tokenizer: Tokenizer) -> None:
    """Under the engine's name for it."""
    values: dict[str, Any] = {
        "temperature": 0.5,
        "top_p": 0.6,
        "top_k": 7,
        "min_p": 0.08,
        "typical_p": 0.9,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.12,
        "frequency_penalty": 0.13,
        "dry_multiplier": 0.14,
        "dry_base": 1.5,
        "dry_allowed_length": 3,
        "logit_bias": ((5, -1.5), (6, 2.0)),
        "seed": 17,
    }
    renamed: dict[str, Any] = {"min_output_tokens": 18, "max_output_tokens": 19, "top_logprobs": 4}
    sampling = read(tokenizer, ResponseOptions(**values, **renamed)).sampling
    assert {name: getattr(sampling, name) for name in values} == values
    assert (sampling.min_tokens, sampling.max_tokens, sampling.logprobs) == (18, 19, 4)
    assert sampling.prompt_logprobs is None


def test_plain_options_ask_for_nothing_special(tokenizer: Tokenizer) -> None:
    """No deadline, no grammar, no bias; drafts are on, and the model's stop tokens end it."""
    asked = request(read(tokenizer, PLAIN), branches=[(8, 9)])
    assert (asked.id, asked.tokens, asked.namespace) == (7, [1, 2, 3], b"n")
    assert (asked.conversation, asked.priority) == ("conv_1", 0)
    assert (asked.deadline, asked.grammar) == (None, None)
    assert asked.stop_ids == tokenizer.stop_ids != frozenset()
    assert not asked.sampling.edits_logits
    assert asked.sampling.dry_breakers == frozenset()
    assert asked.text is not None
    assert asked.lookup is not None
    # At its start the answer may be what was said before instead of it.
    assert asked.lookup.propose(asked.tokens, 4)[:1] == [8]


def test_what_belongs_to_the_service_reaches_the_request(tokenizer: Tokenizer) -> None:
    """Priority, the end of its time, stop texts, and what it does without."""
    options = replace(
        PLAIN,
        priority=-3,
        timeout_s=2.5,
        stop=("STOP",),
        min_output_tokens=2,
        ignore_eos=True,
        speculate=False,
    )
    before = time.monotonic()
    asked = request(read(tokenizer, options))
    assert asked.deadline is not None
    assert before + 2.5 <= asked.deadline <= time.monotonic() + 2.5
    assert (asked.priority, asked.stop_ids, asked.lookup) == (-3, frozenset(), None)
    assert asked.text is not None
    shown = [asked.text.push(token) for token in tokenizer.encode("STOP, STOP it")]
    # The text of the first two tokens is none of a stop text.
    assert "".join(shown) == "STOP, "
    assert asked.text.stopped_by == "STOP"


def test_a_seed_is_drawn_where_none_is_set(tokenizer: Tokenizer) -> None:
    """Another one each time, and it is told."""
    terms = [read(tokenizer, PLAIN) for _ in range(3)]
    seeds = [one.sampling.seed for one in terms]
    assert len(set(seeds)) == 3
    assert [one.options.seed for one in terms] == seeds
    assert read(tokenizer, replace(PLAIN, seed=0)).sampling.seed == 0


@pytest.mark.parametrize("fields", [byte_level_fields(), sentencepiece_fields()])
@pytest.mark.parametrize("word", ["Hello", "users", "世界", "how are", "x' * 3", "ódy"])
def test_a_bad_word_is_known_at_the_start_of_a_line_and_after_a_space(
    fields: Mapping[str, Any], word: str
) -> None:
    """As the tokenizer writes it there."""
    tokenizer = Tokenizer.from_gguf(fields)
    sequences = OptionReader(tokenizer, tokenizer.vocab_size).bad_sequences([word])
    for before in ("\n", "we ", "12 "):
        written = tuple(tokenizer.encode(f"{before}{word}"))
        assert any(
            written[start : start + len(sequence)] == sequence
            for sequence in sequences
            for start in range(len(written))
        ), (before, sequences, written)


def test_spaces_around_a_bad_word_do_not_matter(tokenizer: Tokenizer) -> None:
    """A sequence that ends with another one is not needed: that one is never completed."""
    reader = OptionReader(tokenizer, VOCABULARY)
    word = tuple(tokenizer.encode("bad"))
    assert reader.bad_sequences(["bad"]) == reader.bad_sequences([" bad\n", "bad"]) == (word,)


@pytest.mark.parametrize("fields", [byte_level_fields(), sentencepiece_fields()])
def test_repetitions_end_at_line_breaks_and_punctuation(fields: Mapping[str, Any]) -> None:
    """And at every control token: no turn continues another."""
    tokenizer = Tokenizer.from_gguf(fields)
    breakers = OptionReader(tokenizer, tokenizer.vocab_size).dry_breakers
    for id_, text in enumerate(tokenizer.token_bytes):
        control = id_ in tokenizer.control_tokens.values()
        assert (id_ in breakers) == (control or bool(set(text) & set(b'\n:"*'))), (id_, text)
    assert 4 < len(breakers) < tokenizer.vocab_size / 2


def test_breakers_are_asked_for_only_where_they_count(tokenizer: Tokenizer) -> None:
    """Without DRY there are none."""
    terms = read(tokenizer, replace(PLAIN, dry_multiplier=0.8))
    assert terms.sampling.dry_breakers >= set(tokenizer.encode('\n:"*'))


# The tiny model has more rows than there are tokens, 0 to 258: the others mean nothing.
REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"logit_bias": ((259, 1.0),)}, "logit_bias names token 259; .* 0 to 258"),
    ({"logit_bias": ((-1, 1.0),)}, "logit_bias is .*-1.*tokens of 0 or more"),
    ({"logit_bias": ((5, 1.0), (5, 2.0))}, "logit_bias"),
    ({"logit_bias": ((5, float("nan")),)}, "logit_bias"),
    ({"temperature": float("nan")}, "temperature is nan"),
    ({"typical_p": 0.0}, "typical_p is 0.0"),
    ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0"),
    ({"seed": -1}, "seed is -1"),
    ({"response_format": ResponseFormat("yaml")}, "yaml"),
    ({"response_format": ResponseFormat("regex", "(")}, "regex"),
    ({"response_format": ResponseFormat("json_schema", "{")}, "JSON"),
    ({"response_format": ResponseFormat("choice", "[]")}, "choice"),
)


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_cannot_be_is_refused(
    tokenizer: Tokenizer, changes: dict[str, Any], message: str
) -> None:
    """With the value, and what would do."""
    options = replace(PLAIN, **changes)
    with pytest.raises(InvalidRequest, match=message):
        read(tokenizer, options)


def test_the_limits_themselves_are_allowed(tokenizer: Tokenizer) -> None:
    """One less than what is refused."""
    bias = ((0, 100.0), (258, -100.0))
    read(tokenizer, replace(PLAIN, logit_bias=bias, top_logprobs=20, max_output_tokens=1))


def test_each_answer_has_a_grammar_of_its_own(tokenizer: Tokenizer) -> None:
    """One that has begun does not change how the next begins; all at once make one compiler."""

    async def main() -> None:
        reader = OptionReader(tokenizer, VOCABULARY)
        options = replace(PLAIN, response_format=ResponseFormat("regex", "ab"))
        terms = await asyncio.gather(*(reader.read(options) for _ in range(4)))
        first, second = terms[0].grammar, terms[1].grammar
        assert first is not None
        assert second is not None
        a, b = tokenizer.encode("ab")
        assert (first.valid_prefix([a, b]), first.valid_prefix([b])) == (2, 0)
        first.accept(a)
        assert (first.valid_prefix([b]), second.valid_prefix([a, b])) == (1, 2)
        reader.close()
        reader.close()

    asyncio.run(main())


def test_a_reader_without_a_grammar_closes(tokenizer: Tokenizer) -> None:
    """There is nothing to end."""
    OptionReader(tokenizer, VOCABULARY).close()


def test_a_compiler_that_could_not_be_made_is_made_for_the_next(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asked meanwhile is told; and a reader with none closes."""
    options = replace(PLAIN, response_format=ResponseFormat("regex", "ab"))

    def no_memory(*_: object) -> None:
        raise MemoryError

    async def main() -> None:
        reader = OptionReader(tokenizer, VOCABULARY)
        with monkeypatch.context() as broken:
            broken.setattr(grammar_vocabulary, "LLTokenizer", no_memory)
            asked = (reader.read(options) for _ in range(2))
            failures = await asyncio.gather(*asked, return_exceptions=True)
            assert [type(failure) for failure in failures] == [MemoryError, MemoryError]
        reader.close()
        assert (await reader.read(options)).grammar is not None
        reader.close()

    asyncio.run(main())
