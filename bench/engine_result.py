"""What an arm of `bench engine` came to, as numbers, as columns of a table and as JSON.

Owns the oracle beside each hit rate: what a cache without a limit finds when the same prompts come
one after the other. Knows no engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from radixchat.bench.engine_run import ArmRun, TurnRecord
from radixchat.bench.oracles import infinite
from radixchat.bench.percentiles import Percentiles
from radixchat.bench.trace_item import TraceRequest


@dataclass(frozen=True, slots=True)
class TurnRow:
    """All the first turns of conversations, all the second ones, and so on."""

    turn: int
    requests: int
    hit_rate: float
    oracle_hit_rate: float
    ttft_ms: Percentiles


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One arm.

    lasted_s: first message to last token; busy_s: without the time in which nobody asked, and the
    wall time that scheduler_share refers to. late: turns whose user would have sent them before the
    last answer was complete. cached_tokens, of prompt_tokens; oracle_tokens: what an unlimited
    cache finds. computed_tokens: all that went through the model, what is computed again after a
    preemption included. ttft, e2e, queue: from a message's arrival to its first token, its last
    token, its admission; itl: between two tokens of an answer. output_tokens_per_second: of busy_s.
    """

    name: str
    requests: int
    late: int
    lasted_s: float
    busy_s: float
    output_tokens: int
    output_tokens_per_second: float
    requests_per_second: float
    prompt_tokens: int
    cached_tokens: int
    oracle_tokens: int
    hit_rate: float
    oracle_hit_rate: float
    computed_tokens: int
    preemptions: int
    steps: int
    step_s: float
    schedule_s: float
    scheduler_share: float
    ttft_ms: Percentiles
    itl_ms: Percentiles
    queue_ms: Percentiles
    e2e_ms: Percentiles
    per_turn: tuple[TurnRow, ...]

    @classmethod
    def of(cls, name: str, run: ArmRun) -> ArmResult:
        """Summarise a run of at least one turn, in which somebody said two tokens."""
        turns, counters = run.turns, run.counters
        found = oracle(turns)
        prompt = sum(len(each.prompt) for each in turns)
        cached = sum(each.cached_tokens for each in turns)
        output = sum(len(each.output) for each in turns)
        return cls(
            name=name,
            requests=len(turns),
            late=sum(each.late for each in turns),
            lasted_s=round(run.lasted, 3),
            busy_s=round(run.busy, 3),
            output_tokens=output,
            output_tokens_per_second=round(output / run.busy, 2),
            requests_per_second=round(len(turns) / run.busy, 3),
            prompt_tokens=prompt,
            cached_tokens=cached,
            oracle_tokens=int(found.sum()),
            hit_rate=round(cached / prompt, 4),
            oracle_hit_rate=round(int(found.sum()) / prompt, 4),
            computed_tokens=counters.computed_tokens,
            preemptions=counters.preemptions,
            steps=counters.steps,
            step_s=round(counters.step_seconds, 3),
            schedule_s=round(counters.schedule_seconds, 4),
            scheduler_share=round(counters.schedule_seconds / run.busy, 5),
            ttft_ms=_milliseconds(each.ttft for each in turns),
            itl_ms=_milliseconds(gap for each in turns for gap in each.gaps),
            queue_ms=_milliseconds(each.queue for each in turns),
            e2e_ms=_milliseconds(each.lasted for each in turns),
            per_turn=tuple(_per_turn(turns, found)),
        )


def oracle(turns: Sequence[TurnRecord]) -> NDArray[np.int64]:
    """int64 [turns]: tokens of each prompt that an unlimited cache finds, in order of arrival."""
    trace = [
        TraceRequest(each.prompt, len(each.prompt), np.array(each.output, np.int32), each.arrival)
        for each in turns
    ]
    return infinite(trace).cached_units


def difference(results: Sequence[tuple[str, ArmRun]]) -> str | None:
    """The first answer that is not the same in every arm, in words; None when all are equal."""
    answers = [{(t.conversation, t.turn): t.output for t in run.turns} for _, run in results]
    for (name, _), other in zip(results, answers, strict=True):
        for (conversation, turn), output in answers[0].items():
            if other.get((conversation, turn)) != output:
                return (
                    f"turn {turn} of conversation {conversation} is answered otherwise by {name!r}"
                    f" than by {results[0][0]!r}"
                )
    return None


