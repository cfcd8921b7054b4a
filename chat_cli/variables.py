"""Environment variables that were meant to be a flag's, and are none. Knows no flag by itself."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator

from radixchat.chat_cli.flag import PREFIX

# Below it, names that are somebody else's, such as RADIXCHAT_CACHE_DIR, would look like flags.
_LIKENESS = 0.8


def misspelt(given: Collection[str], known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Each variable that is nobody's, with the known one that it looks like."""
    names = {variable.removeprefix(PREFIX): variable for variable in known}
    for variable in sorted(given):
        if variable.startswith(PREFIX) and variable not in known:
            near = difflib.get_close_matches(variable.removeprefix(PREFIX), names, 1, _LIKENESS)
            if near:
                yield variable, names[near[0]]
