"""`radixchat bench replay`: what is asked, refused and printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from radixchat.bench.replay import main
from radixchat.bench.trace import FORMATS, open_trace
from radixchat.tests.bench.trace_files import growing_chats, trace_file


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Ten chats of four turns, as token ids."""
    return trace_file(tmp_path / "traffic.jsonl", growing_chats(10, 4))


@pytest.fixture
def blocks(tmp_path: Path) -> str:
    """Two requests of two blocks."""
    line = {"timestamp": 0, "input_length": 1024, "hash_ids": [1, 2]}
    return trace_file(tmp_path / "blocks.jsonl", [line, line])


@pytest.fixture
def chats(tmp_path: Path) -> str:
    """Two chats."""
    messages = [
        {"role": "user", "content": "What is the capital of France?"},
        {"role": "assistant", "content": "Paris."},
        {"role": "user", "content": "And of Spain?"},
    ]
    return trace_file(tmp_path / "chats.jsonl", [{"messages": messages}] * 2)


def replay(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


def arms(*arguments: str) -> list[dict[str, object]]:
    """The arms of the JSON line that a run ends with."""
    done = replay(*arguments, "--json")
    assert done.exit_code == 0, done.output
    found: list[dict[str, object]] = json.loads(done.stdout.splitlines()[-1])["arms"]
    return found


def test_a_trace_is_all_it_needs(trace: str) -> None:
    """Two policies at four sizes, in a table that ends with what follows; nothing on stderr."""
    done = replay(trace)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("traffic.jsonl (tokens): 40 requests")
    assert "No --capacity was given" in done.stdout
    table = done.stdout[: done.stdout.index("Hit rate by turn")]
    assert table.count("ours lru") == table.count("ours chat") == 4
    assert "An infinite cache would save" in done.stdout
    assert "{" not in done.stdout


def test_what_is_asked_is_run(trace: str) -> None:
    """Sizes ascending, then engines and policies as they were named, none twice."""
    found = arms(
        trace,
        *("--capacity", "inf,1k,.5k,1000"),
        *("--engine", "vllm,ours"),
        *("--policy", "slru, lru,slru"),
        *("--page-size", "8"),
    )
    assert [(arm["capacity_tokens"], arm["engine"], arm["policy"]) for arm in found] == [
        (size, *cache)
        for size in (500, 1000, None)
        for cache in (("vllm", None), ("ours", "slru"), ("ours", "lru"))
    ]
    assert {arm["page_size"] for arm in found} == {8}
    assert found[-1]["hit_rate"] == found[-1]["infinite"]


def test_replies_may_be_left_out(trace: str) -> None:
    """Then less is found: of each turn but the first the answer before it."""
    kept = arms(trace, "--capacity", "inf", "--policy", "lru")
    left = arms(trace, "--capacity", "inf", "--policy", "lru", "--prompts-only")
    tokens = 10 * (20 + 50 + 80 + 110)
    assert kept[0]["hit_rate"] == round(10 * (29 + 59 + 89) / tokens, 6)
    assert left[0]["hit_rate"] == round(10 * (20 + 50 + 80) / tokens, 6)


def test_tenants_are_kept_apart(tmp_path: Path) -> None:
    """By the field that is named; equal prompts of two tenants share nothing."""
    lines = [{"tokens": [1, 2, 3], "user": user} for user in ("ada", "bob")]
    path = trace_file(tmp_path / "t", lines)
    together = arms(path, "--capacity", "64")[0]["infinite"]
    apart = arms(path, "--capacity", "64", "--namespace-by", "user")[0]["infinite"]
    assert (together, apart) == (round(2 / 6, 6), 0.0)


def test_a_block_hash_trace_has_its_own_pages(blocks: str) -> None:
    """512 tokens here; any other size is refused, and its own is not."""
    assert arms(blocks, "--capacity", "2k")[0]["page_size"] == 512
    assert replay(blocks, "--page-size", "512").exit_code == 0
    refused = replay(blocks, "--page-size", "16")
    assert refused.exit_code == 2
    assert "replayed at its own block size, 512 tokens" in refused.stderr


def test_chats_may_take_turns(chats: str) -> None:
    """It is said that nobody told who spoke when, and how many take turns if that is set."""
    assert "--concurrency N" in replay(chats).stdout
    together = replay(chats, "--concurrency", "2").stdout
    assert "2 of them taking turns" in together
    assert "--concurrency N" not in together
    last = replay(chats, "--last-turn").stdout
    assert "2 requests" in last
    assert "--concurrency N" not in last


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--capacity", "8"], "--capacity 8: a page has 16 tokens; a cache must hold one"),
        (["--capacity", "1M,lots"], "'lots' is no number of tokens"),
        (["--capacity", "0"], "at least 1"),
        (["--policy", "lru,fifo"], "'fifo' is not one of lru, slru, tlru, chat"),
        (["--engine", "trt"], "'trt' is not one of ours, vllm, sglang, tgi, llamacpp"),
        (["--engine", "vllm", "--policy", "lru"], "--policy is for the engine `ours`"),
        (["--format", "csv"], "'csv' is not one of"),
        (["--page-size", "0"], "0 is not in the range"),
        (["--tokenizer", "words"], "--tokenizer is for traces of chats"),
        (["--concurrency", "2"], "--concurrency is for traces of chats"),
        (["--last-turn"], "--last-turn is for traces of chats"),
        (["--last-turn", "--concurrency", "2"], "--concurrency 2: with --last-turn each chat is"),
        (["--html", "no/such/folder.html"], "there is no folder no/such"),
    ],
)
def test_what_is_refused(trace: str, arguments: list[str], reason: str) -> None:
    """A setting that cannot be is an error of usage, and nothing is printed."""
    done = replay(trace, *arguments)
    assert done.exit_code == 2
    assert reason in " ".join(done.stderr.split())
    assert done.stdout == ""


