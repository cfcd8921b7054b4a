// What a conversation is called where it is shown: its title, or else how it begins. Knows no DOM.

const MAX_LETTERS = 60;

/** One line of at most sixty letters. */
export function titleOf(text) {
  const line = text.trim().replace(/\s+/g, " ").replace(/\p{Cc}/gu, "\uFFFD");
  const letters = [...line];
  return letters.length <= MAX_LETTERS ? line : `${letters.slice(0, MAX_LETTERS - 1).join("").trim()}…`;
}

/** session: {title, opening}. */
export function headingOf({ title, opening }) {
  return title || titleOf(opening) || "Untitled";
}
