// Markdown inside a paragraph: code, bold, italic, struck text, links, line breaks.
// Text to values; knows no DOM. A mark that finds no partner within BOUND characters is text, so
// the work stays linear however the text was made.

const BOUND = 2000;
const DEPTH = 8;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}]/u;
const MARKS = [
  ["**", "strong"],
  ["__", "strong"],
  ["~~", "del"],
  ["*", "em"],
  ["_", "em"],
];

/**
 * The parts of one paragraph: {type, source, …}, their sources joined are the text.
 * type: "text" (text), "code" (text), "strong", "em", "del" (children), "link" (href, children),
 * "break".
 */
export function parseInline(text, depth = 0) {
  return new InlineParser(text, depth).parse();
}

/** The address, if a browser may be sent there; else null. */
export function safeAddress(text) {
  if (!/^https?:\/\//i.test(text) || /[\s<>"\\^`{|}]/.test(text)) return null;
  try {
    const url = new URL(text);
    const isPlain = url.username === "" && url.password === "";
    return isPlain && (url.protocol === "http:" || url.protocol === "https:") ? url.href : null;
  } catch {
    return null;
  }
}

class InlineParser {
  constructor(text, depth) {
    this.text = text;
    this.depth = depth;
    this.parts = [];
    this.plain = "";
    this.plainFrom = 0;
    this.bracket = -1; // the first "]" from somewhere before on
    this.barren = new Map(); // mark -> the place up to which it has no closing partner
  }

  parse() {
    const { text } = this;
    let at = 0;
    while (at < text.length) {
      const part = this.partAt(at);
      if (part === null) {
        this.plain += text[at];
        at += 1;
      } else if (part.type === "text") {
        this.plain += part.text;
        at = part.end;
      } else {
        this.flush(at);
        this.parts.push({ ...part, source: text.slice(at, part.end) });
        at = part.end;
        this.plainFrom = at;
      }
    }
    this.flush(text.length);
    return this.parts;
  }

  flush(end) {
    if (end > this.plainFrom) {
      const source = this.text.slice(this.plainFrom, end);
      this.parts.push({ type: "text", text: this.plain, source });
    }
    this.plain = "";
    this.plainFrom = end;
  }

  partAt(at) {
    switch (this.text[at]) {
      case "\\":
        return this.escape(at);
      case "\n":
        return { type: "break", end: at + 1 };
      case "`":
        return this.code(at);
      case "*":
      case "_":
      case "~":
        return this.marked(at);
      case "!":
      case "[":
        return this.link(at);
      case "<":
      case "h":
      case "H":
        return this.bareLink(at);
      default:
        return null;
    }
  }

  escape(at) {
    const next = this.text[at + 1];
    if (next === undefined || !PUNCTUATION.test(next)) return null;
    return { type: "text", text: next, end: at + 2 };
  }

  code(at) {
    const { text } = this;
    const length = runLength(text, at);
    const limit = Math.min(text.length, at + BOUND);
    for (let from = at + length; from < limit; ) {
      const found = text.indexOf("`", from);
      if (found < 0 || found >= limit) break;
      const closing = runLength(text, found);
      if (closing === length) {
        const inner = text.slice(at + length, found).replaceAll("\n", " ");
        const padded = /^ .*[^ ].* $|^ [^ ] $/.test(inner);
        return { type: "code", text: padded ? inner.slice(1, -1) : inner, end: found + length };
      }
      from = found + closing;
    }
    return { type: "text", text: text.slice(at, at + length), end: at + length };
  }

  marked(at) {
    if (this.depth >= DEPTH) return null;
    const { text } = this;
    for (const [mark, type] of MARKS) {
      if (!text.startsWith(mark, at)) continue;
      const inside = at + mark.length;
      if (inside >= text.length || /\s/.test(text[inside])) continue;
      if (mark[0] === "_" && at > 0 && WORD.test(text[at - 1])) continue;
      const close = this.closing(mark, inside);
      if (close < 0) continue;
      const children = parseInline(text.slice(inside, close), this.depth + 1);
      return { type, children, end: close + mark.length };
    }
    const length = runLength(text, at);
    return { type: "text", text: text.slice(at, at + length), end: at + length };
  }

  /** Where the mark's partner begins, looking from `from`; −1: there is none near. */
  closing(mark, from) {
    const { text } = this;
    const limit = Math.min(text.length, from + BOUND);
    let at = Math.max(from, this.barren.get(mark) ?? 0);
    while (at < limit) {
      const char = text[at];
      if (char === "\\") {
        at += 2;
      } else if (char === "`") {
        at = this.code(at).end;
      } else if (char !== mark[0]) {
        at += 1;
      } else {
        const length = runLength(text, at);
        const fits = mark.length === 1 ? length % 2 === 1 : length >= 2;
        const end = at + length;
        const closes = at > from && !/\s/.test(text[at - 1]);
        const apart = mark[0] !== "_" || end >= text.length || !WORD.test(text[end]);
        if (fits && closes && apart) return end - mark.length;
        at = end;
      }
    }
    this.barren.set(mark, at);
    return -1;
  }

  link(at) {
    const { text } = this;
    const open = text[at] === "!" ? at + 1 : at;
    if (text[open] !== "[" || this.depth >= DEPTH || !this.hasBracket(open)) return null;
    const close = matching(text, open, "[", "]");
    if (close < 0 || text[close + 1] !== "(") return null;
    const end = matching(text, close + 1, "(", ")");
    if (end < 0) return null;
    const target = text.slice(close + 2, end).trim();
    const address = target.replace(/\s+("[^"]*"|'[^']*')$/, "").replace(/^<(.*)>$/, "$1");
    const href = safeAddress(address);
    if (href === null) return null;
    const label = text.slice(open + 1, close);
    const children = label ? parseInline(label, DEPTH - 1) : [{ type: "text", text: address }];
    return { type: "link", href, children, end: end + 1 };
  }

  /** Whether any "]" is near; looked up once for all of the text that has none. */
  hasBracket(from) {
    if (this.bracket < from) {
      const found = this.text.indexOf("]", from);
      this.bracket = found < 0 ? Infinity : found;
    }
    return this.bracket < from + BOUND;
  }

  bareLink(at) {
    const { text } = this;
    const inBrackets = text[at] === "<";
    const from = inBrackets ? at + 1 : at;
    if (!/^https?:\/\//i.test(text.slice(from, from + 8))) return null;
    if (at > 0 && !inBrackets && WORD.test(text[at - 1])) return null;
    let address = /^[^\s<>"`]*/.exec(text.slice(from, from + BOUND))[0];
    if (inBrackets && text[from + address.length] !== ">") return null;
    if (!inBrackets) address = trimmedAddress(address);
    const href = safeAddress(address);
    if (href === null) return null;
    const end = from + address.length + (inBrackets ? 1 : 0);
    return { type: "link", href, children: [{ type: "text", text: address }], end };
  }
}

function runLength(text, at) {
  let end = at;
  while (text[end] === text[at]) end += 1;
  return end - at;
}

function matching(text, open, opening, closing) {
  const limit = Math.min(text.length, open + BOUND);
  let depth = 0;
  for (let at = open; at < limit; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === opening) depth += 1;
    else if (text[at] === closing && (depth -= 1) === 0) return at;
  }
  return -1;
}

/** Without the punctuation of the sentence that the address stands in. */
function trimmedAddress(address) {
  let surplus = address.split(")").length - address.split("(").length;
  let end = address.length;
  for (; end > 0; end -= 1) {
    const last = address[end - 1];
    if (last === ")" && surplus-- > 0) continue;
    if (last === ")" || !/[.,;:!?'"*_~\]]/.test(last)) break;
  }
  return address.slice(0, end);
}
