"""`AnswerRecord`: what the engine's events say of one answer: tokens, text, cost, times, its end.

Takes events in, gives values out. Knows no task, no log and no store.
"""

from __future__ import annotations

from radixchat.engine.request import Request, TokenEvent, Usage
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.answer_ids import answer_ids
from radixchat.server.message import Answer
from radixchat.server.protocol import (
    ErrorInfo,
    OutputLogprob,
    ResponseCreated,
    ResponseDone,
    ResponseTimings,
    ResponseUsage,
)
from radixchat.server.token_texts import TokenTexts


class AnswerRecord:
    """Of one request, which may go on with an answer that was begun (`resumed`, `text`)."""

    def __init__(
        self,
        request: Request,
        tokenizer: Tokenizer,
        accepted_at: float,
        n_ctx: int,
        *,
        text: str = "",
        has_output: bool = True,
    ) -> None:
        """accepted_at: seconds, monotonic. text: of what is resumed. has_output: what is sampled
        belongs to an answer; else the request is only there to have its prompt computed.
        """
        self.usage: Usage | None = None
        self.submitted_at = accepted_at
        self._request = request
        self._prompt_ids = tuple(request.tokens[: request.num_prompt])
        self._accepted_at = accepted_at
        self._n_ctx = n_ctx
        self._tokenizer = tokenizer
        self._has_output = has_output
        self._text = [text] if text else []
        self._sampled: list[int] = request.tokens[request.num_prompt :]
        # Tokens up to the first step, and of it: with a draft that was right, several.
        self._num_first = request.num_resumed
        self._kept = (0, 0)  # tokens and characters of the text that are wholly shown
        if request.text is not None:
            self._kept = (request.text.num_kept, request.text.num_kept_characters)
        self._stop: str | None = None
        self._token_texts = TokenTexts(tokenizer)
        self._logprobs: list[OutputLogprob] = []
        self._first_at = self._last_at = 0.0

    def take(self, event: TokenEvent) -> str:
        """Take an event in; the text that it adds."""
        if event.finish is not None:
            self._stop, self.usage = event.stop, event.usage
        if not self._has_output:
            if event.token is not None:
                self._first_at = self._last_at = event.at
            return ""
        if event.token is not None:
            self._first_at, self._last_at = self._first_at or event.at, event.at
            self._num_first += event.at == self._first_at
            self._sampled.append(event.token)
        if event.logprob is not None:
            self._logprobs.append(self._token_texts.output_logprob(event.logprob))
        self._kept = event.num_kept, event.num_kept_characters
        if event.text:
            self._text.append(event.text)
        return event.text

    @property
    def answer(self) -> Answer:
        """What was generated and shown so far."""
        text = "".join(self._text)
        count, length = self._kept
        return Answer(text, answer_ids(self._tokenizer, self._sampled[:count], text, length))

    @property
    def whole(self) -> Answer:
        """Of this, the tokens that are wholly shown: what another process can go on from."""
        count, length = self._kept
        return Answer("".join(self._text)[:length], tuple(self._sampled[:count]))

    def done(
        self,
        created: ResponseCreated,
        status: str,
        reason: str | None,
        *,
        sequence: int,
        error: ErrorInfo | None = None,
    ) -> ResponseDone:
        """The terminal event of a response that ends so; of its miss it knows nothing."""
        answer, input_tokens = self.answer, len(self._prompt_ids)
        usage = self.usage or Usage(input_tokens, 0, 0, len(self._sampled))
        asked_logprobs = self._request.sampling.logprobs is not None
        return ResponseDone(
            conversation=created.conversation,
            response=created.response,
            status=status,
            reason=reason,
            output_text=answer.text,
            usage=ResponseUsage(
                usage.input_tokens,
                usage.cached_tokens,
                usage.cache_write_tokens,
                usage.output_tokens if self._has_output else 0,
                usage.draft_tokens,
                usage.accepted_tokens,
                self._kept[0],
                usage.host_tokens,
                usage.disk_tokens,
                usage.store_tokens,
                usage.not_restored,
            ),
            timings=self._timings(usage),
            input_ids=self._prompt_ids,
            output_ids=tuple(self._sampled),
            seed=self._request.sampling.seed,
            error=error,
            stop=self._stop,
            logprobs=tuple(self._logprobs) if asked_logprobs else None,
            n_ctx=self._n_ctx,
            tokens_left=max(0, self._n_ctx - input_tokens - len(answer.token_ids)),
            left_out=created.left_out,
            left_out_tokens=created.left_out_tokens,
            sequence=sequence,
        )

    def _timings(self, usage: Usage) -> ResponseTimings:
        if not self._first_at:
            return ResponseTimings(None, None, None)
        return ResponseTimings.between(
            self._accepted_at,
            self.submitted_at,
            self._first_at,
            self._last_at,
            queue_seconds=usage.queue_seconds,
            first_tokens=self._num_first,
        )
