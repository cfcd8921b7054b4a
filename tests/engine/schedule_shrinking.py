"""`shrink`: the smallest schedule that still fails. Knows no engine, only who fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from radixchat.tests.engine.schedule import Ask, Below, Schedule, Settings

_PLAIN_ASK, _PLAIN_SETTINGS, _PLAIN_BELOW = Ask(), Settings(), Below()


def shrink(schedule: Schedule, fails: Callable[[Schedule], bool], tries: int = 600) -> Schedule:
    """Leave out asks and make what is left plain, greedily, as long as it fails."""
    smaller = True
    while smaller and tries > 0:
        smaller = False
        for candidate in _smaller(schedule):
            tries -= 1
            if fails(candidate):
                schedule, smaller = candidate, True
                break
            if tries <= 0:
                break
    return schedule


def _smaller(schedule: Schedule) -> Iterator[Schedule]:
    asks = schedule.asks
    for size in sorted({len(asks) // 2, len(asks) // 4, 1} - {0}, reverse=True):
        for start in range(0, len(asks), size):
            yield replace(schedule, asks=asks[:start] + asks[start + size :])
    for index, ask in enumerate(asks):
        for plainer in _plainer(ask):
            yield replace(schedule, asks=(*asks[:index], plainer, *asks[index + 1 :]))
    for field in fields(Settings):
        value = getattr(_PLAIN_SETTINGS, field.name)
        if value != getattr(schedule.settings, field.name):
            yield replace(schedule, settings=replace(schedule.settings, **{field.name: value}))
    if schedule.below is not None:
        yield replace(schedule, below=None)
        for field in fields(Below):
            value = getattr(_PLAIN_BELOW, field.name)
            if value != getattr(schedule.below, field.name):
                yield replace(schedule, below=replace(schedule.below, **{field.name: value}))


def _plainer(ask: Ask) -> Iterator[Ask]:
    for field in fields(Ask):
        value, plain = getattr(ask, field.name), getattr(_PLAIN_ASK, field.name)
        if field.name == "max_tokens":
            if value > 1:
                yield replace(ask, max_tokens=value // 2)
            continue
        if value == plain:
            continue
        candidates: list[Any] = [plain]
        if type(value) is int and abs(value) > 1:
            candidates.append(value // 2)
        for candidate in candidates:
            yield replace(ask, **{field.name: candidate})
