"""Continuations of prompts in OpenAI's form, in chunks or whole: `TextChunks`.

Knows no socket: values in, wire values out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.chat_answer import AnswerForm, finish_of
from radixchat.server.chat_ask import TextAsk
from radixchat.server.completion_usage import completion_timings, completion_usage
from radixchat.server.completions import ChoiceEnd, ChoicePart, Run
from radixchat.server.output_logprob import OutputLogprob
from radixchat.server.token_texts import TokenTexts
from radixchat.server.tool_text import TextPart
from radixchat.server.wire_chat_completion import CompletionUsage
from radixchat.server.wire_text_completion import TextChoice, TextCompletion, TextLogprobs


class TextChunks:
    """A run's events as TextCompletions; the whole is a chunk with everything.

    tokenizer: for what is echoed.
    """

    def __init__(self, run: Run, ask: TextAsk, form: AnswerForm, tokenizer: Tokenizer) -> None:
        self._run = run
        self._ask = ask
        self._form = form
        self._tokenizer = tokenizer
        self._lengths: dict[int, int] = {}  # of each choice's text so far, the prompt's included

    def begin(self) -> list[TextCompletion]:
        """Nothing: a text has no role."""
        return []

    def part(self, event: ChoicePart) -> list[TextCompletion]:
        """More of a choice. An echo waits for the end of a choice: its logprobs are known then."""
        if self._ask.echo:
            return []
        text = "".join(part.text for part in event.parts if isinstance(part, TextPart))
        start = self._lengths.get(event.index, 0)
        self._lengths[event.index] = start + len(text)
        wanted = self._ask.options.top_logprobs is not None
        logprobs = text_logprobs(event.logprobs, start) if wanted else None
        choice = TextChoice(index=event.index, text=text, logprobs=logprobs, finish_reason=None)
        return [self._completion((choice,))]

    def end(self, end: ChoiceEnd) -> list[TextCompletion]:
        """Why a choice has ended; with an echo, all of it."""
        if self._ask.echo:
            return [self._completion((self._whole(end),))]
        return [self._completion((self._choice(end, "", None),))]

    def usage(self, ends: Sequence[ChoiceEnd]) -> TextCompletion:
        """The last chunk, which has no choice."""
        return self._completion((), self._usage(ends), ends)

    def whole(self, ends: Sequence[ChoiceEnd]) -> TextCompletion:
        """All of it, once every choice has ended."""
        ordered = sorted(ends, key=lambda end: end.sample.index)
        choices = tuple(map(self._whole, ordered))
        return self._completion(choices, self._usage(ordered), ordered)

    def _usage(self, ends: Sequence[ChoiceEnd]) -> CompletionUsage:
        return completion_usage(self._run, ends, with_output=not self._ask.is_only_prompt)

    def _whole(self, end: ChoiceEnd) -> TextChoice:
        text = "" if self._ask.is_only_prompt else end.sample.text
        logprobs = list(() if self._ask.is_only_prompt else end.logprobs or ())
        echo = self._tokenizer.decode(end.sample.prompt_ids) if self._ask.echo else ""
        told = None
        if self._ask.options.top_logprobs is not None:
            told = text_logprobs(logprobs, len(echo))
            if self._ask.echo:
                told = _joined(self._echo_logprobs(end), told)
        return self._choice(end, echo + text, told)

    def _echo_logprobs(self, end: ChoiceEnd) -> TextLogprobs:
        """Of the prompt's tokens; nothing is known of the first."""
        first = end.sample.prompt_ids[0]
        name = TokenTexts(self._tokenizer).text(first)
        rest = text_logprobs(end.prompt_logprobs or (), len(name))
        head = TextLogprobs(
            tokens=(name,), token_logprobs=(None,), top_logprobs=(None,), text_offset=(0,)
        )
        return _joined(head, rest)

    def _choice(self, end: ChoiceEnd, text: str, logprobs: TextLogprobs | None) -> TextChoice:
        with_ids = self._form.with_ids
        sampled = () if self._ask.is_only_prompt else end.sample.output_ids
        return TextChoice(
            index=end.sample.index,
            text=text,
            logprobs=logprobs,
            finish_reason="length" if self._ask.is_only_prompt else finish_of(end),
            stop_reason=end.sample.stop,
            token_ids=sampled if with_ids else None,
            prompt_token_ids=end.sample.prompt_ids if with_ids else None,
        )

    def _completion(
        self,
        choices: tuple[TextChoice, ...],
        usage: CompletionUsage | None = None,
        ends: Sequence[ChoiceEnd] = (),
    ) -> TextCompletion:
        return TextCompletion(
            id=self._run.id,
            created=self._run.created,
            model=self._form.model,
            system_fingerprint=self._form.fingerprint,
            choices=choices,
            usage=usage,
            timings=completion_timings(ends) if ends else None,
        )


def text_logprobs(logprobs: Sequence[OutputLogprob], start: int) -> TextLogprobs:
    """Of some tokens; start: characters before the first. Offsets count single tokens' texts."""
    lengths = [len(logprob.token) for logprob in logprobs]
    return TextLogprobs(
        tokens=tuple(logprob.token for logprob in logprobs),
        token_logprobs=tuple(logprob.logprob for logprob in logprobs),
        top_logprobs=tuple(
            {top.token: top.logprob for top in logprob.top} if logprob.top else None
            for logprob in logprobs
        ),
        text_offset=tuple(accumulate(lengths, initial=start))[: len(lengths)],
    )


def _joined(first: TextLogprobs, rest: TextLogprobs) -> TextLogprobs:
    return TextLogprobs(
        tokens=first.tokens + rest.tokens,
        token_logprobs=first.token_logprobs + rest.token_logprobs,
        top_logprobs=first.top_logprobs + rest.top_logprobs,
        text_offset=first.text_offset + rest.text_offset,
    )
