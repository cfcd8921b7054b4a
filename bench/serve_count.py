"""The turns of a run of `bench serve` in tokens, with what an oracle says of each.

Owns who is believed: the server's usage where it says something, else the tokenizer. Asks the
server, so it is for the time after a run. Knows no table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from radixchat.bench.serve_oracle import Counted, oracle
from radixchat.bench.serve_record import ArmRun, Record
from radixchat.bench.serve_site import Site
from radixchat.bench.serve_tokens import TokenSource


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """A turn. oracle: tokens that an unlimited cache finds; None is unknown."""

    counted: Counted
    oracle: int | None

    @property
    def record(self) -> Record:
        """As it was sent."""
        return self.counted.record

    @property
    def shares(self) -> tuple[int, int, int] | None:
        """Tokens of the prompt, cached ones, the oracle's; None unless all are known."""
        prompt, cached, found = self.counted.prompt, self.counted.cached, self.oracle
        if prompt is None or cached is None or found is None:
            return None
        return prompt, cached, found


async def score(runs: Sequence[ArmRun]) -> dict[Record, Scored]:
    """Of everything that was sent, warm-ups included; each server's for itself, in order."""
    scored: dict[Record, Scored] = {}
    for site in dict.fromkeys(run.arm.site for run in runs):
        records = [record for run in runs if run.arm.site is site for record in run.records]
        records.sort(key=lambda each: each.sent)
        counted = [await _count(site.tokens, record) for record in records]
        for each, found in zip(counted, oracle(counted), strict=True):
            scored[each.record] = Scored(each, found)
    return scored


def beaten(site: Site, turns: Iterable[Scored]) -> str | None:
    """The first turn of which more was cached than can have been, in words; None: there is none.

    A server that others have asked before may know the beginning of any prompt.
    """
    for each in turns:
        cached, known = each.counted.cached, max(each.oracle or 0, site.front)
        if each.oracle is not None and cached is not None and cached > known:
            turn = each.record.turn
            return (
                f"round {turn.step.name} of conversation {turn.conversation}: {site.url} says that"
                f" {cached} tokens were cached, and no more than {known} can have been"
            )
    return None


async def _count(tokens: TokenSource, record: Record) -> Counted:
    answer, messages = record.answer, record.turn.messages
    if answer is None:
        return Counted(record, None, None, None, None)
    usage = answer.usage
    ids = await tokens.prompt(messages)
    prompt = usage.prompt
    if prompt is None and ids is not None:
        prompt = len(ids)
    output = usage.output if usage.output is not None else await tokens.count(answer.text)
    return Counted(record, prompt, usage.cached, output, tuple(ids) if ids else None)
