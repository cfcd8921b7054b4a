// What the page has to say beside the conversation: errors, the connection, the server's notices.
// Owns three places on the page; knows no socket.

import { button, element, icon } from "./dom.js";

const WAITS = {
  lost: "The connection was lost",
  busy: "The server is starting or busy",
  unreachable: "The server cannot be reached",
  unknown: "No connection",
};

export class Notices {
  /** alert: for errors; connection: one line; notices: a list. */
  constructor(alert, connection, notices) {
    Object.assign(this, { alert, line: connection, list: notices });
  }

  error(error) {
    const { message, details } = error;
    const wait = details?.retry_after_ms;
    const again = wait > 0 ? ` Try again in ${Math.ceil(wait / 1000)} s.` : "";
    const text = /[.!?]$/.test(message) ? message : `${message}.`;
    this.#show("notice error", capital(text) + again);
  }

  clear() {
    this.alert.replaceChildren();
  }

  draining({ deadline_s: seconds }) {
    const rest = `What runs has ${Math.ceil(seconds)} s to finish; then the page connects again by itself.`;
    this.#show("notice draining", `The server is about to restart. ${rest}`);
  }

  connection(state, connection) {
    this.line.className = state.name;
    switch (state.name) {
      case "open":
        if (this.alert.querySelector(".draining")) this.clear();
        this.line.title = state.hello.model;
        this.line.textContent = state.hello.model.split("/").at(-1);
        this.list.replaceChildren(...state.hello.notices.map((notice) => element("li", {}, notice)));
        break;
      case "connecting":
        this.line.textContent = "Connecting …";
        break;
      case "waiting":
        this.line.replaceChildren(
          `${WAITS[state.why]}. Trying again … `,
          button("Now", () => connection.hurry(), { class: "plain small" }),
        );
        break;
      case "refused":
        this.line.replaceChildren(
          state.code === 3000 ? "A key is needed. " : `The server ended the connection (${state.reason || state.code}). `,
          button("Connect", () => connection.connect(), { class: "plain small" }),
        );
    }
  }

  #show(names, text) {
    const dismiss = button("Dismiss", () => this.clear(), { class: "quiet" }, icon("close"));
    this.alert.replaceChildren(element("div", { class: names }, element("p", {}, text), dismiss));
  }
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
