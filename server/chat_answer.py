"""A chat's answers in OpenAI's form, in chunks or whole: `ChatChunks`.

Knows no socket: values in, wire values out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radixchat.server.completion_usage import completion_timings, completion_usage
from radixchat.server.completions import ChoiceEnd, ChoicePart, Run
from radixchat.server.output_logprob import OutputLogprob
from radixchat.server.tool_text import CallPart, Part, TextPart
from radixchat.server.wire_chat_completion import (
    AnswerMessage,
    AnswerToolCall,
    ChatChoice,
    ChatCompletion,
    ChatCompletionChunk,
    ChatDelta,
    ChatLogprobs,
    ChatTokenLogprob,
    ChunkChoice,
    CompletionUsage,
    DeltaFunction,
    DeltaToolCall,
    Finish,
    TopTokenLogprob,
)
from radixchat.server.wire_chat_request import FunctionCall


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """How answers of one model are written.

    fingerprint: names model, tokenizer and template. with_ids: the exact tokens are wanted.
    """

    model: str
    fingerprint: str
    with_ids: bool = False


class ChatChunks:
    """A run's events as the chunks of a stream, or its ends as one answer."""

    def __init__(self, run: Run, form: AnswerForm, *, with_logprobs: bool) -> None:
        self._run = run
        self._form = form
        self._with_logprobs = with_logprobs

    def begin(self) -> list[ChatCompletionChunk]:
        """The role of each choice, before anything is computed."""
        role = ChatDelta(role="assistant", content="")
        return [
            self._chunk(ChunkChoice(index=index, delta=role, logprobs=None, finish_reason=None))
            for index in range(self._run.choices_per_prompt)
        ]

    def part(self, event: ChoicePart) -> list[ChatCompletionChunk]:
        """More of a choice: one chunk for its text and one for each part of a call."""
        logprobs = chat_logprobs(event.logprobs) if self._with_logprobs else None
        chunks = []
        for part in event.parts or (TextPart(""),):
            choice = ChunkChoice(
                index=event.index, delta=_delta(part), logprobs=logprobs, finish_reason=None
            )
            chunks.append(self._chunk(choice))
            logprobs = None  # told once
        return chunks

    def end(self, end: ChoiceEnd) -> list[ChatCompletionChunk]:
        """Why a choice has ended."""
        ids = end.sample.output_ids if self._form.with_ids else None
        choice = ChunkChoice(
            index=end.sample.index,
            delta=ChatDelta(),
            logprobs=None,
            finish_reason=finish_of(end),
            stop_reason=end.sample.stop,
            token_ids=ids,
        )
        return [self._chunk(choice)]

    def usage(self, ends: Sequence[ChoiceEnd]) -> ChatCompletionChunk:
        """The last chunk, which has no choice."""
        return self._chunk(usage=completion_usage(self._run, ends), ends=ends)

    def whole(self, ends: Sequence[ChoiceEnd]) -> ChatCompletion:
        """All of it, once every choice has ended."""
        ordered = sorted(ends, key=lambda end: end.sample.index)
        form = self._form
        return ChatCompletion(
            id=self._run.id,
            created=self._run.created,
            model=form.model,
            system_fingerprint=form.fingerprint,
            choices=tuple(_choice(end, form) for end in ordered),
            usage=completion_usage(self._run, ordered),
            timings=completion_timings(ordered),
            prompt_token_ids=ordered[0].sample.prompt_ids if form.with_ids else None,
        )

    def _chunk(
        self,
        *choices: ChunkChoice,
        usage: CompletionUsage | None = None,
        ends: Sequence[ChoiceEnd] = (),
    ) -> ChatCompletionChunk:
        return ChatCompletionChunk(
            id=self._run.id,
            created=self._run.created,
            model=self._form.model,
            system_fingerprint=self._form.fingerprint,
            choices=choices,
            usage=usage,
            timings=completion_timings(ends) if ends else None,
        )


def chat_logprobs(logprobs: Sequence[OutputLogprob]) -> ChatLogprobs:
    """Of some tokens, with their alternatives."""
    return ChatLogprobs(content=tuple(map(_token_logprob, logprobs)))


def finish_of(end: ChoiceEnd) -> Finish:
    """OpenAI's reason of a choice's end."""
    match end.finish:
        case "stop" | "length" | "tool_calls" as reason:
            return reason
        case other:
            raise AssertionError(other)


def _choice(end: ChoiceEnd, form: AnswerForm) -> ChatChoice:
    calls = tuple(
        AnswerToolCall(id=call.id, function=FunctionCall(name=call.name, arguments=call.arguments))
        for call in end.message.tool_calls
    )
    message = AnswerMessage(
        content=end.message.content or (None if calls else ""), tool_calls=calls or None
    )
    return ChatChoice(
        index=end.sample.index,
        message=message,
        logprobs=None if end.logprobs is None else chat_logprobs(end.logprobs),
        finish_reason=finish_of(end),
        stop_reason=end.sample.stop,
        token_ids=end.sample.output_ids if form.with_ids else None,
    )


def _delta(part: Part) -> ChatDelta:
    match part:
        case TextPart(text):
            return ChatDelta(content=text)
        case CallPart():
            call = DeltaToolCall(
                index=part.index,
                id=part.id,
                type=None if part.id is None else "function",
                function=DeltaFunction(name=part.name, arguments=part.arguments),
            )
            return ChatDelta(tool_calls=(call,))


def _token_logprob(logprob: OutputLogprob) -> ChatTokenLogprob:
    return ChatTokenLogprob(
        token=logprob.token,
        bytes=_bytes(logprob),
        logprob=logprob.logprob,
        top_logprobs=tuple(
            TopTokenLogprob(token=top.token, bytes=_bytes(top), logprob=top.logprob)
            for top in logprob.top
        ),
    )


def _bytes(logprob: OutputLogprob) -> tuple[int, ...] | None:
    return None if logprob.data is None else tuple(logprob.data)
