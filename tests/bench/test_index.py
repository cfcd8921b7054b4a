"""The benchmark of the index: what it measures, and that its figures mean what they say."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from radixchat.bench.index import main
from radixchat.bench.index_costs import eviction_costs, path_costs
from radixchat.bench.index_endurance import churn, footprint, growth, pauses
from radixchat.bench.index_tree import LONG, GrownIndex


def _run(*arguments: str) -> str:
    done = CliRunner().invoke(main, ["--quick", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_it_prints_tables_and_one_line_of_json() -> None:
    """Every size and policy is there; what should be equal, flat or gone is."""
    output = _run("--json", "--leaves", "500,100", "--policy", "lru,chat")
    report = json.loads(output.splitlines()[-1])
    assert report["bench"] == "index"
    assert {"commit", "machine", "seed", "load", "page_size"} <= report.keys()
    assert [path["leaves"] for path in report["paths"]] == [100, 500]
    evictions = [(each["policy"], each["leaves"]) for each in report["evictions"]]
    assert evictions == [("lru", 100), ("lru", 500), ("chat", 100), ("chat", 500)]
    assert report["evict_ratio"].keys() == {"lru", "chat"}
    assert report["churn"]["nodes_before"] == report["churn"]["nodes_after"]
    assert report["growth"]["prompts_nodes"] == 1
    assert report["growth"]["depth"] == report["growth"]["tokens"]
    assert {each["edge"] for each in report["footprints"]} == {64, 256}
    assert [each["by_hand"] for each in report["pauses"]] == [True, False] * 2
    for title in ("match list", "evict, µs", "churn:", "growth:", "depth:", "bytes per", "pauses"):
        assert title in output


def test_without_json_there_is_none() -> None:
    """The table is all."""
    assert "{" not in _run("--leaves", "64", "--policy", "tlru")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--leaves", "1k,x"], "'x'"),
        (["--leaves", "10"], "'10': each must be at least 64"),
        (["--leaves", "1k,inf"], "there is no inf"),
        (["--policy", "lru,fifo"], "'fifo' is not one of lru, slru, tlru, chat"),
        (["--seed", "-1"], "-1"),
    ],
)
def test_what_it_refuses(arguments: list[str], says: str) -> None:
    """With the value, before anything is measured."""
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert says in done.output


def test_the_tree_is_as_drawn() -> None:
    """So many leaves, long chats that are found whole, 8 nodes on the path of each."""
    index = GrownIndex(300, "lru", seed=1)
    cache = index.cache
    assert len(list(index.policy.leaves())) == 300 + 32 * 7
    assert cache.num_nodes == 300 + 32 * 7 + 32 * 6 + 16
    for prompt in index.long:
        assert cache.match(prompt).length == LONG
    cache.check()


def test_the_measurements_do_what_they_time() -> None:
    """Smoke, with the assertions that are inside: hits are whole, one page means one page."""
    paths = path_costs(64, seed=2, repeats=4)
    assert paths.nodes > 64
    assert min(paths.match_array_us, paths.trie_us, paths.insert_us) > 0
    assert eviction_costs("slru", 64, seed=2, repeats=4).evict_us > 0
    worn = churn(300, seed=2)
    assert worn.nodes_before == worn.nodes_after == 91
    grown = growth(100, seed=2)
    assert (grown.prompts_nodes, grown.depth) == (1, 100)
    assert pauses("lru", 300, seed=2, by_hand=True).count == 5


@pytest.mark.parametrize(
    ("policy", "edge"), [("lru", 64), ("slru", 64), ("tlru", 64), ("chat", 96)]
)
def test_the_index_is_small(policy: str, edge: int) -> None:
    """M4: at most 24 bytes per cached token; `chat` has a conversation for every leaf here."""
    assert footprint(policy, edge, leaves=800, seed=3).bytes_per_token <= 24


@pytest.mark.slow
def test_eviction_is_flat() -> None:
    """S2: a page costs at most twice as much among 32 times the leaves; at most 79 µs.

    The control: an order that is built when it is needed costs more than eight times as much.
    """
    few = eviction_costs("lru", 1_000, seed=4, repeats=20)
    many = eviction_costs("lru", 32_000, seed=4, repeats=20)
    assert many.evict_us < 2 * few.evict_us
    assert max(few.evict_us, many.evict_us) < 79
    assert many.rebuild_us > 8 * few.rebuild_us


@pytest.mark.slow
def test_match_is_fast() -> None:
    """S1: 2,048 tokens among 10,000 nodes in at most 100 µs; the trie, the control, is slower."""
    costs = path_costs(10_000, seed=5, repeats=200)
    assert costs.match_list_us <= 100
    assert costs.match_array_us <= costs.match_list_us < costs.trie_us
