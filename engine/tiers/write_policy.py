"""When a page goes to a store: names only.

write_back: when it has to leave memory, and when the engine is closed. write_through_selective:
also when it was asked for a second time.
"""

from __future__ import annotations

WRITE_POLICIES = ("write_back", "write_through_selective")
