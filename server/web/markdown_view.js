// An answer's text as nodes, while it grows: what is final is never touched again, and of the open
// end only the nodes that change. Owns the children of one element; knows no answer and no socket.

import { parseBlocks } from "./block_markdown.js";
import { element } from "./dom.js";
import { parseInline } from "./inline_markdown.js";

const LETTERS_OF_A_LANGUAGE = /^[\w+#.-]{1,24}$/;

export class MarkdownView {
  #root;
  #open = []; // what of the end may still change: {block, node, …}
  #tail = ""; // its text
  #onCopy;

  /** onCopy(text): what a code block's button does. */
  constructor(root, onCopy) {
    this.#root = root;
    this.#onCopy = onCopy;
  }

  append(text) {
    this.#tail += text;
    this.#show();
  }

  replace(text) {
    this.#root.replaceChildren();
    this.#open = [];
    this.#tail = text;
    this.#show();
  }

  #show() {
    const blocks = parseBlocks(this.#tail);
    patchBlocks(this.#root, this.#open, blocks, this.#onCopy);
    this.#settle();
  }

  /** Lets go of every block that another one follows in whole lines. */
  #settle() {
    const newline = this.#tail.lastIndexOf("\n");
    if (newline < 0 || this.#open.length < 2) return;
    const whole = parseBlocks(this.#tail.slice(0, newline));
    if (whole.length < 2) return;
    const settled = whole.length - 1;
    const lines = this.#tail.split("\n");
    this.#tail = lines.slice(whole[settled - 1].end).join("\n");
    this.#open.splice(0, settled);
  }
}

/** Makes the nodes of `shown`, the last children of `parent`, those of `blocks`. */
function patchBlocks(parent, shown, blocks, onCopy) {
  blocks.forEach((block, place) => {
    const entry = shown[place];
    if (entry !== undefined && alike(entry.block, block)) {
      PATCH[block.type]?.(entry, block, onCopy);
      entry.block = block;
      return;
    }
    const made = MAKE[block.type](block, onCopy);
    if (entry === undefined) parent.append(made.node);
    else entry.node.replaceWith(made.node);
    shown[place] = { ...made, block };
  });
  for (const entry of shown.splice(blocks.length)) entry.node.remove();
}

function alike(old, block) {
  return (
    old.type === block.type &&
    old.level === block.level &&
    old.language === block.language &&
    old.ordered === block.ordered &&
    old.start === block.start &&
    old.align?.join() === block.align?.join()
  );
}

const MAKE = {
  paragraph: (block) => makeText(element("p"), block),
  heading: (block) => makeText(element(`h${Math.min(block.level + 2, 6)}`), block),
  rule: () => ({ node: element("hr") }),
  code: makeCode,
  quote(block, onCopy) {
    const entry = { node: element("blockquote"), inner: [] };
    patchBlocks(entry.node, entry.inner, block.blocks, onCopy);
    return entry;
  },
  list(block, onCopy) {
    const node = block.ordered
      ? element("ol", { start: block.start === 1 ? null : block.start })
      : element("ul");
    const entry = { node, items: [] };
    PATCH.list(entry, block, onCopy);
    return entry;
  },
  table(block) {
    const head = element("tr", {}, ...block.head.map((text, at) => cell("th", text, block.align[at])));
    const body = element("tbody");
    const table = element("table", {}, element("thead", {}, head), body);
    const node = element("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Table" }, table);
    const entry = { node, body, block: { ...block, rows: [] } };
    PATCH.table(entry, block);
    return entry;
  },
};

const PATCH = {
  paragraph: patchText,
  heading: patchText,
  code(entry, block) {
    const { data } = entry.text;
    if (block.text === data) return;
    if (block.text.startsWith(data)) entry.text.appendData(block.text.slice(data.length));
    else entry.text.data = block.text;
  },
  quote: (entry, block, onCopy) => patchBlocks(entry.node, entry.inner, block.blocks, onCopy),
  list(entry, block, onCopy) {
    block.items.forEach((blocks, at) => {
      if (entry.items[at] === undefined) {
        entry.items[at] = { node: element("li"), inner: [] };
        entry.node.append(entry.items[at].node);
      }
      patchBlocks(entry.items[at].node, entry.items[at].inner, blocks, onCopy);
    });
    for (const item of entry.items.splice(block.items.length)) item.node.remove();
  },
  table(entry, block) {
    if (block.head.join("\n") !== entry.block.head.join("\n")) {
      const cells = block.head.map((text, at) => cell("th", text, block.align[at]));
      entry.node.querySelector("thead tr").replaceChildren(...cells);
    }
    block.rows.forEach((row, at) => {
      if (entry.block.rows[at]?.join("\n") === row.join("\n")) return;
      const made = element("tr", {}, ...row.map((text, column) => cell("td", text, block.align[column])));
      if (entry.body.rows[at] === undefined) entry.body.append(made);
      else entry.body.rows[at].replaceWith(made);
    });
    while (entry.body.rows.length > block.rows.length) entry.body.lastChild.remove();
  },
};

function makeCode(block, onCopy) {
  const text = document.createTextNode(block.text);
  const code = element("code", {}, text);
  const name = LETTERS_OF_A_LANGUAGE.test(block.language) ? block.language : "";
  const copy = element("button", { type: "button", click: () => onCopy(text.data) }, "Copy");
  const head = element("div", { class: "code-head" }, element("span", {}, name), copy);
  const pre = element("pre", { tabindex: "0", role: "group", "aria-label": `Code ${name}`.trim() }, code);
  return { node: element("div", { class: "code" }, head, pre), text };
}

function cell(tag, text, align) {
  return element(tag, { class: `align-${align}` }, ...parseInline(text).map(inlineNode));
}

function makeText(node, block) {
  const entry = { node, parts: [], block: { text: null } };
  patchText(entry, block);
  return entry;
}

/** Keeps the nodes of the leading parts that are the same; a text that goes on is appended to. */
function patchText(entry, block) {
  if (block.text === entry.block.text) return;
  const parts = parseInline(block.text);
  const { node, parts: old } = entry;
  let same = 0;
  while (same < parts.length && same < old.length && isSame(old[same], parts[same])) same += 1;
  const [before, after] = [old[same], parts[same]];
  if (before?.type === "text" && after?.type === "text" && after.text.startsWith(before.text)) {
    node.childNodes[same].appendData(after.text.slice(before.text.length));
    same += 1;
  }
  while (node.childNodes.length > same) node.lastChild.remove();
  node.append(...parts.slice(same).map(inlineNode));
  entry.parts = parts;
}

function isSame(one, other) {
  return one.type === other.type && one.source === other.source;
}

function inlineNode(part) {
  switch (part.type) {
    case "text":
      return document.createTextNode(part.text);
    case "break":
      return element("br");
    case "code":
      return element("code", {}, part.text);
    case "link": {
      const safety = { rel: "noopener noreferrer nofollow", target: "_blank" };
      return element("a", { href: part.href, ...safety }, ...part.children.map(inlineNode));
    }
    default:
      return element(part.type, {}, ...part.children.map(inlineNode));
  }
}
