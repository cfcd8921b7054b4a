"""`LlamaCppSlots`: how llama.cpp's server would cache the same traffic: slots and a host list.

Source: `llama-server` of late 2025, `tools/server/server-context.cpp` (`get_available_slot`) and
`server-task.cpp` (`server_prompt_cache`, ggml-org/llama.cpp#16391), with its defaults:
`--parallel 4`, `--slot-prompt-similarity 0.10` (0.50 in older ones). The mechanism:

- A slot holds one sequence, of at most its share of the context. A request takes the slot whose
  sequence has the longest common prefix with its prompt, if that is more than a tenth of the
  prompt; else the slot that was used longest ago. The slot's sequence is cut at the common
  prefix and continued: what it had beyond is gone, and no two slots share anything.
- The host list: a sequence about to lose more than half is first copied to the list, unless an
  entry contains it; entries that it contains are dropped. Then an entry that beats the slot's
  sequence, both in how much of the prompt it covers and in how much of itself is used (at least
  a quarter), moves from the list into the slot. The oldest entries go beyond the limit.

It knows nothing of our own index.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from radixchat.bench.arm import UNIT_BYTES, common_units, computed_path
from radixchat.bench.trace_item import TraceRequest, TraceSignal

_SIMILARITY = 0.1  # of the prompt, to take the slot with the longest common prefix
_KEEP = 0.5  # of a slot's sequence; if less of it stays it is copied to the host list
_WORTH = 0.25  # of a host entry, to be moved back
_HEADER = 16  # bytes of a sequence that stand for its namespace

# A sequence is its namespace's hash and its units, int32, as one bytes object: whether one
# contains another is then a single comparison at memcmp speed, and the host list makes millions.


def _sequence(namespace: bytes, units: bytes) -> bytes:
    return blake2b(namespace, digest_size=_HEADER).digest() + units


def _length(sequence: bytes) -> int:
    """Units of a sequence; none of the empty one."""
    return max(0, len(sequence) - _HEADER) // UNIT_BYTES


def _common(left: bytes, right: bytes) -> int:
    """Leading units that both have."""
    if left[:_HEADER] != right[:_HEADER]:
        return 0
    return common_units(left[_HEADER:], right[_HEADER:])


@dataclass(slots=True, eq=False)
class _Slot:
    """One sequence on the device, and when a request last ended in it."""

    sequence: bytes = b""
    used: int = -1


class _HostList:
    """Sequences in host memory, oldest first; at least one stays, whatever the limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.num_units = 0
        self._entries: list[bytes] = []

    def save(self, sequence: bytes) -> None:
        """Copy a sequence here, unless an entry contains it; it replaces those it contains."""
        if any(entry.startswith(sequence) for entry in self._entries):
            return
        contained = [entry for entry in self._entries if sequence.startswith(entry)]
        for entry in contained:
            self._entries.remove(entry)
            self.num_units -= _length(entry)
        self._entries.append(sequence)
        self.num_units += _length(sequence)

    def take(self, prompt: bytes, held: bytes) -> bytes | None:
        """Take out the entry that serves `prompt` better than `held`, the best there is."""
        best, longest = None, _common(held, prompt)
        keep = longest / _length(held)
        for entry in self._entries:
            # Nearly all end here: an entry must cover more of the prompt than the best so far.
            if not entry.startswith(prompt[: _HEADER + (longest + 1) * UNIT_BYTES]):
                continue
            common = _common(entry, prompt)
            kept = common / _length(entry)
            if common > longest and kept > keep and kept >= _WORTH:
                best, longest, keep = entry, common, kept
        if best is not None:
            self._entries.remove(best)
            self.num_units -= _length(best)
        return best

    def shrink(self) -> int:
        """Drop the oldest entries beyond the limit; returns how many units they had."""
        before = self.num_units
        while len(self._entries) > 1 and self.num_units > self.limit:
            self.num_units -= _length(self._entries.pop(0))
        return before - self.num_units


class LlamaCppSlots:
    """The slots, which share the capacity in equal parts, and the host list besides.

    host_units: the limit of the host list, 0 for none. It is memory on top of the capacity;
    llama.cpp's own default is 8 GiB, which is a number of tokens only for a given model.
    """

    name = "llamacpp"
    ignores = (
        "requests run one at a time; every slot has a fixed share of the capacity (no unified "
        "buffer); the host list's 8 GiB are taken as one more capacity; no context shift, no "
        "chunk reuse, no checkpoints; it has no namespaces, they are kept apart all the same"
    )
    page_size = 1

    def __init__(self, num_units: int, num_slots: int, host_units: int) -> None:
        if num_slots < 1:
            raise ValueError(f"num_slots is {num_slots}; it must be at least 1")
        self.evicted_units = 0
        self.too_long = 0
        self._context = num_units // num_slots
        self._slots = [_Slot() for _ in range(num_slots)]
        self._host = _HostList(host_units)
        self._now = 0

    @property
    def num_cached_units(self) -> int:
        """Units in the slots, without the host list."""
        return sum(_length(slot.sequence) for slot in self._slots)

    @property
    def num_host_units(self) -> int:
        """Units in the host list."""
        return self._host.num_units

    def serve(self, request: TraceRequest) -> int:
        """Choose a slot, cut its sequence at the common prefix, continue it."""
        if len(request.prompt) > self._context:
            self.too_long += 1
            return 0
        prompt = _sequence(request.namespace, request.prompt.tobytes())
        slot, saved = self._choose(prompt)
        common = min(_common(slot.sequence, prompt), len(request.prompt) - 1)
        if not saved:
            self.evicted_units += _length(slot.sequence) - common
        # A reply that meets the end of the slot's context is cut there.
        path = computed_path(request)[: self._context]
        slot.sequence = _sequence(request.namespace, path.tobytes())
        self._now += 1
        slot.used = self._now
        return common

    def signal(self, signal: TraceSignal) -> None:
        """The engine is not told."""

    def _choose(self, prompt: bytes) -> tuple[_Slot, bool]:
        """The slot to use, and whether what it holds is in the host list as well."""
        similar, longest = None, 0
        for slot in self._slots:
            common = _common(slot.sequence, prompt)
            if common > max(longest, _SIMILARITY * _length(prompt)):
                similar, longest = slot, common
        if similar is not None and longest >= _KEEP * _length(similar.sequence):
            return similar, False
        slot = similar or min(reversed(self._slots), key=lambda slot: slot.used)
        if self._host.limit == 0 or not slot.sequence:
            return slot, False
        self._host.save(slot.sequence)
        restored = self._host.take(prompt, slot.sequence)
        if restored is not None:
            slot.sequence = restored
        self.evicted_units += self._host.shrink()
        return slot, restored is None
