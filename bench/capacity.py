"""How large a cache is: numbers of tokens as people write them, read and shown.

Knows no cache. Powers are decimal: 512k is 512,000. No limit is None, written `inf`.
"""

from __future__ import annotations

import re
from decimal import Decimal

_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_WRITTEN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([kmg]?)", re.IGNORECASE)
DEFAULT_SHARES = (0.05, 0.1, 0.2, 0.5)
"""The capacities looked at where none is asked for, as shares of a trace's distinct tokens."""


def parse_tokens(text: str) -> int | None:
    """512k, 1M, 2.5M, 4096 as a number of tokens; inf as None.

    Raises ValueError, with the text, for anything else and for less than one token.
    """
    if text.strip().lower() == "inf":
        return None
    written = _WRITTEN.fullmatch(text.strip())
    if written is None:
        raise ValueError(f"{text!r} is no number of tokens; write 512k, 1M, 2.5M, 4096 or inf")
    tokens = Decimal(written[1]) * _SUFFIXES[written[2].lower()]
    if tokens < 1 or tokens != int(tokens):
        raise ValueError(f"{text!r} is {tokens:f} tokens; it must be a whole number, at least 1")
    return int(tokens)


def show_tokens(tokens: int | None) -> str:
    """A number of tokens in at most six characters: 2.56M, 144.8M, 512k, and whole below 10k; inf.

    What has a suffix is rounded to four digits.
    """
    if tokens is None:
        return "inf"
    if tokens < 10_000:
        return f"{tokens:,}"
    for suffix, size in (("", 1), ("k", 10**3), ("M", 10**6), ("G", 10**9)):
        # 999,950 shows as 1M, not as 1000k.
        if float(f"{tokens / size:.4g}") < 1000 or suffix == "G":
            return f"{float(f'{tokens / size:.4g}'):.10g}{suffix}"
    raise AssertionError(tokens)


def default_capacities(distinct_tokens: int, least: int, roomy: int) -> list[int | None]:
    """DEFAULT_SHARES of a trace's distinct tokens, to two digits, none below `least`; ascending.

    roomy: what the largest request needs; it comes along where all the others are smaller.
    """
    shares = (float(f"{distinct_tokens * share:.2g}") for share in DEFAULT_SHARES)
    sizes = {max(least, int(share)) for share in shares}
    return [*sorted(sizes | {max(roomy, *sizes)})]
