"""What an arm of `bench serve` came to, as numbers and as JSON. Asks nobody, measures nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from radixchat.bench.percentiles import Percentiles
from radixchat.bench.serve_count import Scored
from radixchat.bench.serve_record import ArmRun, CellRun, Record


@dataclass(frozen=True, slots=True)
class Goodput:
    """What is good enough, in milliseconds: the first token's wait, the mean gap between tokens.

    None: any.
    """

    ttft_ms: float | None
    gap_ms: float | None

    def admits(self, ttft_ms: float, gap_ms: float) -> bool:
        """Whether an answer was."""
        bounds = ((self.ttft_ms, ttft_ms), (self.gap_ms, gap_ms))
        return all(most is None or value <= most for most, value in bounds)


@dataclass(frozen=True, slots=True)
class HitRate:
    """Of prompt_tokens so many were cached, and an unlimited cache finds so many of them."""

    prompt_tokens: int
    cached_tokens: int
    oracle_tokens: int
    hit_rate: float
    oracle_hit_rate: float

    @classmethod
    def of(cls, turns: Iterable[Scored]) -> HitRate | None:
        """Of those turns of which all is known; None where there is none."""
        known = [shares for each in turns if (shares := each.shares) is not None]
        if not known:
            return None
        prompt, cached, found = (sum(column) for column in zip(*known, strict=True))
        return cls(prompt, cached, found, round(cached / prompt, 4), round(found / prompt, 4))

    @property
    def of_oracle(self) -> float:
        """1.0: all that an unlimited cache finds."""
        return self.cached_tokens / self.oracle_tokens if self.oracle_tokens else 1.0


@dataclass(frozen=True, slots=True)
class RoundRow:
    """One round of all conversations."""

    name: str
    requests: int
    hits: HitRate | None
    ttft_ms: Percentiles | None


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One arm of one cell; None is what the server does not tell, or what there is none of.

    failed: requests without an answer, `failure` is the first one's reason. busy_s: seconds in
    which it was being asked; the rates are of those. ttft_ms: until the first text; later_ttft_ms:
    of turns 2 and later; gap_ms: between two tokens; e2e_ms: until the last. output_tokens: None
    where neither the server nor a tokenizer counts them. goodput: the share of the requests that
    were good enough.
    """

    name: str
    transport: str
    requests: int
    failed: int
    failure: str | None
    busy_s: float
    requests_per_second: float
    output_tokens: int | None
    output_tokens_per_second: float | None
    hits: HitRate | None
    ttft_ms: Percentiles | None
    later_ttft_ms: Percentiles | None
    gap_ms: Percentiles | None
    e2e_ms: Percentiles | None
    goodput: float | None
    per_turn: tuple[RoundRow, ...]

    @classmethod
    def of(cls, run: ArmRun, scored: Mapping[Record, Scored], good: Goodput | None) -> ArmResult:
        """Summarise a run of at least one request."""
        turns = [scored[record] for record in run.records]
        answered = [each for each in turns if each.record.answer is not None]
        outputs = [each.counted.output for each in answered]
        known = [count for count in outputs if count is not None]
        output = sum(known) if len(known) == len(outputs) else None
        errors = [str(each.record.error) for each in turns if each.record.error is not None]
        return cls(
            name=run.arm.name,
            transport=run.arm.transport,
            requests=len(turns),
            failed=len(errors),
            failure=errors[0] if errors else None,
            busy_s=round(run.busy, 3),
            requests_per_second=round(len(answered) / run.busy, 3),
            output_tokens=output,
            output_tokens_per_second=round(output / run.busy, 2) if output is not None else None,
            hits=HitRate.of(turns),
            ttft_ms=_milliseconds(_ttft(each) for each in answered),
            later_ttft_ms=_milliseconds(
                _ttft(each) for each in answered if each.record.turn.step.turn > 1
            ),
            gap_ms=_milliseconds(gap for each in answered for gap in _gaps(each)),
            e2e_ms=_milliseconds(_lasted(each) for each in answered),
            goodput=_goodput(answered, len(turns), good) if good is not None else None,
            per_turn=tuple(_per_turn(turns)),
        )


@dataclass(frozen=True, slots=True)
class CellResult:
    """All arms with so many requests at a time."""

    concurrency: int
    arms: tuple[ArmResult, ...]

    @classmethod
    def of(cls, cell: CellRun, scored: Mapping[Record, Scored], good: Goodput | None) -> CellResult:
        """Summarise a cell."""
        arms = tuple(ArmResult.of(run, scored, good) for run in cell.arms)
        return cls(cell.concurrency, arms)


def request_lines(cell: CellRun, scored: Mapping[Record, Scored]) -> Iterator[str]:
    """One JSON object for each turn, arm after arm, in order of sending."""
    for run in cell.arms:
        for each in (scored[record] for record in run.records):
            answered = each.record.answer is not None
            yield json.dumps(
                {
                    "concurrency": cell.concurrency,
                    "arm": run.arm.name,
                    "conversation_id": each.record.turn.conversation,
                    "turn_index": each.record.turn.step.turn,
                    "branch_id": each.record.turn.step.name,
                    "start_ns": round(each.record.sent * 1e9),
                    "ttft_ms": round(1000 * _ttft(each), 3) if answered else None,
                    "itl_ms": [round(1000 * gap, 3) for gap in _gaps(each)] if answered else [],
                    "e2e_ms": round(1000 * _lasted(each), 3) if answered else None,
                    "prompt_tokens": each.counted.prompt,
                    "cached_tokens": each.counted.cached,
                    "oracle_tokens": each.oracle,
                    "output_tokens": each.counted.output,
                    "was_cancelled": False,
                    "error": str(each.record.error) if each.record.error is not None else None,
                }
            )


def as_document(cells: Sequence[CellResult]) -> list[dict[str, object]]:
    """For the JSON line."""
    return [asdict(cell) for cell in cells]


def _per_turn(turns: Sequence[Scored]) -> Iterator[RoundRow]:
    for name in dict.fromkeys(each.record.turn.step.name for each in turns):
        chosen = [each for each in turns if each.record.turn.step.name == name]
        answered = [each for each in chosen if each.record.answer is not None]
        times = _milliseconds(_ttft(each) for each in answered)
        yield RoundRow(name, len(chosen), HitRate.of(chosen), times)


def _goodput(answered: Sequence[Scored], requests: int, good: Goodput) -> float:
    """Of all requests, failed ones included."""
    count = 0
    for each in answered:
        gaps = _gaps(each)
        mean = 1000 * sum(gaps) / len(gaps) if gaps else 0.0
        count += good.admits(1000 * _ttft(each), mean)
    return round(count / requests, 4)


def _ttft(each: Scored) -> float:
    assert each.record.answer is not None
    return each.record.answer.ttft


def _lasted(each: Scored) -> float:
    assert each.record.answer is not None
    return each.record.answer.ended - each.record.answer.sent


def _gaps(each: Scored) -> list[float]:
    """Per token where they are counted; none where they are not."""
    assert each.record.answer is not None
    output = each.counted.output
    return each.record.answer.gaps(output) if output is not None else []


def _milliseconds(seconds: Iterable[float]) -> Percentiles | None:
    values = [1000 * each for each in seconds]
    return Percentiles.of(values) if values else None
