"""Pages that are deleted because somebody wants them gone: unreadable at once, then overwritten.

Deleted text must not be had from what it was computed to. Knows no quota.
"""

from __future__ import annotations

from collections.abc import Sequence

from radixchat.engine.tiers.disk_lock import folder_lock
from radixchat.engine.tiers.disk_pages import DiskPages
from radixchat.engine.tiers.disk_rows import all_fingerprints, free, hide
from radixchat.engine.tiers.disk_space import remove_empty_segments

_CHUNK = 256


def delete_pages(pages: DiskPages, which: Sequence[bytes] | bytes) -> int:
    """Delete pages by their names, or all of a namespace; how many there were. Raises FAILURES.

    Those of other kinds too: the same text may have been computed at another precision.
    """
    if isinstance(which, bytes):
        count = _delete(pages, "namespace = ?", [which])
    else:
        count = sum(
            _delete_named(pages, which[start : start + _CHUNK])
            for start in range(0, len(which), _CHUNK)
        )
    if count:
        with folder_lock(pages.folder), pages.index.writing() as db:
            remove_empty_segments(db, pages.folder)
    return count


def _delete_named(pages: DiskPages, digests: Sequence[bytes]) -> int:
    with pages.index.connection() as db:
        kinds = ",".join(map(str, map(int, all_fingerprints(db))))
    marks = ",".join("?" * len(digests))
    return _delete(pages, f"fingerprint IN ({kinds}) AND digest IN ({marks})", digests)


def _delete(pages: DiskPages, condition: str, values: Sequence[bytes]) -> int:
    count, token = 0, pages.owner.token
    while True:
        with pages.index.writing() as db:
            places = hide(db, token, condition, values, _CHUNK)
        if not places:
            return count
        try:
            with pages.index.connection() as db:
                pages.erase(db, places)
        except FileNotFoundError:
            pass  # what is not there needs no erasing
        finally:
            with pages.index.writing() as db:
                free(db, places, token)
        count += len(places)
