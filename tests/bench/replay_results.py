"""Results of replays that never were, with round numbers."""

from __future__ import annotations

from radixchat.bench.replay_result import ArmResult, ReplayResult, TraceFacts, TurnRate


def facts(name: str = "trace.jsonl", conversations: int = 30) -> TraceFacts:
    """A trace of 1,000 requests and a million tokens, 500,000 of them distinct."""
    return TraceFacts(
        name=name,
        format="messages",
        unit_tokens=1,
        requests=1000,
        tokens=10**6,
        distinct_tokens=500_000,
        keeps_replies=True,
        longest_tokens=4000,
        conversations=conversations,
        namespaces=1,
        quiet_lines=0,
        taking_turns=None,
    )


def ours(policy: str, capacity: int | None, hit_rate: float, optimum: float = 0.45) -> ArmResult:
    """Our own cache of `capacity` tokens, with turns 1 and 10 and later."""
    return ArmResult(
        engine="ours",
        policy=policy,
        page_size=16,
        capacity_tokens=capacity,
        hit_rate=hit_rate,
        reference_lru=0.2,
        optimum=optimum,
        infinite=0.5,
        evicted_tokens=123_456,
        us_per_match=10.5,
        us_per_insert=20.25,
        us_per_evicted_page=3.0,
        index_bytes_per_token=7.5,
        per_turn=(TurnRate(1, 900, 400_000, 0.125), TurnRate(10, 100, 600_000, 0.75)),
        too_long=0,
        roomy_tokens=4096,
        ignores="",
    )


def simulated(engine: str, capacity: int | None, hit_rate: float, too_long: int = 0) -> ArmResult:
    """Another engine's cache: no policy, no times, no turns."""
    return ArmResult(
        engine=engine,
        policy=None,
        page_size=1,
        capacity_tokens=capacity,
        hit_rate=hit_rate,
        reference_lru=0.2,
        optimum=0.45,
        infinite=0.5,
        evicted_tokens=0,
        us_per_match=None,
        us_per_insert=None,
        us_per_evicted_page=None,
        index_bytes_per_token=None,
        per_turn=None,
        too_long=too_long,
        roomy_tokens=60_000,
        ignores="the weather.",
    )


def replay(*arms: ArmResult, name: str = "trace.jsonl", infinite: float = 0.5) -> ReplayResult:
    """A replay of these caches, whose sizes somebody chose."""
    command = f"radixchat bench replay {name}"
    return ReplayResult(
        facts(name), infinite, arms, True, "abc1234", "Linux x86_64", "2026-01-31", command
    )


def two_sizes(name: str = "trace.jsonl") -> ReplayResult:
    """Two policies and another engine, at 50k and at 250k tokens."""
    return replay(
        ours("lru", 50_000, 0.2),
        ours("chat", 50_000, 0.25),
        simulated("vllm", 50_000, 0.19, too_long=3),
        ours("lru", 250_000, 0.46, 0.5),
        ours("chat", 250_000, 0.47, 0.5),
        simulated("vllm", 250_000, 0.45),
        name=name,
    )
