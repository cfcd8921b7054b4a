// The cache beside the conversation: this turn's prompt, the next turn's, the pool, the tree.
// Owns the panel's nodes; looks at the chat.

import { CAME, stateClass, totals, WOULD_COME } from "./cache_shading.js";
import { element, shape } from "./dom.js";
import { explainMiss, number } from "./miss.js";
import { TreeView } from "./tree_view.js";

const LEAST_MS = 500;
const BUSY_MS = 1500;
const IDLE_MS = 8000;

export class CacheView {
  #turn = element("div", { class: "turn" });
  #pool = element("div", { class: "pool" });
  #tree;
  #timer = 0;
  #asks = 0;
  #askedAt = -LEAST_MS;

  constructor(root, chat, isVisible) {
    Object.assign(this, { chat, isVisible });
    const picture = element("div", { class: "tree" });
    root.replaceChildren(
      section("This conversation", this.#turn),
      section("The radix tree", picture, legend()),
      section("The pool", this.#pool),
    );
    this.#tree = new TreeView(picture);
    document.addEventListener("visibilitychange", () => this.poll());
    this.show();
  }

  show() {
    const { chat } = this;
    const ended = chat.endOf(chat.conversation?.path.at(-1));
    const report = chat.answer?.report ?? ended?.report ?? null;
    const nodes = [];
    if (report !== null) nodes.push(...reportNodes("The last turn", "Its prompt had", CAME, report));
    if (chat.inspection !== null && chat.answer === null) {
      nodes.push(...reportNodes("The next turn", "It begins with", WOULD_COME, chat.inspection));
      nodes.push(...roomNodes(chat.inspection.total, chat.connection.hello?.limits.n_ctx));
    }
    if (nodes.length === 0) nodes.push(element("p", {}, "Nothing has been asked here yet."));
    this.#turn.replaceChildren(...nodes);
  }

  /** Asks for the tree, soon if not now, and then again and again while somebody can see it. */
  async poll() {
    clearTimeout(this.#timer);
    if (document.hidden || !this.isVisible() || this.chat.connection.hello === null) return;
    const wait = this.#askedAt + LEAST_MS - performance.now();
    if (wait > 0) {
      this.#timer = setTimeout(() => this.#again(), wait);
      return;
    }
    this.#askedAt = performance.now();
    this.#asks += 1;
    const asked = this.#asks;
    try {
      const tree = await this.chat.tree();
      if (asked !== this.#asks) return;
      this.#tree.show(tree);
      this.#showPool(tree);
    } finally {
      if (asked === this.#asks) {
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => this.#again(), this.chat.answer === null ? IDLE_MS : BUSY_MS);
      }
    }
  }

  #again() {
    this.poll().catch(() => {}); // without a connection there is nothing to draw; greeted polls
  }

  #showPool({ pool, cached, free }) {
    const used = Math.max(0, pool - cached - free);
    const parts = [
      { state: "memory", tokens: cached, name: "cached" },
      { state: "computed", tokens: used, name: "in running answers and pages that are not full" },
      { state: "free", tokens: free, name: "free" },
    ].filter(({ tokens }) => tokens > 0);
    this.#pool.replaceChildren(
      bar(parts, pool),
      element("p", {}, `${parts.map(({ tokens, name }) => `${number(tokens)} ${name}`).join(", ")}; ${number(pool)} tokens in all.`),
    );
  }
}

function section(title, ...children) {
  return element("section", {}, element("h3", {}, title), ...children);
}

function reportNodes(title, lead, words, report) {
  const parts = totals(report);
  const said = parts.map(({ state, tokens }) => `${number(tokens)} ${words[state] ?? state}`);
  const miss = explainMiss(report.miss, report.total, null);
  const nodes = [
    element("h4", {}, title),
    bar(parts, report.total),
    element("p", {}, `${lead} ${number(report.total)} tokens: ${said.join(", ")}.`),
  ];
  if (miss !== null) nodes.push(element("p", { class: "why" }, `${miss.headline}. ${miss.explanation}`));
  return nodes;
}

function roomNodes(total, context) {
  if (!context) return [];
  const share = Math.round((100 * total) / context);
  return [
    element("p", { class: share >= 80 ? "room full" : "room" }, `${share} % of the ${number(context)} tokens that the model can see.`),
  ];
}

function bar(parts, total) {
  let at = 0;
  const rects = parts.map(({ state, tokens }) => {
    const place = { x: at, y: 0, width: tokens, height: 1 };
    at += tokens;
    return shape("rect", { ...place, class: state === "free" ? "state-free" : stateClass(state) });
  });
  const box = { viewBox: `0 0 ${Math.max(total, 1)} 1`, preserveAspectRatio: "none" };
  return shape("svg", { ...box, class: "bar", "aria-hidden": "true" }, ...rects);
}

function legend() {
  const entry = (name, ...classes) =>
    element(
      "li",
      {},
      shape(
        "svg",
        { viewBox: "0 0 20 10", width: 20, height: 10, "aria-hidden": "true" },
        shape("rect", { x: 1, y: 1, width: 18, height: 8, rx: 2, class: ["node", ...classes].join(" ") }),
      ),
      name,
    );
  return element(
    "ul",
    { class: "legend" },
    entry("this conversation", "tier-device", "warmth-now", "on-path"),
    entry("used just now", "tier-device", "warmth-now"),
    entry("long ago", "tier-device", "warmth-cold"),
    entry("a branch that was left", "tier-device", "warmth-warm", "superseded"),
  );
}
