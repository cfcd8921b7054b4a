"""What a replay's result says in words."""

from __future__ import annotations

from dataclasses import replace

from radixchat.bench.replay_summary import percent, sentences, telling_capacity
from radixchat.tests.bench.replay_results import ours, replay, simulated, two_sizes


def test_it_speaks_of_the_smallest_size_that_is_enough() -> None:
    """The smallest at which nine tenths of what can be saved are saved, else the largest."""
    assert telling_capacity(two_sizes()) == 250_000
    enough = replay(ours("lru", 50_000, 0.45), ours("lru", 250_000, 0.5))
    assert telling_capacity(enough) == 50_000
    never = replay(ours("lru", 50_000, 0.1), ours("lru", 250_000, 0.2))
    assert telling_capacity(never) == 250_000


def test_what_a_user_can_act_on() -> None:
    """What can be saved, what one size gets of it, what is left, and how the others did."""
    assert sentences(two_sizes()) == [
        "An infinite cache would save 50.0 % of the prompt tokens; it would have to hold 500k"
        " tokens.",
        "250k tokens under chat get 47.0 %, 94 % of that; the best possible at that size is"
        " 50.0 %.",
        "More memory could add at most 3.0 points, another policy at that size at most 3.0 points.",
        "At the same size: lru 46.0 %, vllm 45.0 %.",
    ]


def test_what_foresight_would_need() -> None:
    """The smallest size at which the optimum gets as much; nothing is said if none is smaller."""
    arms = [
        ours("lru", 50_000, 0.1, 0.4),
        ours("lru", 100_000, 0.2, 0.46),
        ours("lru", 250_000, 0.46, 0.5),
    ]
    assert "Knowing the future, 100k tokens would get as much." in sentences(replay(*arms))
    assert "future" not in " ".join(sentences(replay(arms[0], arms[2])))
    useless = replay(ours("lru", 50, 0.0, 0.0), ours("lru", 100, 0.0, 0.0))
    assert "future" not in " ".join(sentences(useless))


def test_a_simulated_cache_that_is_the_best() -> None:
    """It is named as what it is; ours wins a tie."""
    best = replay(ours("lru", 50_000, 0.2), simulated("vllm", 50_000, 0.3))
    assert "50k tokens in a cache like vllm's get 30.0 %" in sentences(best)[1]
    tie = replay(simulated("vllm", 50_000, 0.3), ours("lru", 50_000, 0.3))
    assert "50k tokens under lru get 30.0 %" in sentences(tie)[1]


def test_a_cache_without_a_limit() -> None:
    """All is saved, and nothing is left to gain."""
    said = sentences(replay(ours("lru", None, 0.5, 0.5)))
    assert said[1:] == [
        "No limit under lru gets 50.0 %, 100 % of that.",
        "Nothing is left to be gained by more memory or another policy.",
    ]


def test_traffic_that_repeats_nothing() -> None:
    """One sentence says that a cache is of no use; no rate is divided by nothing."""
    (said,) = sentences(replay(replace(ours("lru", 50_000, 0.0), infinite=0.0), infinite=0.0))
    assert "would save nothing" in said


def test_percent() -> None:
    """One decimal; a dash for what does not exist, which is not a zero."""
    assert (percent(0.3741), percent(0.0), percent(None)) == ("37.4 %", "0.0 %", "-")
