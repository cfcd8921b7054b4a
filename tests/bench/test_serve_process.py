"""A server of ours that is started for the benchmark, and loaded over both of its ways."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from radixchat.bench.serve import main

ROOM = "--threads 1 --pool-tokens 32768"  # nothing has to leave the cache


@pytest.mark.slow
def test_our_own_server_finds_all_that_can_be_found(tiny_path: Path) -> None:
    """Over HTTP and over the WebSocket, alone and several at a time, after an edit, too."""
    done = CliRunner().invoke(
        main,
        ["--quick", "--json", "--model", str(tiny_path), "--serve-flags", ROOM,
         "--transport", "http,websocket", "--concurrency", "1,2", "--edit"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout.splitlines()[-1])
    for cell in document["cells"]:
        http, websocket, cold = cell["arms"]
        for arm in (http, websocket):
            assert arm["failed"] == 0
            assert arm["hits"]["cached_tokens"] == arm["hits"]["oracle_tokens"]
            assert arm["hits"]["hit_rate"] > 0.5
            assert arm["output_tokens"] == 8 * 8
        assert http["hits"]["prompt_tokens"] == websocket["hits"]["prompt_tokens"]
        assert cold["hits"]["hit_rate"] < 0.2


@pytest.mark.slow
def test_a_server_that_does_not_start_is_told_of(tmp_path: Path) -> None:
    """In its own words."""
    done = CliRunner().invoke(main, ["--quick", "--model", str(tmp_path / "none.gguf")])
    assert done.exit_code == 1
    assert f"radixchat serve ended: error: there is no file {tmp_path.anchor}" in done.output
