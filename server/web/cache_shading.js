// A report's segments, by message: what of each message's tokens came from where. No DOM.

/** What a state is called after "tokens": of a turn that was, and of one that would be. */
export const CAME = {
  memory: "from memory",
  host: "from host memory",
  disk: "from disk",
  store: "from a store",
  computed: "computed now",
  generated: "generated",
};
export const WOULD_COME = {
  memory: "in memory",
  host: "in host memory",
  disk: "on disk",
  store: "in a store",
  computed: "to be computed",
};

const OTHER = "template";

/** Map of message id (null: the template's own) -> [{state, tokens}], in order, merged. */
export function shares(report) {
  const all = new Map();
  for (const { start, end, state, message } of report?.segments ?? []) {
    const runs = all.get(message) ?? [];
    const last = runs.at(-1);
    if (last?.state === state) last.tokens += end - start;
    else runs.push({ state, tokens: end - start });
    all.set(message, runs);
  }
  return all;
}

/** Tokens by state of a whole report, in the order of CAME. */
export function totals(report) {
  const sums = new Map();
  for (const { start, end, state } of report.segments) {
    sums.set(state, (sums.get(state) ?? 0) + end - start);
  }
  const known = Object.keys(CAME).filter((state) => sums.has(state));
  const others = [...sums.keys()].filter((state) => !known.includes(state));
  return [...known, ...others].map((state) => ({ state, tokens: sums.get(state) }));
}

/** "31 tokens from memory, 4 computed now"; words: CAME or WOULD_COME. */
export function describe(runs, words) {
  const sums = new Map();
  for (const { state, tokens } of runs) sums.set(state, (sums.get(state) ?? 0) + tokens);
  const parts = [...sums].map(([state, tokens], at) => {
    const unit = at > 0 ? "" : tokens === 1 ? " token" : " tokens";
    return `${tokens.toLocaleString("en")}${unit} ${words[state] ?? state}`;
  });
  return parts.join(", ");
}

/** The class that colours a state. */
export function stateClass(state) {
  return `state-${state in CAME ? state : OTHER}`;
}
