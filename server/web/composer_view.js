// Where the next message is written: Enter sends, Shift-Enter breaks the line, the button stops.
// Owns the form; knows no conversation.

import { icon } from "./dom.js";

const PAUSE_MS = 350; // after the last key, before what is typed goes to be computed

export class ComposerView {
  #field;
  #button;
  #isRunning = false;
  #timer = 0;

  /** on: {send(text), stop(), draft(text), editLast() -> boolean}. */
  constructor(form, on) {
    this.#field = form.querySelector("textarea");
    this.#button = form.querySelector("button");
    this.on = on;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.#isRunning) on.stop();
      else this.#send();
    });
    this.#field.addEventListener("keydown", (event) => this.#key(event));
    this.#field.addEventListener("input", () => this.#changed());
    this.setRunning(false);
  }

  get text() {
    return this.#field.value;
  }

  /** Puts a text there that could not be sent, before what was written since. */
  restore(text) {
    const { value } = this.#field;
    this.#field.value = value.trim() === "" ? text : `${text}\n${value}`;
    this.#changed();
  }

  focus() {
    this.#field.focus();
  }

  setRunning(isRunning) {
    this.#isRunning = isRunning;
    const label = isRunning ? "Stop (Esc)" : "Send (Enter)";
    this.#button.setAttribute("aria-label", label);
    this.#button.title = label;
    this.#button.classList.toggle("stop", isRunning);
    this.#button.replaceChildren(icon(isRunning ? "stop" : "send"));
    this.#enable();
  }

  #key(event) {
    if (event.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      if (!this.#isRunning) this.#send();
    } else if (event.key === "ArrowUp" && this.#field.value === "" && this.on.editLast()) {
      event.preventDefault();
    }
  }

  #send() {
    const text = this.#field.value.trim();
    if (text === "") return;
    clearTimeout(this.#timer);
    this.#field.value = "";
    this.#fit();
    this.#enable();
    this.on.send(text);
  }

  #changed() {
    this.#fit();
    this.#enable();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.on.draft(this.#field.value), PAUSE_MS);
  }

  #enable() {
    this.#button.disabled = !this.#isRunning && this.#field.value.trim() === "";
  }

  /** As many rows as there are lines; browsers that know field-sizing do better. */
  #fit() {
    this.#field.rows = Math.min(10, this.#field.value.split("\n").length);
  }
}
