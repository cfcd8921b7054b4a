"""A model's own tokenizer and chat template, as the encoder of chats. No weight is loaded.

A chat goes on token by token, as `server/prompt.py` does it: ids stay as they are up to the last
end of a prompt or a reply whose text the template leaves standing, and only what follows is
encoded. So a template that keeps history gives prompts that extend each other exactly; one that
strips or rewrites a reply diverges where it does. Knows no trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.gguf import read_gguf
from radixchat.engine.model_store import ModelStore
from radixchat.engine.prompt import ChatMessage, Piece, joined
from radixchat.engine.template import ChatTemplate
from radixchat.engine.tokenizer import Tokenizer

_ANSWER = "Blue."


class TemplateEncoder:
    """Begins chats in one model's tokens."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._end = self._end_of_reply()

    @classmethod
    def load(cls, name: str) -> TemplateEncoder:
        """By a model's name, a .gguf file, or a folder with tokenizer.json.

        Raises ModelLoadError when it is not on this machine, or has no chat template.
        """
        own_folder = (Path(name) / "tokenizer.json").is_file()
        path = Path(name) if own_folder else ModelStore.default().find(name)
        if path is None:
            raise ModelLoadError(
                f"model {name!r} is not on this machine; fetch it with: "
                f"radixchat models pull {name}"
            )
        if path.is_dir():
            tokenizer = Tokenizer.from_directory(path)
        else:
            tokenizer = Tokenizer.from_gguf(read_gguf(path).fields)
        return cls(tokenizer, ChatTemplate.of(tokenizer))

    def begin(self) -> TemplateChat:
        """A new chat."""
        return TemplateChat(self._tokenizer, self._template, self._end)

    def _end_of_reply(self) -> tuple[int, ...]:
        """The id that ends a reply; none where the template writes none."""
        chat = [ChatMessage("user", "A colour?"), ChatMessage("assistant", _ANSWER)]
        pieces = self._template.render(chat, add_generation_prompt=False)
        start = joined(pieces).rindex(_ANSWER) + len(_ANSWER)
        rest = self._tokenizer.encode_prompt(_after(pieces, start), at_start=False)
        return tuple(rest[:1]) if rest and rest[0] in self._tokenizer.stop_ids else ()


class TemplateChat:
    """One chat as it grows, in tokens."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate, end: tuple[int, ...]) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._end = end
        self._text = ""
        self._ids: list[int] = []
        # Where a prompt or a reply ended: characters of _text, and the ids that they are.
        self._marks: list[tuple[int, int]] = []

    def turn(
        self, messages: Sequence[ChatMessage], reply: str | None
    ) -> tuple[list[int], list[int]]:
        """The prompt that `messages` make, and the reply's ids, with the end that it samples.

        messages: those of the turn before, its reply, and what was said since. Raises
        InvalidRequest when the template refuses them, or they are not Unicode.
        """
        pieces = self._template.render(messages, add_generation_prompt=True)
        text = joined(pieces)
        while self._marks and not text.startswith(self._text[: self._marks[-1][0]]):
            self._marks.pop()
        characters, tokens = self._marks[-1] if self._marks else (0, 0)
        del self._ids[tokens:]
        rest = _after(pieces, characters)
        self._ids += self._tokenizer.encode_prompt(rest, at_start=not characters)
        prompt = list(self._ids)
        self._text = text
        self._marks.append((len(text), len(self._ids)))
        if reply is None:
            return prompt, []
        output = self._tokenizer.encode_prompt(_reply_pieces(reply), at_start=False)
        self._text += reply
        self._ids += output
        self._marks.append((len(self._text), len(self._ids)))
        return prompt, [*output, *self._end]


def _after(pieces: Sequence[Piece], start: int) -> list[Piece]:
    """The pieces from character `start` of their text on."""
    kept = []
    for piece in pieces:
        if start < len(piece.text):
            kept.append(Piece(piece.text[max(0, start) :], piece.is_content))
        start -= len(piece.text)
    return kept


def _reply_pieces(reply: str) -> list[Piece]:
    """What the model wrote: text, and the two marks of reasoning that are tokens to it."""
    pieces = []
    for mark in ("<think>", "</think>"):
        before, found, reply = reply.partition(mark)
        if not found:
            before, reply = "", before
        pieces += [Piece(before, is_content=True), Piece(found, is_content=False)]
    return [*pieces, Piece(reply, is_content=True)]
