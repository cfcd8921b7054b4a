// Markdown as blocks: paragraphs, headings, code, lists, quotes, tables, rules.
// Text to values; knows no DOM and nothing of what stands inside a line. It reads whole lines and
// never looks ahead of a line's end but for blank ones, so a block that another has followed is
// final, however the text goes on. That is what lets an answer be shown while it is written.

const DEPTH = 12;
// Each of these takes time in proportion to the line, whatever the line is.
const FENCE = /^ {0,3}(`{3,}(?!.*`)|~{3,})(.*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t](.*))?$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}>[ ]?(.*)$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:( +)(.*)|[ \t]*)$/;
const DELIMITERS = /^\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?$/;

/**
 * The blocks of a text: {type, end, …}; end: the index of the line after the block's last.
 * type: "paragraph" (text), "heading" (level, text), "code" (language, text), "list" (ordered,
 * start, items: blocks each), "quote" (blocks), "table" (align, head, rows: texts), "rule".
 */
export function parseBlocks(text) {
  return blocksOf(text.split("\n"), 0);
}

function blocksOf(lines, depth) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (isBlank(lines[at])) {
      at += 1;
      continue;
    }
    const block =
      codeAt(lines, at) ??
      headingAt(lines, at) ??
      ruleAt(lines, at) ??
      (depth < DEPTH ? (quoteAt(lines, at, depth) ?? listAt(lines, at, depth)) : null) ??
      tableAt(lines, at) ??
      paragraphAt(lines, at, depth);
    blocks.push(block);
    at = block.end;
  }
  return blocks;
}

function isBlank(line) {
  return /^\s*$/.test(line);
}

function codeAt(lines, from) {
  const opening = FENCE.exec(lines[from]);
  if (opening === null) return null;
  const [, fence, info] = opening;
  const indent = lines[from].indexOf(fence);
  const text = [];
  let at = from + 1;
  for (; at < lines.length; at += 1) {
    const line = lines[at].trim();
    if (line.length >= fence.length && line === fence[0].repeat(line.length)) {
      at += 1;
      break;
    }
    text.push(lines[at].slice(Math.min(indent, /^ */.exec(lines[at])[0].length)));
  }
  const language = info.trim().split(/\s/)[0];
  return { type: "code", language, text: text.join("\n"), end: at };
}

function headingAt(lines, at) {
  const heading = HEADING.exec(lines[at]);
  if (heading === null) return null;
  const [, marks, rest = ""] = heading;
  return { type: "heading", level: marks.length, text: withoutClosingMarks(rest.trim()), end: at + 1 };
}

function withoutClosingMarks(text) {
  let end = text.length;
  while (text[end - 1] === "#") end -= 1;
  return end === 0 || /[ \t]/.test(text[end - 1]) ? text.slice(0, end).trim() : text;
}

function ruleAt(lines, at) {
  return RULE.test(lines[at]) ? { type: "rule", end: at + 1 } : null;
}

function quoteAt(lines, from, depth) {
  if (!QUOTE.test(lines[from])) return null;
  const inner = [];
  let at = from;
  for (; at < lines.length; at += 1) {
    const quoted = QUOTE.exec(lines[at]);
    if (quoted !== null) inner.push(quoted[1]);
    else if (isBlank(lines[at]) || startsBlock(lines, at, depth)) break;
    else inner.push(lines[at]);
  }
  return { type: "quote", blocks: blocksOf(inner, depth + 1), end: at };
}

function listAt(lines, from, depth) {
  const first = ITEM.exec(lines[from]);
  if (first === null || first[1].length > 3) return null;
  const indent = first[1].length;
  const ordered = isNumber(first[2]);
  const items = [];
  let item = null;
  let at = from;
  let blanks = 0;
  for (; at < lines.length; at += 1) {
    const line = lines[at];
    if (isBlank(line)) {
      blanks += 1;
      continue;
    }
    const marker = ITEM.exec(line);
    const spaces = /^ */.exec(line)[0].length;
    if (marker !== null && spaces < indent + 2 && isNumber(marker[2]) === ordered && !RULE.test(line)) {
      item = { lines: [marker[4] ?? ""], indent: contentIndent(marker) };
      items.push(item);
    } else if (spaces >= indent + 2) {
      for (; blanks > 0; blanks -= 1) item.lines.push("");
      item.lines.push(line.slice(Math.min(spaces, item.indent)));
    } else if (blanks === 0 && !startsBlock(lines, at, depth)) {
      item.lines.push(line);
    } else {
      break;
    }
    blanks = 0;
  }
  const start = ordered ? Number.parseInt(first[2], 10) : 1;
  const contents = items.map((each) => blocksOf(each.lines, depth + 1));
  return { type: "list", ordered, start, items: contents, end: at - blanks };
}

function isNumber(marker) {
  return marker.length > 1;
}

function contentIndent([, spaces, marker, gap = " "]) {
  return spaces.length + marker.length + (gap.length > 4 ? 1 : gap.length);
}

function tableAt(lines, from) {
  if (!isTable(lines, from)) return null;
  const head = cells(lines[from]);
  const align = cells(lines[from + 1]).map((cell) => {
    const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
    return right ? (left ? "center" : "right") : "left";
  });
  const rows = [];
  let at = from + 2;
  for (; at < lines.length && !isBlank(lines[at]) && lines[at].includes("|"); at += 1) {
    const row = cells(lines[at]).slice(0, head.length);
    rows.push([...row, ...Array(head.length - row.length).fill("")]);
  }
  return { type: "table", align, head, rows, end: at };
}

function isTable(lines, at) {
  const next = lines[at + 1];
  if (next === undefined || !lines[at].includes("|") || !DELIMITERS.test(next.trim())) return false;
  return cells(lines[at]).length === cells(next).length;
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function paragraphAt(lines, from, depth) {
  const text = [lines[from].trim()];
  let at = from + 1;
  for (; at < lines.length; at += 1) {
    if (isBlank(lines[at]) || startsBlock(lines, at, depth)) break;
    text.push(lines[at].trim());
  }
  return { type: "paragraph", text: text.join("\n"), end: at };
}

/** Whether a line that follows another begins a block of its own. */
function startsBlock(lines, at, depth) {
  const line = lines[at];
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line) || isTable(lines, at)) return true;
  if (depth >= DEPTH) return false;
  if (QUOTE.test(line)) return true;
  const item = ITEM.exec(line);
  return item !== null && item[4] !== undefined && (!isNumber(item[2]) || item[2].length === 2);
}
