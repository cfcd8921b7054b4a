"""Where the tokens of a prompt come from, message by message: `cache_report`. A pure function.

Knows how a prompt is laid out and how much of it was found; no cache and no response.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import replace

from radixchat.server.conversation import Conversation
from radixchat.server.prompt import PromptBuilder
from radixchat.server.protocol import CacheReport, CacheSegment
from radixchat.server.token_texts import TokenTexts

COMPUTED = "computed"

Found = Sequence[tuple[str, int]]
"""Places, of SOURCES, and how many tokens come from each, in the order of the prompt."""


def cache_report(
    prompts: PromptBuilder,
    asked: Conversation,
    prompt_ids: Sequence[int],
    found: Found,
    response: str | None = None,
    texts: TokenTexts | None = None,
) -> CacheReport:
    """Of a prompt that answers the end of `asked`, whose first tokens were `found`; or of that path
    itself, if it ends with an answer.

    A segment lies in one message's share and has one state. Slow for long texts: a part that was
    rendered as a whole is rendered again to find the borders; where that does not tell, the
    message is None. texts: to have each segment's text, too.
    """
    total, cached = len(prompt_ids), sum(tokens for _, tokens in found)
    places = list(_places(found, total))
    borders: list[tuple[int, str | None]] = [(0, None)]
    if asked.messages:
        layout = prompts.layout(asked, prompt_ids)
        starts = [layout.start(position) for position in range(len(asked.shown))]
        pairs = zip(starts, asked.shown, strict=True)
        known = [(start, message.id) for start, message in pairs if start is not None]
        if len(known) == len(starts):
            borders = list(known)
    segments: list[CacheSegment] = []
    ends = [start for start, _ in borders[1:]] + [total]
    for (start, message), end in zip(borders, ends, strict=True):
        for state, begin, stop in places:
            first, last = max(begin, start), min(stop, end)
            if first < last:
                segments.append(CacheSegment(first, last, state, message))
    if texts is not None:
        segments = _with_texts(segments, prompt_ids, texts)
    return CacheReport(response, total, cached, tuple(segments))


def _places(found: Found, total: int) -> Iterator[tuple[str, int, int]]:
    """Each place, from where to where; what was not found is computed."""
    start = 0
    for state, tokens in found:
        yield state, start, start + tokens
        start += tokens
    yield COMPUTED, start, total


def _with_texts(
    segments: Sequence[CacheSegment], prompt_ids: Sequence[int], texts: TokenTexts
) -> list[CacheSegment]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    found: list[CacheSegment] = []
    for segment in segments:
        shown = b"".join(map(texts.shown, prompt_ids[segment.start : segment.end]))
        text = decoder.decode(shown, final=segment is segments[-1])
        found.append(replace(segment, text=text))
    return found
