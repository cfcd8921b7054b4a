// The conversations as links, or what a search found. Up, Down, Home and End walk through them.
// Owns the list's nodes; knows no socket.

import { button, element } from "./dom.js";
import { headingOf } from "./heading.js";

const WAIT_MS = 200; // after the last letter of a search

export class ListView {
  #timer = 0;
  #search;

  /** root: a list; status: a live region. isAnswering(id): shows a mark. onMore(), onSearch(text). */
  constructor(root, search, status, { list, isAnswering, onMore, onSearch }) {
    Object.assign(this, { root, status, list, isAnswering, onMore });
    this.#search = search;
    search.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => onSearch(search.value), WAIT_MS);
    });
    search.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") this.#focus(event, this.#links()[0]);
      if (event.key === "Escape" && search.value !== "") {
        event.stopPropagation();
        search.value = "";
        onSearch("");
      }
    });
    root.addEventListener("keydown", (event) => this.#walk(event));
  }

  /** current: the id of the conversation on the page, or null. */
  show(current) {
    const { hits, sessions, hasMore } = this.list;
    const focused = document.activeElement?.getAttribute("href");
    const hadFocus = this.root.contains(document.activeElement);
    const items =
      hits === null
        ? sessions.map((session) => this.#session(session, current))
        : hits.map((hit) => found(hit));
    if (hits === null && hasMore) items.push(element("li", {}, button("Older conversations", this.onMore, { class: "more plain" })));
    this.root.replaceChildren(...items);
    this.status.textContent =
      hits === null ? (sessions.length === 0 ? "No conversations yet." : "") : count(hits.length);
    const links = this.#links();
    const stop = links.find((link) => link.hasAttribute("aria-current")) ?? links[0];
    for (const link of links) link.tabIndex = link === stop ? 0 : -1;
    if (hadFocus) (links.find((link) => link.getAttribute("href") === focused) ?? stop)?.focus();
  }

  #session(session, current) {
    const { id, updatedAt } = session;
    const isRunning = this.isAnswering(id);
    return element(
      "li",
      {},
      element(
        "a",
        { href: `#${id}`, "aria-current": id === current ? "page" : null, class: isRunning ? "running" : null },
        element("span", { class: "title" }, headingOf(session)),
        element("span", { class: "when" }, isRunning ? "answering" : when(updatedAt)),
      ),
    );
  }

  #links() {
    return [...this.root.querySelectorAll("a")];
  }

  #walk(event) {
    const links = this.#links();
    const at = links.indexOf(document.activeElement);
    if (at < 0) return;
    if (event.key === "Enter" && !(event.ctrlKey || event.metaKey || event.shiftKey)) {
      // At once: the list may be drawn anew before the browser follows the link by itself.
      event.preventDefault();
      links[at].click();
      return;
    }
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[event.key];
    if (to === undefined) return;
    if (to < 0) this.#focus(event, this.#search);
    else this.#focus(event, links[Math.min(to, links.length - 1)]);
  }

  #focus(event, node) {
    event.preventDefault();
    node?.focus();
  }
}

function found({ conversation, message, title, role, snippet }) {
  // The server marks what was found; the marks become elements, the rest stays text.
  const parts = snippet
    .split(/(«[^»]*»)/)
    .map((part) => (part.startsWith("«") ? element("mark", {}, part.slice(1, -1)) : part));
  return element(
    "li",
    {},
    element(
      "a",
      { href: `#${conversation}/${message}` },
      element("span", { class: "title" }, title || "Untitled"),
      element("span", { class: "snippet" }, role === "user" ? "You: " : "", ...parts),
    ),
  );
}

function count(hits) {
  return hits === 0 ? "Nothing found." : hits === 1 ? "One message found." : `${hits} messages found.`;
}

function when(seconds) {
  const date = new Date(seconds * 1000);
  const isToday = date.toDateString() === new Date().toDateString();
  const style = isToday ? { hour: "2-digit", minute: "2-digit" } : { day: "numeric", month: "short" };
  return date.toLocaleString(undefined, style);
}
