"""`USE_MUTANTS`: seeded bugs of what the index knows beyond its structure.

Who used a page and whether again, branches that were left, purges, events, the ring of recent
evictions, and the marks of other tiers.
"""

from __future__ import annotations

from radixchat.tests.radix import directed_checks as directed
from radixchat.tests.radix.mutant import Mutant

USE_MUTANTS = (
    Mutant("sharing_not_noticed", "use", "            shared = True\n", "            pass\n"),
    Mutant(
        "first_use_is_shared",
        "use",
        "        if prior is not UNUSED and prior.conversation",
        "        if prior.conversation",
    ),
    Mutant("reuse_not_noticed", "use", "self.reused or prior is not UNUSED", "self.reused"),
    Mutant(
        "conversation_not_recorded",
        "tree",
        "        use = Use(self._now, time, conversation, held.end)\n",
        "        use = Use(self._now, time, None, held.end)\n",
    ),
    Mutant(
        "stamps_tie",
        "tree",
        "        self._now += 1\n",
        "        self._now += 1 if self._now == 0 else held.end % 2\n",
    ),
    Mutant(
        "growth_inherits_the_use",
        "tree",
        "            if added and node.use is not UNUSED:\n",
        "            if False:\n",
    ),
    Mutant(
        "head_has_the_use_of_the_tip",
        "tree",
        "        upper.use = next((use for index, use in node.marks if index > last), node.use)\n",
        "        upper.use = node.use\n",
    ),
    Mutant(
        "trimmed_tip_keeps_its_use",
        "tree",
        "            leaf.use = leaf.marks[-1][1]\n",
        "",
    ),
    Mutant(
        "sharing_does_not_protect",
        "node",
        "            if use.conversation != conversation or use.shared:\n",
        "            if use.conversation != conversation:\n",
    ),
    Mutant(
        "superseded_though_shared",
        "tree",
        "            position = max(start, below.only_used_by(conversation, self.page_size))\n"
        "            # A first",
        "            position = max(start, below.start)\n            # A first",
    ),
    Mutant(
        "current_branch_superseded",
        "cache",
        "        if length < min(node.end, len(tokens)):\n",
        "        if False:\n",
        directed.current_branch_is_not_superseded,
    ),
    Mutant(
        "page_superseded_with_what_stays",
        "tree",
        "(position if whole else position + self.page_size - 1)",
        "position",
        directed.page_that_stays_in_part_is_not_superseded,
    ),
    Mutant(
        "head_superseded_too",
        "node",
        "        if (marks[-1][0] if marks else begin) < border:\n",
        "        if False:\n",
        directed.page_that_stays_in_part_is_not_superseded,
    ),
    Mutant(
        "purge_takes_from_another",
        "tree",
        "            position = max(start, leaf.only_used_by(conversation, self.page_size))\n",
        "            position = max(start, leaf.start)\n",
    ),
    Mutant(
        "purge_takes_what_is_held",
        "tree",
        "node.end and not (node.locks or node.children)",
        "node.end and not node.children",
        directed.held_branch_is_not_purged,
    ),
    Mutant(
        "purge_of_the_path_alone",
        "tree",
        "[leaf for leaf in self._below(node) if not leaf.children] if length else []",
        "[]",
    ),
    Mutant(
        "purge_from_the_beginning",
        "tree",
        "self._cut_if_free(node, max(start, node.start))",
        "self._cut_if_free(node, node.start)",
    ),
    Mutant(
        "purged_pages_are_copied",
        "cache",
        "        if self._on_leave is not None and not purged:\n",
        "        if self._on_leave is not None:\n",
    ),
    Mutant(
        "copied_when_gone",
        "tree",
        "        self._on_leave(leaf, end, purged)\n        if end == leaf.start:\n"
        "            self._remove(leaf)\n",
        "        if end != leaf.start:\n            self._on_leave(leaf, end, purged)\n"
        "        if end == leaf.start:\n            self._remove(leaf)\n"
        "            self._on_leave(leaf, end, purged)\n",
    ),
    Mutant("stored_from_too_early", "cache", "prefix, found))", "prefix, known))"),
    Mutant(
        "eviction_logged_once_a_path",
        "cache",
        "        if known and self._events is None and self._on_leave is None:\n",
        "        if known and self._on_leave is None:\n",
        directed.each_eviction_is_logged,
    ),
    Mutant(
        "ring_extended_for_another_leaf",
        "events",
        "        if entry.anchor is not leaf or entry.start != leaf.end:\n",
        "        if entry.start != leaf.end:\n",
        directed.each_evicted_path_is_told,
    ),
    Mutant(
        "ring_extended_after_growth",
        "events",
        "        if entry.anchor is not leaf or entry.start != leaf.end:\n",
        "        if entry.anchor is not leaf:\n",
    ),
    Mutant(
        "ring_entry_for_each_page",
        "events",
        "        entry.anchor = leaf if end > leaf.start else leaf.parent\n",
        "",
        directed.trimmed_path_is_one_entry,
    ),
    Mutant(
        "oldest_eviction_told",
        "events",
        "in reversed(self._entries):",
        "in self._entries:",
        directed.latest_eviction_is_told,
    ),
    Mutant(
        "ring_remembers_the_deleted",
        "cache",
        "        self._recent.forget(namespace, encoded, start)\n",
        "",
        directed.deleted_path_was_not_evicted,
    ),
    Mutant(
        "marks_remember_the_deleted",
        "cache",
        "        self._marks.forget(namespace, encoded, start)\n",
        "",
    ),
    Mutant(
        "marks_before_the_start",
        "tiers",
        "            if index * self._page_size < start:\n",
        "            if False:\n",
    ),
    Mutant("marks_beyond_a_gap", "tiers", "                break\n", "                continue\n"),
    Mutant(
        "marks_of_all_namespaces",
        "tiers",
        "    above = blake2b(namespace, ",
        "    above = blake2b(b'', ",
    ),
    Mutant(
        "slowest_tier_first",
        "tiers",
        "(tiers & -tiers).bit_length()",
        "tiers.bit_length()",
        directed.fastest_tier_is_named,
    ),
    Mutant(
        "copy_that_moved_stays",
        "tiers",
        "                tiers &= ~(1 << source)\n",
        "                pass\n",
    ),
)
