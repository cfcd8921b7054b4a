"""What showing answers came to, for people, and the goals that it is held to.

Knows no terminal: it is given what was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from radixchat.bench.percentiles import Percentiles
from radixchat.bench.render_arm import Shown

MOST_SHARE = 0.05
MOST_FIRST_MS = 20.0


@dataclass(frozen=True, slots=True)
class Rendering:
    """An answer of one kind, as Markdown and printed plainly.

    rate: tokens a second; None: without a pause. short_us, long_us: CPU time above plain printing
    per token, of an answer of a tenth of the tokens, and of this one.
    """

    kind: str
    num_tokens: int
    rate: float | None
    markdown: Shown
    plain: Shown
    short_us: float
    long_us: float

    @property
    def above_s(self) -> float:
        """CPU seconds above plain printing."""
        return self.markdown.cpu_s - self.plain.cpu_s

    @property
    def share(self) -> float | None:
        """Of one core, over the time of the answer; None: there were no pauses."""
        return None if self.rate is None else self.above_s * self.rate / self.num_tokens

    def as_document(self) -> dict[str, object]:
        """For JSON."""
        return {"above_s": round(self.above_s, 4), "share": self.share}


def lines(renderings: Sequence[Rendering], first_ms: Percentiles) -> Iterator[str]:
    """The table, and the first token."""
    yield (
        "                        CPU s              above plain   shown after, ms           KiB"
        "              µs a token above plain"
    )
    yield (
        "  answer     tokens/s   plain  Markdown    of a core     p50     p99     max"
        "     plain  Markdown   short    long   ratio"
    )
    for each in renderings:
        rate = "no pause" if each.rate is None else f"{each.rate:,.0f}"
        share = "-" if each.share is None else f"{each.share:.2%}"
        lag = each.markdown.lag_ms
        ratio = f"{each.long_us / each.short_us:.2f}" if each.short_us > 0 else "-"
        yield (
            f"  {each.kind:<10} {rate:>8} {each.plain.cpu_s:>7.3f} {each.markdown.cpu_s:>9.3f}"
            f" {share:>12} {lag.p50:>7.1f} {lag.p99:>7.1f} {lag.max:>7.1f}"
            f" {each.plain.num_bytes / 1024:>9,.0f} {each.markdown.num_bytes / 1024:>9,.0f}"
            f" {each.short_us:>7.0f} {each.long_us:>7.0f} {ratio:>7}"
        )
    yield (
        f"first token, from its event to the terminal: p50 {first_ms.p50:.2f} ms,"
        f" max {first_ms.max:.2f} ms of {first_ms.n}"
    )


def missed(renderings: Sequence[Rendering], first_ms: Percentiles) -> list[str]:
    """The goals that were not reached, each with its figure."""
    found = [
        f"{each.kind} at {each.rate:,.0f} tokens/s: {each.share:.1%} of a core"
        for each in renderings
        if each.share is not None and each.rate is not None and each.share >= MOST_SHARE
    ]
    if first_ms.max >= MOST_FIRST_MS:
        found.append(f"the first token took up to {first_ms.max:.1f} ms")
    return found
