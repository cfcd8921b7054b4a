"""A replay's result on a terminal."""

from __future__ import annotations

from dataclasses import replace

from radixchat.bench.replay_table import COLUMNS, WIDTH, fact_list, replay_text
from radixchat.tests.bench.replay_results import ours, replay, simulated, two_sizes

EXPECTED = """\
                        hit        of    ref.           evicted  µs per  µs per    µs per    index
capacity  cache        rate  infinite     LRU  optimum   tokens   match  insert  ev. page  B/token
     50k  ours lru   20.0 %    40.0 %  20.0 %   45.0 %   123.5k    10.5    20.2       3.0      7.5
          ours chat  25.0 %    50.0 %  20.0 %   45.0 %   123.5k    10.5    20.2       3.0      7.5
          vllm       19.0 %    38.0 %  20.0 %   45.0 %        0       -       -         -        -

    250k  ours lru   46.0 %    92.0 %  20.0 %   50.0 %   123.5k    10.5    20.2       3.0      7.5
"""


def test_the_table() -> None:
    """A row for each cache, in groups of one size; what does not exist is a dash, never a zero."""
    text = replay_text(two_sizes())
    assert EXPECTED in text
    assert "vllm" in text


def test_the_facts_and_the_end() -> None:
    """The text begins with the trace's facts and ends with what follows from them."""
    lines = replay_text(two_sizes()).splitlines()
    assert lines[0].startswith("trace.jsonl (messages): 1,000 requests; 1M input tokens")
    assert " ".join(lines[-4:]).endswith("At the same size: lru 46.0 %, vllm 45.0 %.")


def test_it_is_as_wide_as_promised() -> None:
    """However much there is to say: text is wrapped, and the table has room."""
    text = replay_text(two_sizes(name="a-long-name-" * 5))
    assert max(map(len, text.splitlines())) <= WIDTH


def test_a_number_keeps_its_sign() -> None:
    """No line begins with a per cent sign that a number lost."""
    for width in range(40):
        text = replay_text(two_sizes(name="x" * width))
        assert not any(line.startswith("%") for line in text.splitlines())


def test_turns() -> None:
    """Rates by turn, the last of which is several; without turns there is no such table."""
    lines = replay_text(two_sizes()).splitlines()
    head = lines.index("capacity  cache           1     10+")
    assert lines[head + 1] == "     50k  ours lru   12.5 %  75.0 %"
    assert "          vllm            -       -" in lines
    assert "          requests      900     100" in lines
    assert "by turn" not in replay_text(replay(simulated("vllm", 50_000, 0.3)))


def test_what_has_to_be_known() -> None:
    """Requests that no cache of a size could hold, and what a simulation leaves out."""
    text = replay_text(two_sizes())
    assert "vllm, 50k tokens: 3 requests could never fit" in text
    assert "vllm is a simulation: the weather." in text
    assert "So that every request fits, try --capacity 60000." in text
    assert "ours is" not in text
    assert "try --capacity" not in replay_text(replay(ours("lru", 50_000, 0.2)))


def test_the_columns_are_explained() -> None:
    """Under the table, a line each."""
    lines = replay_text(two_sizes()).splitlines()
    first = lines.index(COLUMNS[0])
    assert lines[first - 1] == ""
    assert tuple(lines[first : first + 3]) == COLUMNS


def test_only_replies_that_were_kept_are_mentioned() -> None:
    """None is where the trace has none, or where they were left out."""
    facts = two_sizes().facts
    assert "500k distinct tokens, kept replies included" in fact_list(facts)
    assert "replies" not in " ".join(fact_list(replace(facts, keeps_replies=False)))


def test_numbers_of_one() -> None:
    """A request is no requests."""
    one = replace(
        two_sizes().facts, requests=1, tokens=1, distinct_tokens=1, conversations=1, quiet_lines=1
    )
    assert fact_list(one) == [
        "1 request",
        "1 input token, 1 a request, at most 4,000",
        "1 distinct token, kept replies included",
        "1 conversation",
        "1 line asks nothing",
    ]
    assert fact_list(replace(one, quiet_lines=2))[-1] == "2 lines ask nothing"


def test_sizes_that_nobody_chose() -> None:
    """It is said what was chosen instead."""
    result = replay(ours("lru", None, 0.5))
    assert "--capacity" not in replay_text(result)
    chosen_here = replace(result, chosen_capacities=False)
    assert "No --capacity was given: 5, 10, 20, 50 % of" in replay_text(chosen_here)


def test_a_name_that_would_command_the_terminal() -> None:
    """It is shown, and does nothing."""
    text = replay_text(two_sizes(name="evil\x1b]52;c;\x07.jsonl"))
    assert "\x1b" not in text
    assert "evil␛]52;c;␇.jsonl" in text
