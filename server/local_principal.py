"""For whom a service in a process of its own answers: whoever started it. Knows no key."""

from __future__ import annotations

LOCAL_PRINCIPAL = "local"
