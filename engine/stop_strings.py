"""Finds the first of several texts in a stream of characters, in one dictionary look-up each.

Owns the Aho-Corasick automaton of the stop strings (Aho and Corasick, CACM 1975). Knows characters;
no token, and no answer.

    stops "ab", "bcd"       root ─a─► a ─b─► ab     found
                              └──b─► b ─c─► bc ─d─► bcd   found
                                     ▲
    after "xb" it stands at "b": the longest end of the text with which a stop string begins
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Place:
    """Where a text stands: its longest end with which a stop string begins, `depth` characters.

    found: the stop string that is complete here. links: the next place, by the next character; a
    character that is not there leads to the root.
    """

    depth: int
    found: str | None = None
    links: dict[str, Place] = field(default_factory=dict)


class StopStrings:
    """The texts that end an answer; immutable, and shared by as many answers as like.

    The first one to be complete counts; of several that are complete at the same character, the one
    that began first. So it does not matter in what pieces the text arrives. Stop strings that can
    never be the first, for another one is complete within them, are left out: no text is held back
    for their sake.
    """

    __slots__ = ("root",)

    def __init__(self, texts: Sequence[str]) -> None:
        assert all(texts), "an empty stop string would end every answer at once"
        self.root = Place(0)
        for text in texts:
            if not any(other in text[:-1] for other in texts):
                self._add(text)
        self._link()

    def _add(self, text: str) -> None:
        place = self.root
        for depth, char in enumerate(text, 1):
            place = place.links.setdefault(char, Place(depth))
        place.found = text

    def _link(self) -> None:
        """Let each place go on, where it has no link, as its longest proper end that is a place.

        Breadth first: that end is shorter, so it has all its links already.
        """
        queue = deque((place, self.root) for place in self.root.links.values())
        while queue:
            place, end = queue.popleft()
            assert place.found or not end.found, "a stop string within another; that was left out"
            for char, after in place.links.items():
                queue.append((after, end.links.get(char, self.root)))
            place.links = end.links | place.links
