"""README's recording is what a terminal shows today.

What every machine has to show is compared exactly: what is typed, how each reply ends, the counts
of the first turn. The words of the answers are the same wherever sums of floating-point numbers
are rounded as on the machine of the recording, which no CPU has to; all that follows from them
(excerpts, pictures, later counts) is compared where they are. Times and rates never are.
"""

from __future__ import annotations

import shutil

import pytest

from radixchat.tests.recording import ENTRIES, Recording, record, recorded


def test_it_shows_what_readers_should_see() -> None:
    """A code block, cached tokens, the price of an edit, branches, the cache, the bottom line."""
    shown = recorded()
    entries = {entry.typed: entry for entry in shown.entries}
    assert tuple(entries) == ENTRIES
    assert "```python" in entries[ENTRIES[0]].lines
    cached = [entry.counts[0] for entry in shown.entries if entry.counts is not None]
    assert cached[0] == 0
    assert len(cached) == 3
    assert all(cached[1:])
    assert entries["/edit 2"].lines[0].startswith("editing turn 2 recomputes ")
    assert "#2  ← here" in "\n".join(entries["/tree"].lines)
    assert "+ marks what would be computed; the rest is cached" in entries["/cache"].lines
    assert entries["/why"].lines[0].startswith("nothing was missed: ")
    assert shown.text.splitlines()[0].startswith("$ radixchat chat")
    assert shown.text.splitlines()[-2] == ">"
    assert shown.text.splitlines()[-1].endswith("next turn warm")
    assert max(map(len, shown.text.splitlines())) <= 80


def test_times_are_nothing_to_compare() -> None:
    """They are taken out, in any unit; tokens stay."""
    slow, fast = (
        Recording(f"cached 3/4 · first token {first} · {rate} tok/s\nrecomputes 35 tokens{about}")
        for first, rate, about in (("12 ms", 37, ", about 2.1 s"), ("12345 ms", 9.5, ""))
    )
    assert slow.timeless == fast.timeless
    assert "cached 3/4" in slow.timeless
    assert "35 tokens" in slow.timeless


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux: on Debian `apt install tmux`")
@pytest.mark.usefixtures("compiled", "default_model")
def test_it_is_what_a_terminal_shows() -> None:
    """If it is not, `python -m radixchat.tests.recording` records anew."""
    shown, played = recorded(), record()
    assert played.outline == shown.outline
    counts = [entry.counts for entry in played.entries if entry.counts is not None]
    first, second, edited = counts
    assert first == shown.entries[0].counts
    # Each finds at least all of the first turn that its own template has unchanged.
    assert min(second[0], edited[0]) > first[1]
    assert edited[1] - edited[0] < first[1]
    if played.answers == shown.answers:
        assert played.timeless == shown.timeless
