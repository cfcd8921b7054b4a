"""A prompt as the model sees it, with what of it is cached: `cache_picture`.

    message 3 · 412 tokens: 400 cached, 12 to compute
      <|im_start|>user                    dim: cached
      … 18 more lines …
    + and what is new                     bright, and marked: to be computed

The mark says it where there are no styles, and to whoever has it read out. Owns how much of a long
prompt is shown: the beginning and the end of a message, the messages at both ends and where the
cache ends. Knows no cache and no terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from rich.cells import cell_len, chop_cells
from rich.style import Style
from rich.text import Text

from radixchat.chat_cli.control_characters import neutral_line, neutralise
from radixchat.chat_cli.places_below import lies_below
from radixchat.server.protocol import CacheReport, CacheSegment, MessageView

MAX_ROWS = 60
MAX_WIDTH = 76
"""Cells of a row in a wide window, and where there is none."""
LEGEND = "+ marks what would be computed; the rest is cached"
_MIN_CELLS = 20
_EDGE_ROWS = 3
_DIM, _BRIGHT = Style(dim=True), Style(bold=True)
_COMPUTED = "computed"
_WORD = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class _Row:
    text: str
    is_cached: bool

    def styled(self) -> Text:
        return Text(self.text, _DIM if self.is_cached else _BRIGHT)


@dataclass(frozen=True, slots=True)
class _Block:
    """One message's share of the prompt; rows: as it is shown, under its title.

    below: how much of what is cached lies elsewhere than in the pool.
    """

    title: str
    cached: int
    computed: int
    rows: tuple[_Row, ...]
    below: str

    @property
    def heading(self) -> _Row:
        below = f" ({self.below})" if self.below else ""
        counts = _tokens(self.cached, self.computed)
        return _Row(f"{self.title} · {counts}{below}", not self.computed)


def cache_picture(
    report: CacheReport, messages: Sequence[MessageView], width: int = MAX_WIDTH
) -> list[Text]:
    """At most MAX_ROWS lines. report: of these messages, with texts. width: of the window."""
    titles = message_titles(messages)
    room = max(_MIN_CELLS, min(width, MAX_WIDTH) - 2)
    blocks = [
        _block(titles.get(message or "", "prompt"), list(segments), room)
        for message, segments in groupby(report.segments, key=lambda segment: segment.message)
    ]
    shown = _worth_showing(blocks)
    rows: list[_Row] = []
    for is_shown, run in groupby(enumerate(blocks), key=lambda pair: pair[0] in shown):
        some = [block for _, block in run]
        if is_shown:
            rows += [row for block in some for row in (block.heading, *block.rows)]
        else:
            cached = sum(block.cached for block in some)
            computed = sum(block.computed for block in some)
            count = _counted(len(some), "message")
            rows.append(_Row(f"… {count} · {_tokens(cached, computed)} …", not computed))
    return [row.styled() for row in rows]


def message_titles(messages: Sequence[MessageView]) -> Mapping[str, str]:
    """What each message is called, by its id: "message 3" is what /edit 3 changes."""
    turn, titles = 0, {}
    for message in messages:
        turn += message.role == "user"
        names = {"user": f"message {turn}", "assistant": f"answer {turn}"}
        other = f"{neutral_line(message.role)} message" + (f" of turn {turn}" if turn else "")
        titles[message.id] = names.get(message.role, other)
    return titles


def _block(title: str, segments: Sequence[CacheSegment], room: int) -> _Block:
    counts = {True: 0, False: 0}
    rows: list[_Row] = []
    in_line = False  # the segment before this one has ended within a line
    for segment in segments:
        is_cached = segment.state != _COMPUTED
        counts[is_cached] += segment.end - segment.start
        text = neutralise(segment.text or "")
        rows += _abbreviated(list(_rows(text, room, is_cached=is_cached, goes_on=in_line)))
        in_line = bool(text) and not text.endswith("\n")
    return _Block(title, counts[True], counts[False], tuple(rows), lies_below(segments))


def _rows(text: str, room: int, *, is_cached: bool, goes_on: bool) -> Iterator[_Row]:
    """The text's lines, none longer than a row, each with its mark."""
    if goes_on:
        text = f"…{text}"
    mark = "  " if is_cached else "+ "
    for line in text.removesuffix("\n").split("\n") if text else ():
        for part in _wrapped(line.expandtabs(4), room):
            yield _Row((mark + part).rstrip(), is_cached)


def _wrapped(line: str, room: int) -> Iterator[str]:
    """The line in parts that fit, cut between words; joined they are the line."""
    part, cells = "", 0
    for word in _WORD.findall(line):
        length = cell_len(word)
        if cells and cells + cell_len(word.rstrip()) > room:
            yield part
            part, cells = "", 0
        if length > room:
            *full, word = chop_cells(word, room)
            yield from full
            length = cell_len(word)
        part, cells = part + word, cells + length
    yield part


def _abbreviated(rows: list[_Row]) -> list[_Row]:
    left_out = len(rows) - 2 * _EDGE_ROWS
    if left_out < 2:
        return rows
    mark = rows[0].text[:1].strip() or " "
    more = _Row(f"{mark} … {left_out:,} more lines …", rows[0].is_cached)
    return [*rows[:_EDGE_ROWS], more, *rows[-_EDGE_ROWS:]]


def _worth_showing(blocks: Sequence[_Block]) -> set[int]:
    """The blocks that fit: first those where something happens, then from the end on."""
    last = len(blocks) - 1
    border = next((i for i, block in enumerate(blocks) if block.computed), last)
    wanted = dict.fromkeys([last, border, 0, max(border - 1, 0), *range(last, -1, -1)])
    shown: set[int] = set()
    for index in wanted:
        if not blocks or _num_rows(blocks, shown | {index}) > MAX_ROWS:
            break
        shown.add(index)
    return shown


def _num_rows(blocks: Sequence[_Block], shown: set[int]) -> int:
    rows = sum(1 + len(blocks[index].rows) for index in shown)
    edges = [-1, *sorted(shown), len(blocks)]
    gaps = sum(after - before > 1 for before, after in pairwise(edges))
    return rows + gaps


def _tokens(cached: int, computed: int) -> str:
    total = _counted(cached + computed, "token")
    if not computed:
        return f"{total}, cached"
    if not cached:
        return f"{total}, to compute"
    return f"{total}: {cached:,} cached, {computed:,} to compute"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
