// The picture of the radix tree, and the same in words. Owns the nodes below one element; knows no
// socket: it is given the tree.

import { element, shape } from "./dom.js";
import { age, number } from "./miss.js";
import { layout, warmth } from "./tree_layout.js";

const ROW = 16;
const BAR = 10;
const MARGIN = 6;
const THINNEST = 3;
const DEPTH_IN_WORDS = 12;
const TIERS = { device: "in memory", memory: "in memory", host: "in host memory", disk: "on disk" };

export class TreeView {
  #picture = element("div", { class: "picture" });
  #words = element("div", { class: "words" });
  #said = element("p", { class: "said" });
  #isOpen = false;

  constructor(root) {
    const details = element("details", {}, element("summary", {}, "The tree in words"), this.#words);
    details.addEventListener("toggle", () => {
      this.#isOpen = details.open;
      this.#tell();
    });
    root.replaceChildren(this.#picture, this.#said, details);
    this.width = 320;
    new ResizeObserver(([entry]) => this.#resize(entry.contentRect.width)).observe(this.#picture);
  }

  show(tree) {
    this.tree = tree;
    this.plan = layout(tree.nodes);
    this.#draw();
    this.#tell();
  }

  #resize(width) {
    if (Math.abs(width - this.width) < 1 || width === 0) return;
    this.width = width;
    if (this.tree) this.#draw();
  }

  #draw() {
    const { plan, tree, width } = this;
    const { bars, links, rows } = plan;
    const length = Math.max(plan.length, 1);
    const x = (token) => MARGIN + ((width - 2 * MARGIN) * token) / length;
    const y = (row) => MARGIN + row * ROW + ROW / 2;
    const height = Math.max(rows, 1) * ROW + 2 * MARGIN;
    const drawn = [
      ...links.map((link) => linkOf(link, x, y)),
      ...bars.map((bar) => barOf(bar, x, y)),
    ];
    const summary = summaryOf(tree, plan);
    const svg = shape(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": summary },
      ...drawn,
    );
    this.#picture.replaceChildren(svg);
    this.#said.textContent = summary;
  }

  /** Built only while somebody reads it. */
  #tell() {
    if (!this.#isOpen || !this.tree) return;
    const top = element("ul", {});
    const places = new Map([[null, { item: null, list: top, depth: 0 }]]);
    for (const { node, isOnly } of this.plan.bars) {
      const parent = places.get(node.parent);
      const item = element("li", {}, describeNode(node));
      // One after the other is no branch: only where paths part does a list begin.
      const goesOn = isOnly || parent.item === null || parent.depth >= DEPTH_IN_WORDS;
      if (!goesOn) parent.below ??= parent.item.appendChild(element("ul", {}));
      const list = goesOn ? parent.list : parent.below;
      list.append(item);
      places.set(node.id, { item, list, depth: parent.depth + (goesOn ? 0 : 1) });
    }
    this.#words.replaceChildren(top);
  }
}

function barOf({ node, from, to, row }, x, y) {
  const width = Math.max(x(to) - x(from) - 1, THINNEST);
  const names = ["node", `tier-${node.tier}`, `warmth-${warmth(node)}`];
  if (node.onPath) names.push("on-path");
  if (node.superseded) names.push("superseded");
  if (node.locked) names.push("locked");
  const place = { x: x(from), y: y(row) - BAR / 2, width, height: BAR, rx: 2, class: names.join(" ") };
  return shape("rect", place, shape("title", {}, describeNode(node)));
}

function linkOf({ at, from, to, onPath }, x, y) {
  const left = x(at);
  const d = `M${left - 1} ${y(from) + BAR / 2 - 1}V${y(to) - 4}q0 4 4 4`;
  return shape("path", { d, class: onPath ? "link on-path" : "link" });
}

function describeNode(node) {
  const size = node.tokens === 1 ? "1 token" : `${number(node.tokens)} tokens`;
  const parts = [`${size} from ${number(node.start)}`, TIERS[node.tier] ?? node.tier];
  parts.push(node.locked ? "in use" : `last used ${age(node.idle)} ago`);
  if (node.onPath) parts.push("of this conversation");
  if (node.superseded) parts.push("a branch that was left");
  return parts.join(", ");
}

function summaryOf(tree, { bars, rows }) {
  if (bars.length === 0) return "The cache is empty.";
  const path = bars.filter(({ node }) => node.onPath);
  const tokens = path.reduce((sum, { node }) => sum + node.tokens, 0);
  const branches = rows === 1 ? "one branch" : `${number(rows)} branches`;
  const mine =
    path.length === 0 ? "" : ` This conversation is lit: ${number(tokens)} tokens in ${counted(path.length)}.`;
  const more = tree.leftOut > 0 ? ` ${number(tree.leftOut)} older nodes are not shown.` : "";
  return `The cache has ${counted(bars.length)} in ${branches}.${mine}${more}`;
}

function counted(nodes) {
  return nodes === 1 ? "one node" : `${number(nodes)} nodes`;
}
