"""Text to tokens and back; control tokens come from templates only.

Owns `Tokenizer`, what the rest of the engine sees of a vocabulary. Knows neither checkpoint
format (`gguf_vocabulary.py`, `json_vocabulary.py` read them) nor how a prompt is laid out
(`template.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from radixchat.engine.decode_stream import DecodeStream
from radixchat.engine.errors import InvalidRequest
from radixchat.engine.gguf_vocabulary import read_gguf_vocabulary
from radixchat.engine.json_vocabulary import read_json_vocabulary
from radixchat.engine.prompt import Piece
from radixchat.engine.vocabulary import ControlToken, Vocabulary

# A normalizer (NFKC, say) makes a text at most so many times shorter in UTF-8.
NORMALISED = 4


class Tokenizer:
    """One checkpoint's tokenizer; immutable.

    control_tokens: text -> id of every token that ordinary text cannot produce, by construction:
    the encoder does not hold them. stop_ids: those that end an answer. bos_token, eos_token and
    chat_template: what the checkpoint gives a template to work with.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._backend = vocabulary.backend
        self._token_bytes = vocabulary.token_bytes
        self._skip_space = vocabulary.skip_space
        self._prefix_first = vocabulary.prefix_first
        self._controls = vocabulary.controls
        self._control_pattern = _compile_controls(vocabulary.controls)
        self.control_tokens: Mapping[str, int] = MappingProxyType(
            {text: token.id for text, token in vocabulary.controls.items()}
        )
        self.stop_ids = vocabulary.stop_ids
        self.bos_token = vocabulary.bos_token
        self.eos_token = vocabulary.eos_token
        self.chat_template = vocabulary.chat_template

    @classmethod
    def from_gguf(cls, fields: Mapping[str, Any]) -> Tokenizer:
        """From a GGUF's metadata, key -> value. Raises ModelLoadError."""
        return cls(read_gguf_vocabulary(fields))

    @classmethod
    def from_directory(cls, path: Path) -> Tokenizer:
        """From a folder with Hugging Face's tokenizer.json. Raises ModelLoadError."""
        return cls(read_json_vocabulary(path))

    @property
    def vocab_size(self) -> int:
        """Ids are 0 to vocab_size - 1; a model's embedding may have more rows."""
        return len(self._token_bytes)

    @property
    def token_bytes(self) -> Sequence[bytes]:
        """What each id shows, by id; b"" for those never shown. Not every one is a character."""
        return self._token_bytes

    @property
    def skips_space(self) -> bool:
        """Whether an answer's first character is not shown if it is a space (SentencePiece)."""
        return self._skip_space

    def encode(self, text: str) -> list[int]:
        """Ordinary text: no BOS, and what looks like a control token is its characters.

        Raises InvalidRequest for text that is not Unicode (half a surrogate pair).
        """
        return list(self._encode_run(text, at_start=True))

    def least_tokens(self, text: str) -> int:
        """A lower bound of the text's tokens, in no time: to encode 3 MB takes seconds."""
        return len(text.encode(errors="surrogatepass")) // (NORMALISED * self._longest)

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._token_bytes))

    def encode_prompt(self, pieces: Sequence[Piece], *, at_start: bool = True) -> list[int]:
        """A rendered prompt; only the template's own text yields control tokens.

        Text between two control tokens is encoded as one run, whoever wrote it, so that the ids
        are those of the rendered text as a whole. `at_start` is false where the pieces continue
        a conversation. Raises InvalidRequest for text that is not Unicode.
        """
        ids: list[int] = []
        run: list[str] = []
        for piece in pieces:
            for text, control in self._cut(piece):
                if control is None:
                    run.append(text)
                    continue
                ids += self._encode_run("".join(run), at_start=at_start and not ids)
                run.clear()
                ids.append(control.id)
        ids += self._encode_run("".join(run), at_start=at_start and not ids)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; control tokens show nothing, impossible bytes are U+FFFD.

        Tokens that a checkpoint adds without calling them special (<think>) are shown.
        """
        stream = self.stream()
        return "".join([stream.push(token_id) for token_id in ids]) + stream.finish()

    def stream(self) -> DecodeStream:
        """A decoder of one answer, token by token."""
        return DecodeStream(self._token_bytes, skip_space=self._skip_space)

    def _cut(self, piece: Piece) -> Iterator[tuple[str, ControlToken | None]]:
        """The piece as runs of text and, in template text, control tokens."""
        if piece.is_content:
            yield piece.text, None
            return
        end = 0
        for match in self._control_pattern.finditer(piece.text):
            yield piece.text[end : match.start()], None
            yield match[0], self._controls.get(match[0]) or self._controls[match[0].strip()]
            end = match.end()
        yield piece.text[end:], None

    def _encode_run(self, text: str, *, at_start: bool) -> list[int]:
        if not text:
            return []
        if at_start and self._prefix_first and text[0] not in " ▁":
            text = f" {text}"
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequest(
                f"the text is not Unicode: half a surrogate pair, {text[error.start]!r}, "
                f"at position {error.start}"
            ) from error
        return self._backend.encode(text, add_special_tokens=False).ids


def _compile_controls(controls: Mapping[str, ControlToken]) -> re.Pattern[str]:
    """Matches a control token with the whitespace it swallows, the longest at each place."""
    longest_first = sorted(controls, key=len, reverse=True)
    alternatives = [
        (r"\s*" if controls[text].lstrip else "")
        + re.escape(text)
        + (r"\s*" if controls[text].rstrip else "")
        for text in longest_first
    ]
    return re.compile("|".join(alternatives) or "(?!)")
