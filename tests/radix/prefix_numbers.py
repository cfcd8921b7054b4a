"""`PrefixNumbers`: a number for each token prefix that a test has met: sets can hold them.

The number of a prefix stands for its namespace and every token of it. Knows no cache.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

Above = int | bytes  # a prefix, or the namespace in which a path begins


class PrefixNumbers:
    """Numbers from 0, in order of appearance; the same prefix gets the same one again."""

    def __init__(self) -> None:
        self.parents: dict[int, Above] = {}
        self._numbers: dict[tuple[Above, int], int] = {}
        self._known: dict[tuple[Above, bytes], list[int]] = {}  # most runs are asked for again

    def of(self, tokens: Sequence[int], above: Above) -> list[int]:
        """One number for each prefix that ends in `tokens`; the list is not to be changed."""
        return self.of_encoded(array("i", tokens).tobytes(), above)

    def of_encoded(self, tokens: bytes, above: Above) -> list[int]:
        """The same for int32 tokens as bytes."""
        known = self._known.get((above, tokens))
        if known is None:
            known = self._known[above, tokens] = []
            end = above
            for token in memoryview(tokens).cast("i"):
                number = self._numbers.setdefault((end, token), len(self._numbers))
                self.parents[number] = end
                known.append(number)
                end = number
        return known
