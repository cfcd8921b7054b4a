// One message on the page: its text, where its tokens came from, what can be done with it.
// Owns one <article>; knows no conversation: `update` is told everything.

import { CAME, describe, stateClass, WOULD_COME } from "./cache_shading.js";
import { button, element, icon, shape } from "./dom.js";
import { MarkdownView } from "./markdown_view.js";

const NAMES = { user: "You", assistant: "Answer", system: "Instructions" };

export class MessageView {
  #body = element("div", { class: "body" });
  #who = element("h3", { class: "who" });
  #tokens = element("span", { class: "tokens" });
  #rail = null;
  #foot = element("div", { class: "foot" });
  #actions = element("div", { class: "actions" });
  #text = "";
  #markdown = null;
  #shown = {}; // what the parts besides the text were made from

  /** commands: {copy(text)}, and what `update` is given. */
  constructor(role, commands) {
    this.role = role;
    this.commands = commands;
    this.node = element(
      "article",
      { class: `message ${role}` },
      element("header", {}, this.#who, this.#tokens, this.#actions),
      this.#body,
      this.#foot,
    );
    if (role === "assistant") this.#markdown = new MarkdownView(this.#body, commands.copy);
    this.#who.textContent = NAMES[role] ?? role;
  }

  get text() {
    return this.#text;
  }

  get shownText() {
    return this.#body.innerText;
  }

  /** Shows a text that is mostly the one before and more. */
  setText(text) {
    if (text === this.#text) return;
    const grew = this.#text !== "" && text.startsWith(this.#text);
    const rest = text.slice(this.#text.length);
    if (this.#markdown === null) this.#body.textContent = text;
    else if (grew) this.#markdown.append(rest);
    else this.#markdown.replace(text);
    this.#text = text;
  }

  /**
   * name: what it is called, to those who do not see it. runs: its tokens by state, or null. isPast: they came from
   * there; else they would.
   * actions: {label, icon, run}, in order. branch: {at, count, go(step)}, or null. isBusy, notes:
   * nodes below the text.
   */
  update({ name, runs, isPast, actions, branch, isBusy, notes }) {
    this.node.setAttribute("aria-label", name);
    this.node.classList.toggle("busy", isBusy);
    this.node.setAttribute("aria-busy", String(isBusy));
    this.#shade(runs, isPast);
    this.#offer(actions, branch);
    if (notes !== this.#shown.notes) this.#foot.replaceChildren(...notes);
    this.#shown.notes = notes;
  }

  #shade(runs, isPast) {
    const key = JSON.stringify([runs, isPast]);
    if (key === this.#shown.runs) return;
    this.#shown.runs = key;
    this.#rail?.remove();
    this.#rail = runs === null ? null : railOf(runs);
    if (this.#rail !== null) this.node.prepend(this.#rail);
    this.#tokens.textContent = runs === null ? "" : describe(runs, isPast ? CAME : WOULD_COME);
  }

  #offer(actions, branch) {
    const key = JSON.stringify([actions.map(({ label }) => label), branch?.at, branch?.count]);
    // The same buttons stay, so that one that has the focus keeps it; what they do is looked up.
    this.#shown.run = (label) => actions.find((action) => action.label === label).run();
    this.#shown.go = branch?.go;
    if (key === this.#shown.offer) return;
    const hadFocus = this.#actions.contains(document.activeElement);
    const label = document.activeElement?.getAttribute("aria-label");
    this.#shown.offer = key;
    this.#actions.replaceChildren(
      ...(branch === null ? [] : [this.#switch(branch)]),
      ...actions.map((each) =>
        button(each.label, () => this.#shown.run(each.label), { class: "quiet" }, icon(each.icon)),
      ),
    );
    if (hadFocus) this.#actions.querySelector(`[aria-label="${CSS.escape(label ?? "")}"]`)?.focus();
  }

  #switch({ at, count }) {
    const to = (step, label, picture, off) =>
      button(label, () => this.#shown.go(step), { class: "quiet", disabled: off }, icon(picture));
    return element(
      "span",
      { class: "branch", role: "group", "aria-label": `Version ${at + 1} of ${count}` },
      to(-1, "Earlier version", "left", at === 0),
      element("span", { "aria-hidden": "true" }, `${at + 1}/${count}`),
      to(1, "Later version", "right", at === count - 1),
    );
  }
}

/** The message's tokens from top to bottom: a bar at its edge, a breath of colour behind it. */
function railOf(runs) {
  const total = runs.reduce((sum, { tokens }) => sum + tokens, 0);
  const box = { viewBox: `0 0 100 ${total}`, preserveAspectRatio: "none" };
  let at = 0;
  const bars = runs.map(({ state, tokens }) => {
    const place = { x: 0, y: at, width: 100, height: tokens, class: stateClass(state) };
    at += tokens;
    return place;
  });
  return element(
    "div",
    { class: "shade", "aria-hidden": "true" },
    shape("svg", { ...box, class: "rail" }, ...bars.map((place) => shape("rect", place))),
    shape("svg", { ...box, class: "wash" }, ...bars.map((place) => shape("rect", place))),
  );
}
