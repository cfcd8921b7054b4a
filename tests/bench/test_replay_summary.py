"""What a replay's result says in words."""

from __future__ import annotations

from dataclasses import replace

from radixchat.bench.replay_summary import counted, percent, sentences, telling_capacity
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
        "250k tokens under chat (the smallest size here that gets 90 % of the infinite cache) get"
        " 47.0 %, 94.0 % of that; the best possible at that size is 50.0 %.",
        "More memory could add at most 3.0 points, a better choice of what to keep (policy, or"
        " smaller pages) at most 3.0 points.",
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
    """All is saved, and nothing is left to gain but by smaller pages."""
    said = sentences(replay(ours("lru", None, 0.5, 0.5), ours("chat", None, 0.5, 0.5)))
    assert said[1:] == [
        "An unlimited cache under lru gets 50.0 %, all of that.",
        "Nothing is left to be gained by more memory or a better choice.",
        "Without a limit: chat 50.0 %.",
    ]
    said = sentences(replay(ours("lru", None, 0.499, 0.5)))
    assert said[1:] == [
        "An unlimited cache under lru gets 49.9 %, 99.8 % of that.",
        "Smaller pages could add at most 0.1 points.",
    ]


def test_why_this_size() -> None:
    """The smallest that is enough, or else the largest; a size that is the only one has no why."""
    small = ours("lru", 50_000, 0.1)
    said = sentences(replay(small, ours("lru", 250_000, 0.2)))[1]
    assert "(the largest size here; none gets 90 % of the infinite cache)" in said
    said = sentences(replay(small, ours("lru", None, 0.5)))[1]
    assert "(no smaller size here gets 90 % of the infinite cache)" in said
    assert "(" not in sentences(replay(small))[1]


def test_what_is_said_agrees_with_the_table() -> None:
    """A difference is the one of the two rates as they are shown."""
    arm = replace(ours("lru", 50_000, 0.80551, 0.81), infinite=0.80849)
    said = sentences(replay(arm, infinite=0.80849))
    assert (percent(arm.infinite), percent(arm.hit_rate)) == ("80.8 %", "80.6 %")
    assert "More memory could add at most 0.2 points" in said[2]
    assert "99.6 % of that" in said[1]


def test_one_is_not_many() -> None:
    """A noun is plural where there are several, or none."""
    assert [counted(n, "request") for n in (0, 1, 2000)] == [
        "0 requests",
        "1 request",
        "2,000 requests",
    ]


def test_traffic_that_repeats_nothing() -> None:
    """One sentence says that a cache is of no use; no rate is divided by nothing."""
    (said,) = sentences(replay(replace(ours("lru", 50_000, 0.0), infinite=0.0), infinite=0.0))
    assert "would save nothing" in said


def test_percent() -> None:
    """One decimal; a dash for what does not exist, which is not a zero."""
    assert (percent(0.3741), percent(0.0), percent(None)) == ("37.4 %", "0.0 %", "-")