def lines(results: Sequence[ArmResult]) -> Iterator[str]:
    """The table: a column for each arm, then the turns of a conversation one by one."""
    width = max(20, *(len(each.name) + 2 for each in results))

    def row(title: str, cells: Iterable[str]) -> str:
        return title.ljust(34) + "".join(cell.rjust(width) for cell in cells)

    yield row("", (each.name for each in results))
    yield row("requests (late)", (f"{each.requests} ({each.late})" for each in results))
    yield row("lasted, s (busy)", (f"{e.lasted_s:.1f} ({e.busy_s:.1f})" for e in results))
    yield row("answer tokens a busy second", (f"{e.output_tokens_per_second:.1f}" for e in results))
    yield row("prompt tokens", (f"{each.prompt_tokens:,}" for each in results))
    yield row("  cached", (f"{e.cached_tokens:,} {e.hit_rate:6.1%}" for e in results))
    yield row("  oracle", (f"{e.oracle_tokens:,} {e.oracle_hit_rate:6.1%}" for e in results))
    yield row("tokens computed", (f"{each.computed_tokens:,}" for each in results))
    yield row("preemptions", (f"{each.preemptions}" for each in results))
    yield row("steps", (f"{each.steps:,}" for each in results))
    yield row("scheduler and index, of busy", (f"{e.scheduler_share:.2%}" for e in results))
    for title, times in (
        ("first token", [each.ttft_ms for each in results]),
        ("between tokens", [each.itl_ms for each in results]),
        ("in the queue", [each.queue_ms for each in results]),
        ("last token", [each.e2e_ms for each in results]),
    ):
        for index, share in enumerate((50, 90, 95, 99)):
            label = f"{title}, ms" if index == 0 else ""
            cells = (f"{each.quantiles[index]:,.0f}" for each in times)
            yield row(f"{label:<28}p{share}", cells)
    yield ""
    for number, turns in enumerate(results[0].per_turn):
        each = [result.per_turn[number] for result in results]
        title = f"turn {turns.turn}, {turns.requests} requests: cached, first token"
        yield title
        yield row(
            f"  oracle {turns.oracle_hit_rate:.1%}",
            (f"{one.hit_rate:.1%} {one.ttft_ms.p50:,.0f} ms" for one in each),
        )


def request_lines(name: str, run: ArmRun) -> Iterator[str]:
    """One JSON object for each turn, in order of arrival."""
    for each in run.turns:
        yield json.dumps(
            {
                "arm": name,
                "conversation_id": each.conversation,
                "turn_index": each.turn,
                "start_ns": round(each.arrival * 1e9),
                "ttft_ms": round(each.ttft * 1000, 3),
                "itl_ms": [round(gap * 1000, 3) for gap in each.gaps],
                "queue_ms": round(each.queue * 1000, 3),
                "e2e_ms": round(each.lasted * 1000, 3),
                "prompt_tokens": len(each.prompt),
                "cached_tokens": each.cached_tokens,
                "output_tokens": len(each.output),
            }
        )


def as_json(facts: dict[str, object], results: Sequence[ArmResult]) -> str:
    """One line with every number. facts: what the arms have in common."""
    return json.dumps(facts | {"arms": [asdict(each) for each in results]})


def _per_turn(turns: Sequence[TurnRecord], found: NDArray[np.int64]) -> Iterator[TurnRow]:
    for number in sorted({each.turn for each in turns}):
        chosen = [(t, int(n)) for t, n in zip(turns, found, strict=True) if t.turn == number]
        prompt = sum(len(turn.prompt) for turn, _ in chosen)
        yield TurnRow(
            number,
            len(chosen),
            round(sum(turn.cached_tokens for turn, _ in chosen) / prompt, 4),
            round(sum(tokens for _, tokens in chosen) / prompt, 4),
            _milliseconds(turn.ttft for turn, _ in chosen),
        )


def _milliseconds(seconds: Iterable[float]) -> Percentiles:
    return Percentiles.of([1000 * each for each in seconds])
