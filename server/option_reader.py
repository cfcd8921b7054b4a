"""What a response's options mean to the engine of one model: `OptionReader`, `AnswerTerms`.

Turns words into tokens, and refuses what the model's vocabulary does not have. Knows no
conversation, no prompt and no store.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from radixchat.engine.answer_text import AnswerText
from radixchat.engine.grammar import Grammar, GrammarCompiler
from radixchat.engine.prompt import Piece
from radixchat.engine.prompt_lookup import PromptLookup
from radixchat.engine.request import Request
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.protocol import ResponseFormat, ResponseOptions

# What a text repeats without repeating itself: lines, names before a colon, quotes, emphasis.
DRY_BREAKERS = re.compile(rb'[\n:"*]')


@dataclass(frozen=True, slots=True)
class AnswerTerms:
    """Checked options in the engine's form; for one request, whose text and grammar they hold.

    options: as asked, with the seed that is used. deadline: on the engine's clock.
    """

    options: ResponseOptions
    sampling: SamplingParams
    stop_ids: frozenset[int]
    text: AnswerText
    grammar: Grammar | None
    deadline: float | None

    def after(self, count: int) -> AnswerTerms:
        """The terms of an answer that has so many tokens already, and is to have as many more."""
        most = self.options.max_output_tokens
        if not count or most is None:
            return self
        options = replace(self.options, max_output_tokens=most + count)
        return replace(
            self, options=options, sampling=replace(self.sampling, max_tokens=most + count)
        )

    def request(
        self,
        id_: int,
        prompt_ids: Sequence[int],
        *,
        namespace: bytes,
        conversation: str | None,
        branches: Sequence[Sequence[int]],
    ) -> Request:
        """The engine's request; branches: what was said before instead of this answer."""
        return Request(
            id_,
            list(prompt_ids),
            self.sampling,
            self.stop_ids,
            namespace,
            conversation,
            priority=self.options.priority,
            deadline=self.deadline,
            text=self.text,
            grammar=self.grammar,
            lookup=PromptLookup(branches) if self.options.speculate else None,
        )


class OptionReader:
    """Reads the options of responses of one model; makes its grammar compiler when first needed."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        """vocab_size: the rows of the model's logits."""
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._compiler: asyncio.Task[GrammarCompiler] | None = None

    async def read(self, options: ResponseOptions) -> AnswerTerms:
        """The options as terms; draws a seed where none is set, and the time begins to run.

        Raises InvalidRequest (InvalidSamplingParams) with the value and what would do: a number
        out of range, a token that there is not, an impossible format.
        """
        deadline = None if options.timeout_s is None else time.monotonic() + options.timeout_s
        if options.seed is None:
            options = replace(options, seed=secrets.randbits(63))
        sampling = await asyncio.to_thread(self.sampling_params, options)
        wanted = options.response_format
        return AnswerTerms(
            options=options,
            sampling=sampling,
            stop_ids=frozenset() if options.ignore_eos else self._tokenizer.stop_ids,
            text=AnswerText(self._tokenizer.stream(), options.stop, options.min_output_tokens),
            grammar=None if wanted is None else await self._compile(wanted),
            deadline=deadline,
        )

    def sampling_params(self, options: ResponseOptions) -> SamplingParams:
        """The engine's part of the options. Raises InvalidSamplingParams."""
        assert options.seed is not None
        params = SamplingParams(
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            min_p=options.min_p,
            typical_p=options.typical_p,
            repetition_penalty=options.repetition_penalty,
            presence_penalty=options.presence_penalty,
            frequency_penalty=options.frequency_penalty,
            dry_multiplier=options.dry_multiplier,
            dry_base=options.dry_base,
            dry_allowed_length=options.dry_allowed_length,
            dry_breakers=self.dry_breakers if options.dry_multiplier else frozenset(),
            logit_bias=options.logit_bias,
            bad_words=self.bad_sequences(options.bad_words),
            min_tokens=options.min_output_tokens,
            seed=options.seed,
            max_tokens=options.max_output_tokens,
            logprobs=options.top_logprobs,
        )
        # Not the model's rows: those beyond the tokenizer mean nothing.
        params.validate_vocabulary(self._tokenizer.vocab_size)
        return params

    @cached_property
    def dry_breakers(self) -> frozenset[int]:
        """The tokens that no repetition reaches over: any with such a character, and controls."""
        shown = enumerate(self._tokenizer.token_bytes)
        breaking = (id_ for id_, text in shown if DRY_BREAKERS.search(text))
        return frozenset((*breaking, *self._tokenizer.control_tokens.values()))

    def bad_sequences(self, words: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """The token sequences that write these words: on a new line, and after a space."""
        found: dict[tuple[int, ...], None] = {}
        for word in words:
            plain, spaced = (
                self._written("\n", word.strip()),
                self._written("a", f" {word.strip()}"),
            )
            found[plain] = None
            # Where the space is a token of its own, what follows it is forbidden already.
            if spaced[-len(plain) :] != plain:
                found[spaced] = None
        return tuple(found)

    def _written(self, before: str, text: str) -> tuple[int, ...]:
        """The tokens of `text` where it stands after that; with it, if one token has both."""
        piece = Piece(before + text, is_content=True)
        ids = self._tokenizer.encode_prompt([piece], at_start=False)
        # Not the encoding of `text` alone: SentencePiece begins each text with a space.
        length = len(text.encode())
        for start in range(len(ids) - 1, -1, -1):
            length -= len(self._tokenizer.token_bytes[ids[start]])
            if length <= 0:
                break
        return tuple(ids[start:])

    def close(self) -> None:
        """End the compiler's workers; no answer with a format may be running."""
        made = self._compiler
        if made is not None and made.done() and not _has_failed(made):
            made.result().close()

    async def _compile(self, wanted: ResponseFormat) -> Grammar:
        # One that could not be made (no memory, no thread) is made for the next who asks.
        if self._compiler is None or _has_failed(self._compiler):
            making = asyncio.to_thread(GrammarCompiler, self._tokenizer, self._vocab_size)
            self._compiler = asyncio.create_task(making)
        # Shielded: one who leaves does not take it from another who waits for it too.
        compiler = await asyncio.shield(self._compiler)
        return await asyncio.to_thread(compiler.compile, wanted.kind, wanted.value)


def _has_failed(making: asyncio.Task[GrammarCompiler]) -> bool:
    return making.done() and (making.cancelled() or making.exception() is not None)
