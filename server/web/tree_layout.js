// Where the nodes of the radix tree go in its picture: along the tokens from left to right, each
// branch in a row of its own, the first one in its parent's. Numbers in, numbers out; no DOM.

/**
 * {bars: {node, from, to, row, isOnly}, links: {at, from, to, onPath}, rows, length}. from, to:
 * tokens; isOnly: its parent has no other child. links: where a node's row leaves its parent's, at
 * a token.
 * nodes: parents before children, as the server sends them.
 */
export function layout(nodes) {
  const children = new Map();
  for (const node of nodes) {
    const beside = children.get(node.parent) ?? [];
    beside.push(node);
    children.set(node.parent, beside);
  }
  const bars = [];
  const links = [];
  const places = new Map();
  let rows = 0;
  let length = 0;
  // A stack, no recursion: a conversation's path may have as many nodes as it has turns.
  const waiting = [...(children.get(null) ?? [])].reverse().map((node) => ({ node, row: null }));
  while (waiting.length > 0) {
    const { node, row: given } = waiting.pop();
    const row = given ?? rows++;
    const isOnly = children.get(node.parent).length === 1;
    const bar = { node, from: node.start, to: node.start + node.tokens, row, isOnly };
    bars.push(bar);
    places.set(node.id, bar);
    length = Math.max(length, bar.to);
    const parent = places.get(node.parent);
    if (parent !== undefined && parent.row !== row) {
      links.push({ at: node.start, from: parent.row, to: row, onPath: node.onPath });
    }
    const below = children.get(node.id) ?? [];
    // Popped in order: the first child goes on in this row, the others find new ones below it.
    for (let at = below.length - 1; at >= 0; at -= 1) {
      waiting.push({ node: below[at], row: at === 0 ? row : null });
    }
  }
  return { bars, links, rows, length };
}

/** How long it has not been in use, as a word: "now", "warm", "cool", "cold". */
export function warmth({ locked, idle }) {
  if (locked || idle < 10) return "now";
  if (idle < 120) return "warm";
  return idle < 1800 ? "cool" : "cold";
}
