// A message being edited in its place: Enter sends, Shift-Enter breaks the line, Esc leaves it.
// Owns one form; knows no conversation.

import { button, element } from "./dom.js";

export class EditView {
  #field = element("textarea", { "aria-label": "Edit your message", class: "field" });

  constructor(text, onSend, onCancel) {
    this.onSend = onSend;
    this.#field.value = text;
    this.#field.rows = Math.min(12, text.split("\n").length + 1);
    this.#field.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Escape") {
        event.stopPropagation();
        onCancel();
      } else if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        this.#send();
      }
    });
    this.node = element(
      "form",
      {
        class: "message user editing",
        submit: (event) => {
          event.preventDefault();
          this.#send();
        },
      },
      this.#field,
      element(
        "div",
        { class: "buttons" },
        button("Cancel", onCancel, { class: "plain" }),
        element("button", { type: "submit", class: "primary" }, "Send"),
      ),
      element("p", { class: "hint" }, "What followed stays as another version."),
    );
  }

  focus() {
    this.#field.focus();
    this.#field.setSelectionRange(this.#field.value.length, this.#field.value.length);
  }

  #send() {
    const text = this.#field.value.trim();
    if (text !== "") this.onSend(text);
  }
}
