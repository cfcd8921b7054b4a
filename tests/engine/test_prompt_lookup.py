"""Drafts from what was said before: found, followed, met again after a change, and given up."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from radixchat.engine.prompt_lookup import PromptLookup

TEXT = list(range(100, 180))
PROMPT = [1, 2, *TEXT, 3, 4]


def say(
    lookup: PromptLookup, prompt: Sequence[int], answer: Sequence[int], limit: int = 31
) -> list[tuple[int, int]]:
    """Give the answer as a model with drafts would; (proposed, accepted) of each step."""
    tokens = [*prompt, answer[0]]
    steps = []
    end = len(prompt) + len(answer)
    while len(tokens) < end:
        rest = answer[len(tokens) - len(prompt) :]
        draft = lookup.propose(tokens, min(limit, len(rest) - 1))
        accepted = next((i for i, d in enumerate(draft) if d != rest[i]), len(draft))
        lookup.report(len(draft), accepted)
        tokens += rest[: accepted + 1]
        steps.append((len(draft), accepted))
    return steps


def test_a_repeated_text_is_drafted_after_three_tokens() -> None:
    """From then on every draft is right, and they become longer."""
    steps = say(PromptLookup(), PROMPT, TEXT)
    assert steps[:2] == [(0, 0), (0, 0)]
    assert all(0 < proposed == accepted for proposed, accepted in steps[2:])
    assert [proposed for proposed, _ in steps[2:7]] == [4, 7, 7, 7, 15]


def test_another_token_in_place_of_one_costs_one_step() -> None:
    """The text is drafted again right after a changed, a left out and an added token."""
    for changed in (
        [*TEXT[:30], 9, *TEXT[31:]],
        [*TEXT[:30], *TEXT[31:]],
        [*TEXT[:30], 9, *TEXT[30:]],
    ):
        steps = say(PromptLookup(), PROMPT, changed)
        wrong = [step for step in steps[2:] if step[0] != step[1]]
        assert len(wrong) <= 2, steps
        assert len(steps) <= 14


def test_a_passage_left_out_is_met_again() -> None:
    """The first token behind the gap is enough, where the gap is short."""
    steps = say(PromptLookup(), PROMPT, [*TEXT[:30], *TEXT[45:]])
    (gap,) = [i for i, step in enumerate(steps) if i > 1 and step[0] != step[1]]
    assert steps[gap + 1][1] > 0


def test_a_text_that_repeats_itself_is_drafted_beyond_its_end() -> None:
    """A loop of two tokens gives drafts as long as any."""
    answer = [7, 8] * 400
    steps = say(PromptLookup(), [1, 2, 3], answer)
    assert max(accepted for _, accepted in steps) == 31


def test_the_latest_of_its_own_occurrences_counts() -> None:
    """What followed a run last is proposed, not what followed it first."""
    tokens = [1, 2, 3, 50, 51, 9, 1, 2, 3, 60, 61, 9, 1, 2, 3]
    assert PromptLookup().propose(tokens, 2) == [60, 61]


def test_a_branch_is_preferred_to_its_own_text() -> None:
    """And in a branch the earliest occurrence counts: the one right after the fork."""
    prompt = [1, 2, 3, 50, 51, 9, 1, 2, 3]
    branch = [8, 1, 2, 3, 70, 71, 8, 1, 2, 3, 80, 81]
    assert PromptLookup([branch]).propose(prompt, 2) == [70, 71]


def test_an_old_answer_is_proposed_from_its_first_token() -> None:
    """On regenerate, whether the branch is the answer alone or the path with the prompt."""
    old = [40, 41, 42, 43]
    for branch in (old, [*PROMPT, *old], tuple(old)):
        assert PromptLookup([branch]).propose(PROMPT, 3) == [40, 41, 42]
    assert PromptLookup([[*PROMPT, *old], [50, 51]]).propose(PROMPT, 3) == [40, 41, 42]


def test_an_old_path_is_proposed_after_an_edited_question() -> None:
    """The end of the prompt is what the old question ended with; the old answer follows there."""
    ask = [90, 91, 92]  # what a template puts before an answer
    old = [1, 2, 10, 11, 12, *ask, 40, 41, 42, 43, 8, 13, *ask, 60, 61]
    assert PromptLookup([old]).propose([1, 2, 10, 15, 12, *ask], 3) == [40, 41, 42]


def test_the_first_branch_is_followed_then_the_others() -> None:
    """A run that only the second branch has is found there."""
    lookup = PromptLookup([[40, 41, 42, 43], [50, 51, 52, 53, 54]])
    assert lookup.propose([1], 2) == [40, 41]
    lookup.report(2, 0)
    assert lookup.propose([1, 50, 51, 52], 2) == [53, 54]


def test_empty_branches_and_short_prompts_propose_nothing() -> None:
    """Nor does a branch that is the prompt itself, or a limit of 0."""
    several: list[list[list[int]]] = [[], [[]], [[1]], [[], []]]
    for branches in several:
        assert PromptLookup(branches).propose([1], 5) == []
    assert PromptLookup([[1, 2, 3]]).propose([1, 2, 3], 5) == []
    assert PromptLookup([[40, 41]]).propose([1], 0) == []


def test_asking_again_without_new_tokens_changes_nothing() -> None:
    """A step that could not take the draft gets it again."""
    lookup = PromptLookup()
    tokens = [1, 2, 3, 50, 51, 9, 1, 2, 3]
    assert lookup.propose(tokens, 4) == lookup.propose(tokens, 4) == [50, 51, 9, 1]


def test_a_copy_begins_anew() -> None:
    """A sibling has the same branches, and nothing of what the other has said."""
    lookup = PromptLookup([[40, 41, 42, 43]])
    say(lookup, PROMPT, [40, 41, 5, 6, 7])
    assert lookup.copy().propose(PROMPT, 3) == [40, 41, 42]


def test_a_report_that_nothing_was_tried_teaches_nothing() -> None:
    """Drafts that the scheduler drops do not make later ones shorter; wrong ones do."""
    tokens = [1, 2, 3, *range(50, 70), 1, 2, 3]
    dropped, wrong = PromptLookup(), PromptLookup()
    for _ in range(30):
        assert len(dropped.propose(tokens, 31)) == 4
        dropped.report(0, 0)
        wrong.propose(tokens, 31)
        wrong.report(4, 0)
    assert len(wrong.propose(tokens, 31)) < 4


def test_what_never_repeats_gets_few_drafts() -> None:
    """Of random tokens whose runs occur by accident hardly any is guessed in the long run."""
    rng = random.Random(0)
    answer = [rng.randrange(8) for _ in range(2000)]
    steps = say(PromptLookup(), [0, 1, 2], answer)
    proposed = sum(step[0] for step in steps[-500:])
    assert proposed <= 500
    assert sum(step[0] > 0 for step in steps[-500:]) > 0


@given(
    prompt=st.lists(st.integers(0, 4), min_size=1, max_size=30),
    answer=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    branches=st.lists(st.lists(st.integers(0, 4), max_size=30), max_size=3),
    limit=st.integers(0, 40),
)
def test_any_text_gets_drafts_within_the_limit(
    prompt: list[int], answer: list[int], branches: list[list[int]], limit: int
) -> None:
    """Every token is said whatever is proposed, and never more than asked for."""
    steps = say(PromptLookup(branches), prompt, answer, limit)
    assert all(proposed <= limit for proposed, _ in steps)
    assert sum(accepted + 1 for _, accepted in steps) == len(answer) - 1
    assert all(token in range(5) for token in PromptLookup(branches).propose(prompt, limit))
