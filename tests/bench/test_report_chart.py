"""The line chart of a report."""

from __future__ import annotations

import re

import pytest

from radixchat.bench.report_chart import MARKERS, Axis, Series, legend, line_chart, marker

AXIS = Axis("size", (1.0, 2.0, 4.0), ("1k", "10k", "1M"))


def points(chart: str) -> list[list[tuple[float, float]]]:
    """The points of every line of a chart."""
    return [
        [(float(x), float(y)) for x, y in re.findall(r"([\d.]+),([\d.]+)", line)]
        for line in re.findall(r'<polyline[^>]*points="([^"]*)"', chart)
    ]


def test_lines_go_where_their_values_are() -> None:
    """Positions to the right, higher rates higher up, the same rate at the same height."""
    rising = Series("lru", "c0", (0.1, 0.2, 0.4), 0)
    flat = Series("infinite", "infinite", (0.4, 0.4, 0.4), None)
    first, second = points(line_chart("title", AXIS, [rising, flat]))
    xs, ys = zip(*first, strict=True)
    assert xs[1] - xs[0] == pytest.approx((xs[2] - xs[1]) / 2, abs=0.2)
    assert ys[0] - ys[1] == pytest.approx((ys[1] - ys[2]) / 2, abs=0.2)
    assert first[2] == second[2]


def test_a_gap_is_left_where_there_is_no_value() -> None:
    """No point is made up."""
    (line,) = points(line_chart("title", AXIS, [Series("vllm", "c1", (0.1, None, 0.4), 1)]))
    assert len(line) == 2


def test_every_value_can_be_read() -> None:
    """Under the pointer, with the line's name and its place."""
    chart = line_chart("title", AXIS, [Series("lru", "c0", (0.1, 0.2, 0.4), 0)])
    assert re.findall("<title>([^<]*)</title>", chart) == [
        "lru, 1k: 10.0 %",
        "lru, 10k: 20.0 %",
        "lru, 1M: 40.0 %",
    ]


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (0.0, ["0 %", "1 %"]),
        (0.054, ["0 %", "1 %", "2 %", "3 %", "4 %", "5 %", "6 %"]),
        (0.37, ["0 %", "10 %", "20 %", "30 %", "40 %"]),
        (0.97, ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]),
        (1.0, ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]),
    ],
)
def test_the_scale_fits_the_values(highest: float, ticks: list[str]) -> None:
    """It begins at nothing and ends at a round number that is no less than every value."""
    axis = Axis("size", (1.0,), ("here",))
    chart = line_chart("title", axis, [Series("lru", "c0", (highest,), 0)])
    assert re.findall(r">([\d.]+ %)</text>", chart) == ticks


def test_names_that_have_no_room_are_left_out() -> None:
    """Positions close to each other keep their marks, and some of their names."""
    axis = Axis("size", (1.0, 1.01, 2.0), ("left", "too close", "right"))
    chart = line_chart("title", axis, [Series("lru", "c0", (0.1, 0.2, 0.3), 0)])
    assert ">left</text>" in chart
    assert ">too close</text>" not in chart
    assert ">right</text>" in chart


def test_names_are_text() -> None:
    """Whatever a name contains, it is no markup."""
    series = Series("<script>", "c0", (0.1,), 0)
    axis = Axis("<b>", (1.0,), ("<i>",))
    for html in (line_chart('"><u>', axis, [series]), legend([series])):
        assert not {"<script>", "<b>", "<i>", "<u>"} & set(re.findall("<[^>]*>", html))


def test_eight_lines_have_eight_markers() -> None:
    """Each is told from the others without its colour; the ninth has the first's again."""
    shapes = [marker(0, 0, number, "c0") for number in range(MARKERS + 1)]
    assert len(set(shapes)) == MARKERS == 8
    assert shapes[-1] == shapes[0]


def test_the_legend_names_every_line() -> None:
    """With a piece of the line, so that it is found again."""
    lines = [Series("lru", "c0", (0.1,), 0), Series("optimum", "optimum", (0.1,), None)]
    html = legend(lines)
    assert html.count("<li>") == html.count("<polyline") == 2
    assert "lru</li>" in html
    assert html.count("<path") == 1
