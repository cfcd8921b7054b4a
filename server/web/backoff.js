// How long to wait before the next try: longer each time, never long, never in step with others.

const FIRST_MS = 500;
const LONGEST_MS = 8000;

/** Milliseconds before try `attempt` (0 is the first); random: 0 ≤ r < 1. */
export function delay(attempt, random = Math.random()) {
  const longest = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt, 10));
  return Math.round(longest * (0.75 + 0.25 * random));
}
