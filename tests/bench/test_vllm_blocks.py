"""vLLM's blocks: what is found, what is lost, in which order."""

from __future__ import annotations

import random
from collections import OrderedDict

from radixchat.bench.vllm_blocks import VllmBlocks, chained_hashes
from radixchat.tests.bench.traffic import ask, chats, serve_all


def test_only_full_blocks_are_found() -> None:
    """Of 10 equal tokens, blocks of 4, 8 are found; a tail of 2 never."""
    arm = VllmBlocks(64, 4)
    assert serve_all(arm, [range(10), [*range(10), 99]]) == [0, 8]


def test_the_block_of_the_last_token_is_computed_again() -> None:
    """Of 8 tokens cached as a whole only the first block counts; its duplicate takes room."""
    arm = VllmBlocks(64, 4)
    assert serve_all(arm, [range(8), range(8), range(9)]) == [0, 4, 8]
    assert arm.num_cached_units == 12


def test_blocks_filled_by_the_reply_are_found() -> None:
    """3 tokens of prompt and 6 of reply have 8 with K/V: two blocks, the last token has none."""
    arm = VllmBlocks(64, 4)
    arm.serve(ask([1, 2, 3], [4, 5, 6, 7, 8, 9]))
    assert arm.serve(ask([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])) == 8
    arm.serve(ask([21, 22, 23], [24, 25, 26, 27, 28]))
    assert arm.serve(ask([21, 22, 23, 24, 25, 26, 27, 28, 29])) == 4


def test_the_tail_goes_first() -> None:
    """Three blocks are free, tail first: who needs one takes the tail, and the head stays."""
    arm = VllmBlocks(12, 4)
    arm.serve(ask(range(12)))
    arm.serve(ask([50, 51, 52, 53]))
    assert arm.evicted_units == 4
    assert arm.serve(ask([*range(12), 60])) == 0, "four blocks do not fit"
    assert arm.too_long == 1
    assert arm.serve(ask(range(12))) == 8


def test_a_hit_takes_blocks_out_of_the_queue() -> None:
    """What was used again goes after what came in between."""
    arm = VllmBlocks(16, 4)
    first, second = [*range(5)], [*range(20, 25)]
    serve_all(arm, [first, second])
    assert arm.serve(ask(first)) == 4
    arm.serve(ask(range(40, 48)))  # two blocks: a tail without a hash, then of `second`
    assert arm.serve(ask(first)) == 4
    assert arm.serve(ask(second)) == 0


def test_a_block_hangs_on_all_before_it() -> None:
    """The same four tokens after another beginning are another block."""
    arm = VllmBlocks(64, 4)
    assert serve_all(arm, [[1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 2, 3, 4, 5, 6, 7, 8, 9]]) == [0, 0]
    hashes = chained_hashes(b"", bytes(40), 4)
    assert len(hashes) == len(set(hashes)) == 2
    assert not set(hashes) & set(chained_hashes(b"a", bytes(40), 4))


def test_with_blocks_of_one_unit_it_is_lru() -> None:
    """Prompts that end with a unit never seen before: equal to a plain LRU of prefixes."""
    rng = random.Random(5)
    arm, num_units = VllmBlocks(50, 1), 50
    order: OrderedDict[tuple[int, ...], None] = OrderedDict()
    history: list[int] = []
    for number in range(600):
        if rng.random() < 0.3 or len(history) > 30:
            history = [rng.randrange(4)]
        history = [*history, *(rng.randrange(2) for _ in range(rng.randint(0, 5)))]
        prompt = [*history, 1000 + number]
        prefixes = [tuple(prompt[: end + 1]) for end in range(len(prompt))]
        found = 0
        while prefixes[found] in order:
            found += 1
        for prefix in prefixes[:found]:
            del order[prefix]
        # What it did not find it computes anew, into blocks from the front of the queue.
        while len(order) + len(prefixes) > num_units:
            order.popitem(last=False)
        assert not any(prefix in order for prefix in prefixes), "a tail without its head"
        for prefix in reversed(prefixes):
            order[prefix] = None
        assert arm.serve(ask(prompt)) == found
    assert arm.num_cached_units == len(order) == num_units


def test_every_block_is_in_the_queue_between_requests() -> None:
    """None is lost or twice there, and the map leads to exactly the cached ones."""
    arm = VllmBlocks(120, 4)
    for request in chats(seed=7, num_requests=300):
        arm.serve(request)
        assert arm._unused + len(arm._free) == 30
        cached = [block for same in arm._cached.values() for block in same]
        assert len(cached) == len(set(cached)) == arm.num_cached_units // 4
        assert set(cached) == {block for block in arm._free if block.key}
        assert all(block.key == key for key, same in arm._cached.items() for block in same)
