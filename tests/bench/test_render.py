"""`radixchat bench render`: answers from a seed, shown both ways on a pseudo-terminal."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from radixchat.bench.percentiles import Percentiles
from radixchat.bench.render import main
from radixchat.bench.render_arm import Shown, first_token_ms, markdown, plain, show
from radixchat.bench.render_result import Rendering, lines, missed
from radixchat.bench.render_screen import PtyScreen, SkippingClock
from radixchat.bench.render_text import KINDS, pieces
from radixchat.tests.chat_cli.terminal_screen import TerminalScreen

LAG = Percentiles.of([30.0])
RENDERING = Rendering(
    "code", 1000, 200.0, Shown(0.2, 50_000, 100, LAG), Shown(0.1, 4_000, 1000, LAG), 90.0, 100.0
)


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_from_a_seed(kind: str) -> None:
    """As many pieces as asked, the same for the same seed; a longer one begins the same."""
    text = pieces(kind, 2000, 1)
    assert len(text) == 2000
    assert all(text)
    assert text == pieces(kind, 2000, 1) == pieces(kind, 3000, 1)[:2000]
    assert text != pieces(kind, 2000, 2)
    assert 2 < len("".join(text)) / len(text) < 6


def test_a_mixed_answer_has_everything() -> None:
    """Prose, lists, tables with emoji and CJK, and code."""
    text = "".join(pieces("mixed", 10_000, 0))
    for sign in ("## ", "**", "\n- ", "\n1. ", "|---|", "😀", "漢字", "```python\n", "    "):
        assert sign in text, sign


@pytest.mark.parametrize("rate", [None, 1000.0])
def test_both_ways_are_shown(rate: float | None) -> None:
    """Every token is seen; Markdown is drawn in fewer writes than there are tokens."""
    text = pieces("mixed", 300, 0)
    as_markdown, printed = show(text, rate, markdown), show(text, rate, plain)
    assert as_markdown.lag_ms.n == printed.lag_ms.n == len(text)
    assert printed.num_writes == len(text) + 1
    assert 1 < as_markdown.num_writes < len(text)
    assert printed.num_bytes >= len("".join(text))


def test_the_screen_gives_what_a_terminal_gets() -> None:
    """What is written comes out, also more than the kernel keeps."""
    with PtyScreen(80, 24) as screen:
        assert screen.isatty()
        screen.write("x\n" * 10_000)
        assert screen.num_bytes == 30_000
        screen.write("漢")
        assert screen.shown == "漢".encode()
        terminal = TerminalScreen(80, 24)
        terminal.feed(screen.shown.decode())
        assert terminal.lines == ["漢"]


def test_the_clock_skips() -> None:
    """Waiting takes no time, and what is past is not waited for."""
    clock = SkippingClock()
    begun = clock.now()
    clock.wait_until(begun + 3600)
    assert clock.now() - begun >= 3600
    clock.wait_until(begun)
    assert clock.now() - begun >= 3600


def test_first_token() -> None:
    """The way from the event to the terminal is measured through a whole turn."""
    times = first_token_ms(2)
    assert len(times) == 2
    assert min(times) > 0


def test_goals() -> None:
    """A share of a core and a time, each told with its figure where it is too much."""
    assert RENDERING.share == pytest.approx(0.02)
    assert missed([RENDERING], LAG) == ["the first token took up to 30.0 ms"]
    slow = replace(RENDERING, markdown=replace(RENDERING.markdown, cpu_s=0.4))
    fast = replace(slow, rate=None)
    assert missed([slow, fast], Percentiles.of([1.0])) == ["code at 200 tokens/s: 6.0% of a core"]
    table = "\n".join(lines([slow, fast], LAG))
    assert "6.00%" in table
    assert "no pause" in table


def test_the_command() -> None:
    """A table, the first token's time, and one line of JSON."""
    arguments = ["--tokens", "60", "--repeats", "1", "--only", "mixed,code", "--json"]
    output = CliRunner().invoke(main, arguments).output  # a busy machine may miss the goals
    assert "mixed" in output
    (document,) = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
    assert document["bench"] == "render"
    assert [answer["kind"] for answer in document["answers"]] == ["mixed"] * 2 + ["code"] * 2
    assert [answer["rate"] for answer in document["answers"]] == [200.0, None] * 2
    assert document["first_token_ms"]["n"] > 0
