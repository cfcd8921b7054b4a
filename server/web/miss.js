// Why tokens had to be computed again, in words. Knows the report, no DOM.

/**
 * {headline, explanation, expected, got}, or null where there is nothing to say. place: what to
 * call the message in which the difference lies, such as "your message 2", or null.
 */
export function explainMiss(miss, total, place) {
  if (miss === null) return null;
  const explain = WHY[miss.reason] ?? WHY.unknown;
  const said = explain(miss, place);
  const count = miss.missedTokens;
  const headline =
    said.headline ?? `${number(count)} of ${number(total)} tokens had to be computed again`;
  return {
    headline,
    explanation: said.explanation,
    expected: miss.expectedText,
    got: miss.gotText,
  };
}

/** A count as people write it. */
export function number(value) {
  return value.toLocaleString("en");
}

/** "12 s", "3 min", "2 h". */
export function age(seconds) {
  if (seconds < 1) return "less than a second";
  if (seconds < 100) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

const WHY = {
  cold: () => ({
    headline: "A first turn",
    explanation: "Nothing of this conversation was in the cache yet. The next turn starts from here.",
  }),
  not_restored: () => ({
    explanation: "They are kept, but where they lie it takes longer to read than to compute them again.",
  }),
  partial_page: () => ({
    explanation: "Only whole pages are kept outside the cache's own memory; these are the rest of one.",
  }),
  evicted: (miss) => ({
    explanation:
      "They were in the cache and had to make room for others" +
      (miss.evictedSecondsAgo === null ? "." : ` ${age(miss.evictedSecondsAgo)} ago.`),
  }),
  changed: (miss, place) => ({
    explanation:
      `The prompt is another one from token ${number(miss.index)} on, in ${place ?? "an earlier message"}: ` +
      "its text has changed. A cached token can only be used after the very same tokens.",
  }),
  template: (miss, place) => ({
    explanation:
      `The messages are the same, but the model's chat template writes ${place ?? "an earlier message"} ` +
      `otherwise now that others follow; token ${number(miss.index)} is the first that differs.`,
  }),
  truncated: (miss) => ({
    explanation:
      "The conversation is longer than the model can see, and other turns are left out than before; " +
      `token ${number(miss.index)} is the first that differs.`,
  }),
  expired: () => ({
    explanation: "They were computed before this server was started, and were not kept.",
  }),
  model: () => ({
    explanation: "They were computed by another model, or with another tokenizer or chat template.",
  }),
  namespace: () => ({
    explanation: "They were computed for another key, and what one key has cached serves no other.",
  }),
  unknown: () => ({
    explanation: "The cache did not have them any more; it has no record of why.",
  }),
};
