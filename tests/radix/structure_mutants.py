"""`STRUCTURE_MUTANTS`: seeded bugs of what holds the index together.

A reference, a lock, a split, a merge, a page table, a copy, an order. The first twelve are those
that `test_cache_machine.py` lists.
"""

from __future__ import annotations

from radixchat.tests.radix import directed_checks as directed
from radixchat.tests.radix.mutant import Mutant

STRUCTURE_MUTANTS = (
    Mutant(
        "split_without_reference",
        "tree",
        "            self._pool.hold(node.pages[:1])\n",
        "            pass\n",
    ),
    Mutant(
        "free_before_remap",
        "cache",
        "        begin = known // self.page_size\n",
        "        begin = known // self.page_size\n        self._pool.drop(private)\n"
        "        private = []\n",
    ),
    Mutant(
        "source_not_locked",
        "tree",
        "        self._lock(node, None)\n",
        "        self._lock(node.parent or node if length % self.page_size else node, None)\n",
    ),
    Mutant(
        "locked_leaf_evictable",
        "tree",
        "        while node is not None and node.locks == 0:\n            parent = node.parent\n",
        "        while node is not None:\n            parent = node.parent\n",
    ),
    Mutant("match_not_capped", "cache", "[: (len(tokens) - leave) * TOKEN_BYTES]", ""),
    Mutant(
        "partial_page_replaced",
        "cache",
        "        num_whole = found // self.page_size\n",
        "        num_whole = -(-found // self.page_size)\n",
    ),
    Mutant(
        "merge_while_held",
        "tree",
        "        if leaf.parent.locks == 0:\n",
        "        if leaf.parent.locks <= (leaf.parent.parent is not None):\n",
    ),
    Mutant(
        "one_page_too_many",
        "tree",
        "            self._trim(leaf, missing)\n",
        "            self._trim(leaf, missing + 1)\n",
    ),
    Mutant(
        "private_pages_kept",
        "cache",
        "        self._pool.drop(allocation.pages[allocation.num_shared :])\n",
        "",
    ),
    Mutant("copy_forgotten", "cache", "            allocation.copies.append(copy)\n", ""),
    Mutant(
        "shallow_page_wins",
        "tree",
        "                last = low\n",
        "                last = max(first, -(-above.start // self.page_size))\n",
    ),
    Mutant(
        "stale_entry_counts",
        "eviction",
        "            if leaf.ticket == ticket:\n",
        "            if leaf.ticket != 0:\n",
        directed.leaf_that_was_used_again_stays,
    ),
    # Not in that list from here on.
    Mutant(
        "copy_one_slot_short",
        "cache",
        "PageCopy(node.pages[-1], pages[num_matched], num_slots)",
        "PageCopy(node.pages[-1], pages[num_matched], num_slots - 1)",
    ),
    Mutant(
        "copy_from_parent",
        "cache",
        "PageCopy(node.pages[-1], pages",
        "PageCopy((getattr(node.parent, 'pages', None) or node.pages)[-1], pages",
    ),
    Mutant(
        "table_not_rewritten",
        "cache",
        "allocation.pages[begin:num_whole] = self._tree.page_table(node, begin, num_whole)",
        "pass",
    ),
    Mutant(
        "found_path_not_locked",
        "tree",
        "        self._lock(node, held)\n        return node, length\n",
        "        return node, length\n",
    ),
    Mutant(
        "lock_not_moved",
        "cache",
        "        allocation.node = node\n        allocation.num_committed",
        "        allocation.num_committed",
    ),
    Mutant(
        "matched_pages_counted_as_room",
        "tree",
        "self.page_size + pinned <= room:",
        "self.page_size <= room:",
    ),
    Mutant(
        "room_counted_too_low",
        "tree",
        "self.page_size + pinned <= room:",
        "self.page_size + pinned < room:",
    ),
    Mutant(
        "refusal_after_split",
        "cache",
        "        usable = self._tree.longest_fit(*found, num_pages, spare)\n",
        "        self._tree._split(*found)\n"
        "        usable = self._tree.longest_fit(*found, num_pages, spare)\n",
    ),
    Mutant(
        "match_never_cut",
        "tree",
        "            length = (length - 1) // self.page_size * self.page_size\n",
        "            return None\n",
    ),
    Mutant(
        "room_given_up_early",
        "tree",
        "num_pages - -(-held // self.page_size) > room:",
        "num_pages - held // self.page_size > room:",
        directed.match_is_cut_until_it_fits,
    ),
    Mutant(
        "shared_tail_freed",
        "cache",
        "        num_shared = max(num_shared, allocation.num_shared)\n",
        "",
    ),
    Mutant(
        "table_rounded_down",
        "cache",
        "        needed = -(-num_tokens // self.page_size) - len(allocation.pages)\n",
        "        needed = num_tokens // self.page_size - len(allocation.pages)\n",
    ),
    Mutant(
        "first_page_counted_twice",
        "tree",
        "            if above.pages[-1] == node.pages[0]:\n",
        "            if False:\n",
    ),
    Mutant(
        "borrowed_only_from_parent",
        "tree",
        "                return True\n            above = above.parent\n",
        "                return True\n            above = None\n",
        directed.page_of_the_grandparent_is_counted_once,
    ),
    Mutant(
        "not_touched",
        "tree",
        "            use = node.use_again(use)\n",
        "            use = use if node.use.stamp else node.use_again(use)\n",
    ),
    Mutant(
        "suffix_refreshed",
        "tree",
        "            lower.marks = (*upper.marks, (seam, upper.use), *below)\n",
        "            lower.use, lower.marks = upper.use, upper.marks\n",
    ),
    Mutant(
        "head_forgets_its_use",
        "tree",
        "            lower.marks = (*upper.marks, (seam, upper.use), *below)\n",
        "            lower.marks = tuple(below)\n",
    ),
    Mutant(
        "mark_without_page",
        "tree",
        "        if seam > (lower.end - 1) // self.page_size:\n",
        "        if False:\n",
    ),
    Mutant(
        "grows_others_page",
        "tree",
        "        if alone and (not partial or node.pages[-1] == pages[0]):\n",
        "        if alone:\n",
    ),
    Mutant("grows_held_node", "tree", "node.locks == 1 and not", "node.locks >= 1 and not"),
    Mutant(
        "grows_inner_node",
        "tree",
        "node.locks == 1 and not node.children and",
        "node.locks == 1 and",
    ),
    Mutant(
        "one_root_for_all",
        "tree",
        "descend(self.roots.get(namespace)",
        "descend(self.roots.get(b'')",
    ),
    Mutant(
        "empty_root_stays",
        "tree",
        "                del self.roots[node.namespace]\n",
        "                pass\n",
    ),
    Mutant(
        "chain_not_merged",
        "tree",
        "            self._merge(node)\n",
        "            pass\n",
    ),
    Mutant(
        "merge_keeps_upper_page",
        "tree",
        "            self.num_evictable -= self._pool.drop([upper.pages.pop()])\n",
        "            self.num_evictable -= self._pool.drop([lower.pages.pop(0)])\n",
    ),
    Mutant(
        "merge_without_drop",
        "tree",
        "            self.num_evictable -= self._pool.drop([upper.pages.pop()])\n",
        "            upper.pages.pop()\n",
    ),
    Mutant(
        "last_difference_missed",
        "node",
        "    return index if differs[index] else longest\n",
        "    return index\n",
    ),
    Mutant(
        "child_under_old_token",
        "tree",
        "        upper.children[node.first] = node\n",
        "        upper.children[upper.first] = node\n",
    ),
    Mutant(
        "locks_lost_on_split",
        "tree",
        "        upper.locks = node.locks\n",
        "        upper.locks = 0\n",
    ),
    Mutant(
        "parent_not_a_leaf_again",
        "tree",
        "        elif not node.children:\n            self.policy.add(node)\n",
        "        elif not node.children and node.ticket:\n            self.policy.add(node)\n",
    ),
)
