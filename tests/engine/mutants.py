"""`MUTANTS`: seeded bugs of scheduling and speculation, and how many schedules find each.

`python -m radixchat.tests.engine.mutants` prints the table. Knows the engine's text, and the fuzz.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from radixchat.engine.tokenizer import Tokenizer
from radixchat.engine.weights import load_checkpoint
from radixchat.tests.engine.mutant import Mutant
from radixchat.tests.engine.schedule import make_schedule
from radixchat.tests.engine.schedule_fuzz import fails
from radixchat.tests.engine.solo_answers import SoloAnswers
from radixchat.tests.tiny_model import tiny_model_directory

MAX_SCHEDULES = 200

MUTANTS = (
    Mutant(
        "a cancelled request keeps its pages",
        "scheduler",
        "            self._release(request)\n        else:\n",
        "            self._running.remove(request)\n        else:\n",
    ),
    Mutant(
        "only running requests are cancelled",
        "scheduler",
        "for request in (*self._running, *self._line):\n            if request.id",
        "for request in self._running:\n            if request.id",
    ),
    Mutant(
        "a deadline ends nobody",
        "scheduler",
        "request.deadline is not None and request.deadline <= now:",
        "request.deadline is not None and request.deadline <= now - 3:",
    ),
    Mutant(
        "siblings are taken in part",
        "scheduler",
        "if len(self._line) + len(requests) > self._plan.max_waiting:",
        "if len(self._line) >= self._plan.max_waiting:",
    ),
    Mutant(
        "a readmission counts as a hit",
        "scheduler",
        "        if request.num_cached is None:\n            request.num_cached",
        "        if True:\n            request.num_cached",
    ),
    Mutant(
        "a token is shared before it is computed",
        "scheduler",
        "request.tokens[: request.num_computed]",
        "request.tokens[: request.num_computed + 1]",
    ),
    Mutant(
        "tenants share a root",
        "scheduler",
        "request.tokens, request.namespace, request.conversation, leave",
        'request.tokens, b"", request.conversation, leave',
    ),
    Mutant(
        "one wrong token of a draft is accepted",
        "scheduler",
        "verified(item.draft, sampled)\n",
        "min(len(item.draft), verified(item.draft, sampled) + 1)\n",
    ),
    Mutant(
        "a draft is computed once more",
        "scheduler",
        "request.num_computed += index > 0",
        "request.num_computed += 0",
    ),
    Mutant(
        "a draft goes on after the end",
        "scheduler",
        "            if self._take(request, sample):\n                return\n",
        "            self._take(request, sample)\n",
    ),
    Mutant(
        "a draft needs no pages",
        "scheduler",
        "if length and self._cache.extend(request.allocation, len(request.tokens) + length):",
        "if length:",
    ),
    Mutant(
        "a draft is beyond the budget",
        "scheduler",
        "budget = min(budget, self._plan.max_draft_tokens)",
        "budget = self._plan.max_draft_tokens",
    ),
    Mutant(
        "text that was held back is lost",
        "scheduler",
        "event.text + request.text.finish()",
        "event.text + request.text.finish()[:0]",
    ),
    Mutant(
        "nobody ages",
        "waiting_line",
        "place.request.overtaken += 1",
        "place.request.overtaken += 0",
    ),
    Mutant(
        "the lowest priority goes first",
        "waiting_line",
        "for priority in sorted(self._lines, reverse=True):\n"
        "            for line in self._lines[priority].values():\n                place =",
        "for priority in sorted(self._lines):\n"
        "            for line in self._lines[priority].values():\n                place =",
    ),
    Mutant(
        "who made room is computed twice",
        "scheduler",
        "        self._step.pop(request, None)\n",
        "",
    ),
    Mutant(
        "a preempted request is forgotten",
        "scheduler",
        "        self._line.put_back(request)\n",
        "",
    ),
    Mutant(
        "a draft is verified one place off",
        "drafting",
        "zip(draft, sampled, strict=False)",
        "zip(draft, sampled[1:], strict=False)",
    ),
    Mutant(
        "noise counts from the step",
        "sample_row",
        "return [SampleRow(params, start + i) for",
        "return [SampleRow(params, request.num_output % 3 + i) for",
    ),
    Mutant(
        "noise is the same for a whole draft",
        "sample_row",
        "return [SampleRow(params, start + i) for",
        "return [SampleRow(params, start) for",
    ),
    Mutant(
        "the past holds what was only guessed",
        "sample_row",
        "history = history.copy() if i == 1 else history",
        "history = history",
    ),
    Mutant(
        "a shared page is not copied",
        "runner",
        "[(copy.source, copy.destination, copy.num_slots) for copy in allocation.copies]",
        "[]",
    ),
    Mutant(
        "a draft is read at its end",
        "batch",
        "range(len(tokens) - len(item.draft) - 1, len(tokens))",
        "[len(tokens) - 1] * (1 + len(item.draft))",
    ),
)
UNCHANGED = Mutant("nothing", "scheduler", "class Scheduler:", "class Scheduler:")


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant: where the schedule failed that found it, "" for none of so many."""

    mutant: Mutant
    found_by: str
    schedules: int


def run(mutant: Mutant, solos: SoloAnswers, max_schedules: int = MAX_SCHEDULES) -> Fate:
    """Play schedules with a mutant until one fails."""
    engine_class = mutant.load()
    for seed in range(max_schedules):
        if place := fails(make_schedule(seed), solos, engine_class):
            return Fate(mutant, place, seed + 1)
    return Fate(mutant, "", max_schedules)


def report(fates: list[Fate]) -> str:
    """A line for each mutant, and how many were found."""
    lines = [
        f"{fate.mutant.name:42} {fate.found_by or 'SURVIVES':50} {fate.schedules:4}"
        for fate in fates
    ]
    found = sum(fate.found_by != "" for fate in fates)
    return "\n".join([*lines, f"found {found} of {len(fates)} within {MAX_SCHEDULES} schedules"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = tiny_model_directory(Path(folder) / "tiny")
        with closing(SoloAnswers(load_checkpoint(path), Tokenizer.from_directory(path))) as table:
            sys.stdout.write(report([run(mutant, table) for mutant in MUTANTS]) + "\n")
