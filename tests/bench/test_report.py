"""The HTML page of a replay."""

from __future__ import annotations

import os
import re
import stat
from html.parser import HTMLParser
from pathlib import Path

import pytest

from radixchat.bench.report import report_page, write_report
from radixchat.tests.bench.replay_results import ours, replay, simulated, two_sizes

VOID = {"meta", "br"}
SELF_CLOSED = {"path", "polyline", "circle"}


class Outline(HTMLParser):
    """The elements of a page, which must be nested well; their text and attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text: dict[str, list[str]] = {}
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in SELF_CLOSED, "left open"
        self.seen.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in SELF_CLOSED
        self.seen.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.text.setdefault(self.open[-1], []).append(data)


def test_the_page_needs_nothing_from_elsewhere() -> None:
    """No script, no address of anything, and it declares its encoding, width and colours."""
    page = report_page(two_sizes())
    outline = Outline(page)
    assert not {"script", "link", "img", "iframe", "object"} & set(outline.seen)
    assert not {"src", "href", "onload", "onclick"} & {name for name, _ in outline.attributes}
    assert "http" not in page
    assert "url(" not in page
    assert "@import" not in page
    assert ("charset", "utf-8") in outline.attributes
    assert ("content", "width=device-width, initial-scale=1") in outline.attributes
    assert "prefers-color-scheme: dark" in page


def test_it_says_what_the_table_says() -> None:
    """The conclusion, a curve for each cache and bound, every number, the facts, the caveats."""
    outline = Outline(report_page(two_sizes()))
    said = " ".join(text for texts in outline.text.values() for text in texts).replace("\xa0", " ")
    assert "get 47.0 %, 94.0 % of that" in said
    names = ["infinite cache", "offline optimum", "reference LRU", "ours lru", "ours chat", "vllm"]
    legends = [text for text in outline.text["li"] if text in names]
    assert legends == [*names, "ours lru", "ours chat", "vllm"]
    cells = outline.text["td"]
    assert len(cells) == 6 * 11
    assert cells[:5] == ["50k", "ours lru", "20.0 %", "40.0 %", "20.0 %"]
    assert "vllm is a simulation: the weather." in said
    assert "vllm, 50k tokens: 3 requests could never fit" in said
    assert "1,000 requests" in said
    assert "radixchat bench replay trace.jsonl" in said
    assert "2026-01-31, commit abc1234, Linux x86_64" in said


def test_every_colour_is_defined() -> None:
    """A class that a line or a marker has is one that the style sheet knows."""
    arms = [simulated(f"engine{number}", 50_000, 0.2) for number in range(9)]
    page = report_page(replay(*arms))
    style = page[page.index("<style>") : page.index("</style>")]
    for shape, colour in re.findall(r'class="(line|mark) (\w+)"', page):
        assert f".{shape}.{colour} " in style


def test_turns_have_a_chart_where_they_are_known() -> None:
    """At the size that the conclusion speaks of."""
    assert "Hit rate by turn, at 250k tokens" in report_page(two_sizes())
    assert "by turn" not in report_page(replay(simulated("vllm", 50_000, 0.3)))


def test_a_cache_without_a_limit_is_on_the_axis() -> None:
    """Beyond the largest of the others; alone it has the axis for itself."""
    page = report_page(replay(ours("lru", 50_000, 0.3), ours("lru", None, 0.5)))
    assert ">50k</text>" in page
    assert ">no limit</text>" in page
    assert ">no limit</text>" in report_page(replay(ours("lru", None, 0.5)))


def test_a_name_is_text() -> None:
    """A file's name is shown as it is, and is no markup."""
    name = "<script>alert('1')</script>&\"'.jsonl"
    outline = Outline(report_page(two_sizes(name=name)))
    assert "script" not in outline.seen
    assert outline.text["title"][0] == f"Prefix cache replay: {name}"
    assert outline.text["code"] == [name]
    assert outline.text["samp"] == [f"radixchat bench replay {name}"]


def test_a_report_is_replaced_whole(tmp_path: Path) -> None:
    """It is an ordinary file, nothing else is left beside it."""
    path = tmp_path / "report.html"
    path.write_text("old")
    write_report(path, two_sizes(name="Überblick"))
    assert path.read_text("utf-8") == report_page(two_sizes(name="Überblick"))
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600
    plain = tmp_path / "plain"
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode
    assert set(tmp_path.iterdir()) == {path, plain}


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    """What was there stays, and nothing is left beside it."""
    folder = tmp_path / "report.html"
    folder.mkdir()
    (folder / "something").touch()
    with pytest.raises(OSError, match=r"report\.html"):
        write_report(folder, two_sizes())
    assert list(tmp_path.iterdir()) == [folder]


def test_a_name_that_is_not_unicode(tmp_path: Path) -> None:
    """A file's name can be any bytes; the report is written all the same."""
    write_report(tmp_path / "report.html", two_sizes(name="caf\udce9.jsonl"))
    assert "caf?.jsonl" in (tmp_path / "report.html").read_text("utf-8")


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """A link stays a link to the report; a pipe, or /dev/null, stays what it is."""
    (tmp_path / "link").symlink_to("report.html")
    write_report(tmp_path / "link", two_sizes())
    assert (tmp_path / "link").is_symlink()
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_report(tmp_path / "pipe", two_sizes())
        received = os.read(reader, 1 << 20)
    finally:
        os.close(reader)
    assert received == (tmp_path / "report.html").read_bytes()
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
