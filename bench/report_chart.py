"""A line chart as inline SVG: named series over a few positions of an axis.

Knows no benchmark. Its colours are classes that the page's style defines, so that it is right in
the light and in the dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 480, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 16, 12, 44
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25)
_MOST_LINES = 6
# What a name under the axis takes, a character and the gap; where there is less, it is left out.
_CHARACTER, _GAP = 7, 8
MARKERS = 8


@dataclass(frozen=True, slots=True)
class Series:
    """One line. style: the CSS class of its colour and dashes. values: one a position, in 0..1.

    None leaves a gap. marker: which of MARKERS shapes is put on each value; None for none.
    """

    name: str
    style: str
    values: tuple[float | None, ...]
    marker: int | None


@dataclass(frozen=True, slots=True)
class Axis:
    """The horizontal axis. positions: ascending, in any unit; names: what stands under each."""

    title: str
    positions: tuple[float, ...]
    names: tuple[str, ...]


def line_chart(title: str, axis: Axis, series: Sequence[Series]) -> str:
    """The chart as an <svg>; the values are fractions and shown as per cent."""
    highest = max((v for line in series for v in line.values if v is not None), default=0.0)
    step, top = _scale(highest)
    xs = _spread(axis.positions)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">',
        *_grid(step, top),
        *_names(axis, xs),
    ]
    for line in series:
        points = [
            (x, _height(value, top), value, name)
            for x, value, name in zip(xs, line.values, axis.names, strict=True)
            if value is not None
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in points)
        parts.append(f'<polyline class="line {line.style}" points="{path}"/>')
        for x, y, value, name in points:
            tip = escape(f"{line.name}, {name}: {100 * value:.1f} %")
            shape = "" if line.marker is None else marker(x, y, line.marker, line.style)
            parts.append(
                f'<g><title>{tip}</title>{shape}<circle class="touch" cx="{x:.1f}"'
                f' cy="{y:.1f}" r="9"/></g>'
            )
    return "\n".join([*parts, "</svg>"])


def marker(x: float, y: float, shape: int, style: str) -> str:
    """One of MARKERS small shapes, so that lines differ without their colour too."""
    outlines = (
        "M-3.5,0a3.5,3.5 0 1,0 7,0a3.5,3.5 0 1,0 -7,0z",
        "M-3.2,-3.2h6.4v6.4h-6.4z",
        "M0,-4.2L4.2,3.2H-4.2z",
        "M0,-4.6L4.6,0L0,4.6L-4.6,0z",
        "M0,4.2L4.2,-3.2H-4.2z",
        "M-1.4,-4.2h2.8v2.8h2.8v2.8h-2.8v2.8h-2.8v-2.8h-2.8v-2.8h2.8z",
        "M-4.4,-3L0,-1L4.4,-3V3L0,1L-4.4,3z",
        "M-1.6,-4.6h3.2v9.2h-3.2z",
    )
    assert len(outlines) == MARKERS
    path = outlines[shape % MARKERS]
    return f'<path class="mark {style}" transform="translate({x:.1f},{y:.1f})" d="{path}"/>'


def legend(series: Sequence[Series]) -> str:
    """The names of the lines beside a piece of each, as HTML that wraps on a narrow page."""
    items = []
    for line in series:
        shape = "" if line.marker is None else marker(14, 6, line.marker, line.style)
        items.append(
            f'<li><svg viewBox="0 0 28 12" aria-hidden="true">'
            f'<polyline class="line {line.style}" points="1,6 27,6"/>{shape}</svg>'
            f"{escape(line.name)}</li>"
        )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _scale(highest: float) -> tuple[float, float]:
    """The distance of grid lines and the end of the axis, for values up to `highest`."""
    step = next((s for s in _STEPS if highest <= s * _MOST_LINES), _STEPS[-1])
    lines = 1
    while lines * step < min(highest, 1.0) - 1e-9:
        lines += 1
    return step, lines * step


def _height(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - value / top * (_HEIGHT - _TOP - _BOTTOM)


def _spread(positions: Sequence[float]) -> list[float]:
    first, last = positions[0], positions[-1]
    if first == last:
        return [(_LEFT + _WIDTH - _RIGHT) / 2] * len(positions)
    # Half a name's width inside the frame, so that the first and the last one fit.
    left, right = _LEFT + 14, _WIDTH - _RIGHT - 14
    return [left + (p - first) / (last - first) * (right - left) for p in positions]


def _grid(step: float, top: float) -> list[str]:
    parts = []
    for line in range(round(top / step) + 1):
        y = _height(line * step, top)
        parts.append(f'<path class="grid" d="M{_LEFT},{y:.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{100 * line * step:.0f} %</text>"
        )
    return parts


def _names(axis: Axis, xs: Sequence[float]) -> list[str]:
    parts = []
    free_from = float("-inf")
    for x, name in zip(xs, axis.names, strict=True):
        y = _HEIGHT - _BOTTOM
        parts.append(f'<path class="grid" d="M{x:.1f},{y}v5"/>')
        half = len(name) * _CHARACTER / 2
        middle = min(x, _WIDTH - half)
        if middle - half >= free_from:
            parts.append(_text(middle, y + 18, name))
            free_from = middle + half + _GAP
    return [*parts, _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, axis.title)]


def _text(x: float, y: float, text: str) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(text)}</text>'
