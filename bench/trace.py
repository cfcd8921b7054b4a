"""A trace of traffic: requests and signals in the order in which a server saw them.

    for item in open_trace("chats.jsonl.xz"):
        ...

Owns the choice of the format and what a reader of all of them sees. The formats are in
`trace_blocks.py`, `trace_chats.py` and `trace_tokens.py`, files and lines in `trace_file.py`.
Knows no cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from pathlib import Path

from radixchat.bench.trace_blocks import BlockReader, deduce_block_tokens
from radixchat.bench.trace_chats import ChatReader, ChatTokens
from radixchat.bench.trace_file import Progress, TraceFile
from radixchat.bench.trace_item import TraceError, TraceItem, TraceRequest, TraceSignal
from radixchat.bench.trace_line import TraceLine, shown
from radixchat.bench.trace_messages import CHAT_FIELDS
from radixchat.bench.trace_tokens import TOKEN_FIELDS, TokenReader
from radixchat.bench.trace_words import WordChat

__all__ = [
    "BUILT_IN_TOKENIZER",
    "FORMATS",
    "Trace",
    "TraceError",
    "TraceItem",
    "TraceRequest",
    "TraceSignal",
    "open_trace",
]

FORMATS = ("mooncake", "messages", "tokens")
BUILT_IN_TOKENIZER = "words"


class Trace:
    """What was sent to a server; can be iterated again and again, and holds nothing in memory.

    name: the file as it was given. format: one of FORMATS. unit_tokens: tokens for each unit of a
    prompt: the size of a block of a block-hash trace, else 1.
    """

    def __init__(
        self,
        file: TraceFile,
        trace_format: str,
        unit_tokens: int,
        read: Callable[[Iterable[TraceLine]], Iterator[TraceItem]],
        quiet: Set[int] = frozenset(),
    ) -> None:
        """`read` makes items of a file's lines, afresh each time it is called.

        quiet: the numbers of the lines that it read and that ask for nothing.
        """
        self.name = file.name
        self.format = trace_format
        self.unit_tokens = unit_tokens
        self._file = file
        self._read = read
        self._quiet = quiet

    @property
    def quiet_lines(self) -> int:
        """Chats without a question, which make no request; known after a whole pass."""
        return len(self._quiet)

    def __iter__(self) -> Iterator[TraceItem]:
        return self.items()

    def items(self, progress: Progress | None = None) -> Iterator[TraceItem]:
        """What the trace holds, read from its start. Raises TraceError at a damaged line.

        progress: called with the bytes read and the bytes in all, at the start, now and then,
        and at the end; bytes of the file as it is on disk, compressed or not.
        """
        return self._read(self._file.lines(progress))


def open_trace(
    path: str | Path,
    format: str = "auto",  # noqa: A002 - as the option is called
    *,
    tokenizer: str = BUILT_IN_TOKENIZER,
    keep_replies: bool = True,
    namespace_by: str | None = None,
    concurrency: int = 1,
    last_turn: bool = False,
) -> Trace:
    """The trace in a file: plain, or packed by gzip, xz or bzip2; "-" is standard input.

    format: "auto" goes by the first line. namespace_by: the field of each line that names its
    namespace. keep_replies: whether a request has its answer's tokens.
    Of chats: tokenizer: "words" for the built-in one, else an installed model's name, a .gguf
    file, or a folder with tokenizer.json; concurrency: so many take turns; last_turn: only the
    last turn of each line is a request.
    Raises TraceError for what is no trace, ModelLoadError for a tokenizer that cannot be had,
    ValueError for a setting out of range.
    """
    if format not in ("auto", *FORMATS):
        raise ValueError(f"format is {format!r}; allowed: auto, {', '.join(FORMATS)}")
    if concurrency < 1:
        raise ValueError(f"concurrency is {concurrency}; allowed: 1 or more")
    file = TraceFile(str(path))
    first = next(file.lines(), None)
    if first is None:
        raise TraceError(file.name, 0, "the trace is empty; it needs one JSON object per line")
    found = _format(first) if format == "auto" else format
    if found == "mooncake":
        said = first.optional_integer("block_size", 1)
        unit = deduce_block_tokens(file.lines()) if said is None else said
        return Trace(file, found, unit, BlockReader(unit, namespace_by).read)
    if found == "tokens":
        return Trace(file, found, 1, TokenReader(keep_replies, namespace_by).read)
    chats = ChatReader(_encoder(tokenizer), keep_replies, namespace_by, last_turn, concurrency)
    return Trace(file, found, 1, chats.read, chats.quiet)


def _format(line: TraceLine) -> str:
    if line.first_of(("hash_ids",)):
        return "mooncake"
    if line.first_of(CHAT_FIELDS):
        return "messages"
    if line.first_of((*TOKEN_FIELDS, "event")):
        return "tokens"
    raise line.error(
        f"no trace: its fields are {shown(', '.join(line.fields))}; it needs hash_ids, "
        f"{', '.join(CHAT_FIELDS)} or {', '.join(TOKEN_FIELDS)}"
    )


def _encoder(tokenizer: str) -> Callable[[], ChatTokens]:
    if tokenizer == BUILT_IN_TOKENIZER:
        return WordChat
    # Here, not above: it takes seconds, which the other traces need not pay.
    from radixchat.bench.trace_template import TemplateEncoder

    return TemplateEncoder.load(tokenizer).begin
