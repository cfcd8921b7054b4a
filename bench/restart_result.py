"""What the arms of `bench restart` came to: numbers, a table, the goal. Measures nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from radixchat.bench.cpu_goals import Verdict

# L5: of the cold time to the first token.
WARM = (0.2, 0.08)
# A shorter conversation is computed too quickly to tell.
JUDGED_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class RestartTurn:
    """The only turn of a process. disk: tokens that came from there. read: bytes that the process
    had from a device, the model's file included where the system did not have it. process_s: from
    start to end. not_restored: why no more came back, if it was said."""

    prompt: int
    cached: int
    disk: int
    ttft_ms: float
    text: str
    process_s: float
    read: int
    not_restored: str | None


@dataclass(frozen=True, slots=True)
class RestartArm:
    """One turn after each restart."""

    turns: tuple[RestartTurn, ...]

    @property
    def ttft_ms(self) -> float:
        """The median."""
        return median(turn.ttft_ms for turn in self.turns)


@dataclass(frozen=True, slots=True)
class RestartResult:
    """Both arms, turn by turn of one conversation; asked: whether the system was asked to forget
    the pages before each start."""

    disk: RestartArm
    cold: RestartArm
    asked: bool

    @property
    def ratio(self) -> float:
        """Warm to cold: the median over the restarts."""
        pairs = zip(self.disk.turns, self.cold.turns, strict=True)
        return median(warm.ttft_ms / cold.ttft_ms for warm, cold in pairs)

    @property
    def same(self) -> bool:
        """Whether both arms said the same after every restart."""
        said = ([turn.text for turn in arm.turns] for arm in (self.disk, self.cold))
        return next(said) == next(said)

    @property
    def from_disk(self) -> float:
        """Of the prompts' tokens, the least share that came from the disk."""
        return min(turn.disk / turn.prompt for turn in self.disk.turns)

    def verdicts(self) -> list[Verdict]:
        """L5; none where the conversation is short."""
        if min(turn.prompt for turn in self.cold.turns) < JUDGED_TOKENS:
            return []
        return [
            Verdict("L5", "first token, restart-warm to cold", self.ratio, *WARM, False, "x"),
            Verdict("L5", "of the prompt, from the disk", self.from_disk, 0.9, 0.98, True, "%"),
        ]


def lines(result: RestartResult) -> Iterator[str]:
    """A line for each restart."""
    yield "restart   prompt   from disk   read, MB   first token, ms: warm     cold    ratio"
    pairs = zip(result.disk.turns, result.cold.turns, strict=True)
    for number, (warm, cold) in enumerate(pairs, 1):
        yield (
            f"{number:<8}{warm.prompt:>8}{warm.disk:>12}{warm.read / 1e6:>11.1f}"
            f"{warm.ttft_ms:>24,.0f}{cold.ttft_ms:>9,.0f}{warm.ttft_ms / cold.ttft_ms:>9.3f}"
        )
    reasons = {turn.not_restored for turn in result.disk.turns if turn.not_restored}
    if reasons:
        yield f"not restored: {', '.join(sorted(reasons))}"
    yield "the same answers" if result.same else "OTHER ANSWERS"
    if not result.asked:
        yield "this system cannot be asked to forget pages: they come from its memory"


def as_document(result: RestartResult) -> dict[str, object]:
    """The keys that follow the facts in the JSON line."""
    return {
        "asked_to_forget": result.asked,
        "same": result.same,
        "arms": {
            name: {
                "ttft_ms": round(arm.ttft_ms, 1),
                "turns": [
                    {
                        "prompt": turn.prompt,
                        "cached": turn.cached,
                        "disk": turn.disk,
                        "ttft_ms": round(turn.ttft_ms, 1),
                        "process_s": round(turn.process_s, 2),
                        "read_bytes": turn.read,
                        "not_restored": turn.not_restored,
                    }
                    for turn in arm.turns
                ],
            }
            for name, arm in (("disk", result.disk), ("cold", result.cold))
        },
        "ratio": round(result.ratio, 4),
        "from_disk": round(result.from_disk, 4),
        "goals": [each.as_dict() for each in result.verdicts()],
    }
