"""Why the cache had not more of the last prompt, in words: what /why shows.

Knows the record of a turn and the messages of its path; no terminal and no cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from radixchat.chat_cli.cache_picture import message_titles
from radixchat.chat_cli.miss_note import age
from radixchat.chat_cli.places_below import from_below
from radixchat.server.protocol import MessageView, MissReport, ResponseDone

_WHY: Mapping[str, str] = MappingProxyType(
    {
        "cold": "nothing was missed: no earlier answer has computed the beginning of this prompt",
        "not_restored": "the tokens are still there, but not where they are quick to be had",
        "partial_page": "only whole pages are kept in host memory and on disk: these are a rest",
        "evicted": "the tokens were in the cache and had to make room for others",
        "changed": "a message before the last one has another text than before",
        "template": "the messages are the same, but the model's template has written them anew",
        "truncated": "other turns are left out than before, so what follows them has moved",
        "expired": "the tokens were in the cache of an earlier process, which is gone",
        "model": "another model, tokenizer or template made the earlier answer",
        "namespace": "the earlier answer was another user's, whose cache is nobody else's",
        "unknown": "the tokens should have been in the cache; why they were not is not known",
    }
)


def miss_explanation(done: ResponseDone, messages: Sequence[MessageView]) -> Mapping[str, str]:
    """Lines by name, in their order. messages: the path, by which places are named."""
    usage, miss = done.usage, done.miss
    new = usage.input_tokens - usage.cached_tokens
    counts = f"{usage.cached_tokens:,} of {usage.input_tokens:,} cached"
    if miss is None:
        if usage.cached_tokens:
            why = f"nothing was missed: {counts}, the other {new:,} are new"
            return {"why": why} | _below(done)
        return {"why": _unexplained(done), "tokens": counts}
    lines = {"why": _WHY.get(miss.reason, f"the server says: {miss.reason}")}
    if miss.reason == "cold":
        return lines | {"tokens": f"{counts}, the other {new:,} are new"}
    if usage.not_restored is not None:
        lines["because"] = usage.not_restored
    if miss.evicted_seconds_ago is not None:
        lines["when"] = age(miss.evicted_seconds_ago)
    title = message_titles(messages).get(miss.message or "")
    where = f"token {miss.index:,} of {usage.input_tokens:,}, counted from 0"
    lines["from"] = f"{title}, {where}" if title else where
    if miss.expected_text is not None:
        lines["before"] = miss.expected_text
    if miss.got_text is not None:
        lines["now"] = miss.got_text
    return lines | {"tokens": f"{counts}; {_again(miss)}"} | _below(done)


def _below(done: ResponseDone) -> dict[str, str]:
    """Where the cached tokens came from, unless all were in the pool."""
    said = from_below(done.usage)
    return {"cached": said} if said else {}


def _again(miss: MissReport) -> str:
    again = f"{miss.cache_missed_tokens:,} were computed again"
    if miss.comparison_reusable_tokens is None:
        return again
    return f"{again}; the first {miss.comparison_reusable_tokens:,} are as in the earlier prompt"


def _unexplained(done: ResponseDone) -> str:
    """Nothing was cached, and nothing is said of that."""
    if done.usage.output_tokens == 0:
        return "the answer ended before its first token; nobody has looked what was missed"
    return "nothing was looked for: the cache is off, or the earlier answer is another model's"
