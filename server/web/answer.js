// One answer as it comes: text in order, each piece once, whatever was sent twice or merged.
// Knows events, no socket and no DOM.

import { readEnd, readReport } from "./wire.js";

const ENDS = new Set(["response.completed", "response.incomplete", "response.failed"]);

export class Answer {
  response = null; // its id, once the server has accepted it
  text = "";
  sequence = -1; // of the newest event that counts; where a resumed reader goes on
  progress = null; // {total, cached, processed} while the prompt is computed
  report = null; // where the prompt's tokens came from
  end = null; // how it ended
  wantsStop = false;
  #codePoints = 0;

  /**
   * conversation: its id. after: the id of the message that stays before this turn, null: none.
   * question: the user's text, null: the last message is answered again. request: the client event
   * that asks for it, to be sent again if nobody knows whether it arrived; null: it runs already.
   */
  constructor({ conversation, after, question = null, request = null, response = null }) {
    Object.assign(this, { conversation, after, question, request, response });
  }

  get isRunning() {
    return this.end === null;
  }

  /**
   * Takes an event of this response in. Returns what changed: "text" (with `delta`, or `replaced`),
   * "state", "end", "gap" (something is missing: resume), or null.
   */
  take(event) {
    if (event.type === "response.snapshot") return this.#restart(event);
    if (typeof event.sequence_number === "number") {
      if (event.sequence_number <= this.sequence) return null;
      if (event.type !== "response.output_text.delta") this.sequence = event.sequence_number;
    }
    if (ENDS.has(event.type)) return this.#close(readEnd(event));
    switch (event.type) {
      case "response.created":
        this.response = event.response.id;
        return { changed: "state" };
      case "response.prefill.progress":
        this.progress = { total: event.total, cached: event.cached, processed: event.processed };
        return { changed: "state" };
      case "response.cache":
        this.report = readReport(event);
        return { changed: "state" };
      case "response.output_text.delta":
        return this.#append(event);
      default:
        return null;
    }
  }

  #append(event) {
    const offset = event.x?.offset ?? this.#codePoints;
    if (offset > this.#codePoints) return { changed: "gap" };
    this.sequence = event.sequence_number;
    const points = [...event.delta];
    const fresh = points.slice(this.#codePoints - offset);
    if (fresh.length === 0) return null;
    const delta = fresh.join("");
    this.text += delta;
    this.#codePoints += fresh.length;
    return { changed: "text", delta };
  }

  #restart(event) {
    this.sequence = Math.max(this.sequence, event.sequence_number);
    return this.#replace(event.output_text);
  }

  #replace(text) {
    if (text === this.text) return null;
    this.text = text;
    this.#codePoints = [...text].length;
    return { changed: "text", replaced: true };
  }

  #close(end) {
    const replaced = end.text !== null && this.#replace(end.text) !== null;
    this.end = end;
    return { changed: "end", replaced };
  }
}
