"""What tokens are called where a client reads them: `TokenTexts`.

Owns the texts of single tokens, which need not be text. Knows no answer.
"""

from __future__ import annotations

from radixchat.engine.logprobs import TokenLogprob
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.output_logprob import OutputLogprob


class TokenTexts:
    """The vocabulary's tokens as texts and bytes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._bytes = tokenizer.token_bytes
        self._controls = {token: text for text, token in tokenizer.control_tokens.items()}

    def text(self, token: int) -> str:
        """What a token is called."""
        return self._named(token, 0.0).token

    def shown(self, token: int) -> bytes:
        """Its part of a text in which control tokens are seen, too."""
        data = self._bytes[token] if token < len(self._bytes) else b""
        return data or self._controls.get(token, "").encode()

    def output_logprob(self, logprob: TokenLogprob) -> OutputLogprob:
        """The same with texts in place of ids."""
        top = tuple(self._named(token, value) for token, value in logprob.top)
        return self._named(logprob.token, logprob.logprob, top)

    def _named(
        self, token: int, logprob: float, top: tuple[OutputLogprob, ...] = ()
    ) -> OutputLogprob:
        data = self._bytes[token] if token < len(self._bytes) else b""
        if not data:
            return OutputLogprob(self._controls.get(token, ""), None, logprob, top)
        return OutputLogprob(data.decode(errors="replace"), data, logprob, top)