def test_a_trace_that_is_not_there() -> None:
    """It is an error of usage too."""
    assert replay("nowhere.jsonl").exit_code == 2


def test_a_damaged_line(tmp_path: Path) -> None:
    """Its number and what is wrong; the exit code is 1, and nothing else is printed."""
    path = trace_file(tmp_path / "t", [{"tokens": [1, 2]}, {"tokens": [1, -2]}])
    done = replay(path)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {path}:2: ")


def test_a_report_beside_the_table(trace: str, tmp_path: Path) -> None:
    """The page has what the table has; a second run replaces it."""
    page = tmp_path / "report.html"
    page.write_text("old")
    done = replay(trace, "--capacity", "500", f"--html={page}")
    assert done.exit_code == 0
    text = page.read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert "traffic.jsonl" in text
    assert "main traffic.jsonl --capacity 500 --html=report.html</samp>" in text
    assert str(tmp_path) not in text


def test_a_report_is_never_written_over_the_trace(trace: str, tmp_path: Path) -> None:
    """Under whatever name."""
    before = Path(trace).read_bytes()
    link = tmp_path / "link.html"
    link.symlink_to(trace)
    assert replay(trace, "--html", str(link)).exit_code == 2
    assert Path(trace).read_bytes() == before


def test_a_report_that_cannot_be_written(trace: str, tmp_path: Path) -> None:
    """What was computed is shown all the same; then the error, and the exit code is 1."""
    path = tmp_path / ("n" * 250 + ".html")
    done = replay(trace, "--capacity", "500", "--json", "--html", str(path))
    assert done.exit_code == 1
    assert json.loads(done.stdout.splitlines()[-1])["requests"] == 40
    assert "cannot be written: File name too long" in done.stderr


def test_a_cache_larger_than_any_machine(trace: str) -> None:
    """It has no more pages than the trace can use, and finds what one without a limit finds."""
    names = "ours,vllm,sglang,tgi,llamacpp"
    large, unlimited = arms(trace, "--capacity", "999999999G,inf", "--engine", names)[::6]
    assert large["hit_rate"] == unlimited["hit_rate"] == large["infinite"]
    assert large["index_bytes_per_token"] == unlimited["index_bytes_per_token"]


def test_no_limit_is_none_for_a_simulation(tmp_path: Path) -> None:
    """llama.cpp's slots share nothing, so that each needs room for a whole request."""
    lines = [{"tokens": [*range(1000), last]} for last in (1, 2)]
    path = trace_file(tmp_path / "t.jsonl", lines)
    (arm,) = arms(path, "--capacity", "inf", "--engine", "llamacpp")
    assert arm["hit_rate"] == arm["infinite"]


def test_the_help_shows_lines_that_are_read(tmp_path: Path) -> None:
    """Each format by name, and every example is a whole line that is read as it."""
    shown = [line.strip() for line in replay("--help").stdout.splitlines()]
    found = []
    for line in shown:
        if line.startswith("{"):
            trace = open_trace(trace_file(tmp_path / "t.jsonl", [json.loads(line)]))
            assert len(list(trace)) == 1
            found.append(trace.format)
    assert found == ["mooncake", "messages", "messages", "tokens", "tokens"]
    for name in FORMATS:
        assert any(line.startswith(f"{name}: ") for line in shown)
