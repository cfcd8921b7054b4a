"""`radixchat bench serve`: arms, options, table, JSON and exit codes, against a server of words."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from radixchat.bench.serve import main
from radixchat.bench.serve_load import ServeLoad


@contextmanager
def served(**manners: object) -> Iterator[str]:
    """A server's URL, until the block is left."""
    command = [sys.executable, "-m", "radixchat.tests.bench.chat_server", json.dumps(manners)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["--quick", *arguments])


def test_a_cell_for_each_concurrency_and_an_arm_for_each_way(tmp_path: Path) -> None:
    """The last line is JSON with all that was measured; a perfect cache finds the oracle."""
    rows = tmp_path / "requests.jsonl"
    with served() as ours, served(usage=False, tokens="text") as peer:
        done = bench(
            "--url", ours, "--peer-url", f"{peer}/v1", "--json", "--edit", "--turns", "3",
            "--concurrency", "1,2", "--requests", str(rows), "--good-ttft", "60000",
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout.splitlines()[-1])
    assert document["bench"] == "serve"
    assert {"version", "date", "commit", "machine", "load", "model", "seed"} <= document.keys()
    assert document["config"]["turns"] == 3
    assert document["goals"] == []  # another load
    assert [cell["concurrency"] for cell in document["cells"]] == [1, 2]
    for cell in document["cells"]:
        http, other, cold = cell["arms"]
        assert [each["name"] for each in cell["arms"]] == ["http", "peer", "cold"]
        assert [row["name"] for row in http["per_turn"]] == ["1", "2", "3", "edit", "back"]
        assert http["hits"]["cached_tokens"] == http["hits"]["oracle_tokens"] > 0
        assert http["hits"]["hit_rate"] > 0.7 > 0.1 > cold["hits"]["hit_rate"]
        assert cold["hits"]["cached_tokens"] == cold["hits"]["oracle_tokens"]
        assert cold["hits"]["prompt_tokens"] == http["hits"]["prompt_tokens"]
        assert other["hits"] is None
        for each in cell["arms"]:
            assert (each["requests"], each["failed"]) == (10, 0)
            assert each["output_tokens"] == 10 * 8  # one by usage, one by its tokenizer
            assert each["gap_ms"]["n"] == 10 * 7
            assert each["goodput"] == 1
    lines = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 2 * 3 * 10
    assert {"start_ns", "ttft_ms", "itl_ms", "e2e_ms", "prompt_tokens"} <= lines[0].keys()
    assert [len(line["itl_ms"]) for line in lines] == [7] * 60


def test_gaps_are_of_tokens_whatever_a_chunk_holds() -> None:
    """Chunks of three tokens give as many gaps as chunks of one."""
    with served(merge=3) as url:
        done = bench("--url", url, "--json", "--no-cold")
    (arm,) = json.loads(done.stdout.splitlines()[-1])["cells"][0]["arms"]
    assert arm["gap_ms"]["n"] == 4 * 7


@pytest.mark.parametrize("tokens", ["messages", "template"])
def test_a_server_tells_its_tokens_in_its_own_way(tokens: str) -> None:
    """And is named; the oracle is the same."""
    with served(tokens=tokens, hangs_up=True) as url:
        done = bench("--url", url, "--json", "--no-cold")
    assert done.exit_code == 0, done.output
    (arm,) = json.loads(done.stdout.splitlines()[-1])["cells"][0]["arms"]
    assert arm["hits"]["cached_tokens"] == arm["hits"]["oracle_tokens"] > 0


def test_what_nobody_tells_is_unknown() -> None:
    """Without a tokenizer first turns have no oracle, later ones do; without usage neither."""
    with served(tokens="") as url:
        done = bench("--url", url, "--json", "--no-cold")
    assert "no tokenizer" in done.stdout
    (arm,) = json.loads(done.stdout.splitlines()[-1])["cells"][0]["arms"]
    first, second = arm["per_turn"]
    assert first["hits"] is None
    assert second["hits"]["cached_tokens"] == second["hits"]["oracle_tokens"]
    with served(tokens="", usage=False) as url:
        done = bench("--url", url, "--no-cold")
    assert done.exit_code == 0, done.output
    assert any(line.split()[:1] == ["oracle"] and "?" in line for line in done.stdout.splitlines())


def test_a_server_that_knows_only_openai_s_options(tmp_path: Path) -> None:
    """It is asked without ours, and that is said."""
    with served(is_strict=True) as url:
        done = bench("--url", url)
    assert done.exit_code == 0, done.output
    assert "it knows OpenAI's options only" in done.stdout


def test_an_oracle_that_is_beaten_is_an_error() -> None:
    """Whether the server counts wrongly, or has seen the texts before."""
    with served(lie=200) as url:
        done = bench("--url", url)
    assert done.exit_code == 1
    assert "the oracle is beaten, which is an error: round 1 of conversation 0" in done.output
    with served() as url:
        codes = [bench("--url", url, "--seed", "7", "--no-cold").exit_code for _ in range(2)]
        assert bench("--url", url, "--no-cold").exit_code == 0
    assert codes == [0, 1]


@pytest.mark.parametrize(
    ("manners", "says"),
    [
        ({"breaks": True}, "broke off without a finish_reason"),
        ({"refuses": 1}, "status 503: {"),
        ({"refuses": 5}, "2 requests of http: status 503: {"),
    ],
)
def test_a_failed_request_is_told(manners: dict[str, object], says: str) -> None:
    """With what the server said; a run in which one failed fails."""
    with served(**manners) as url:
        done = bench("--url", url, "--no-cold", "--turns", "2", "--conversations", "2")
    assert done.exit_code == 1
    assert says in done.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--url", "127.0.0.1:8000"], "'127.0.0.1:8000' is no URL"),
        (["--url", "http://127.0.0.1:1"], "127.0.0.1:1 cannot be reached"),
        (["--concurrency", "8,0"], "'8,0' is not like 8 or 1,8"),
        (["--transport", "carrier"], "'carrier' is not one of http, websocket"),
        (["--url", "http://127.0.0.1:1", "--tokenizer", "someone/nothing"], "cannot be reached"),
    ],
)
def test_what_it_refuses(arguments: list[str], says: str) -> None:
    """With the value."""
    done = bench(*arguments)
    assert done.exit_code in (1, 2)
    assert says in done.output


def test_the_default_load_is_the_goal_s() -> None:
    """As goals have it: 8 conversations of 6 turns, 300 tokens that all share, 48 a turn."""
    assert ServeLoad() == ServeLoad(8, 6, system=300, message=20, answer=48, edit=False)
