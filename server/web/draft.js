// What is typed, computed while it is typed: one draft at a time. Knows no DOM.

import { eventId } from "./connection.js";

export class Draft {
  tokens = null; // of the next prompt, computed as far as it is typed
  #revision = 0;
  #isSent = false;

  constructor(connection) {
    this.connection = connection;
  }

  /** Tells the server what is typed; whether `tokens` is another then. */
  async type(conversation, text) {
    this.#revision += 1;
    const revision = this.#revision;
    if (text.trim() === "") return this.#drop(conversation);
    this.#isSent = true;
    const event = { type: "prefill.draft", session_id: conversation, revision, text };
    const reply = await this.connection.request(event);
    if (revision !== this.#revision) return false;
    this.tokens = reply.tokens;
    return true;
  }

  /** It was sent, or the conversation was left: nothing that comes for it counts any more. */
  leave() {
    this.#revision += 1;
    this.#isSent = false;
    this.tokens = null;
  }

  #drop(conversation) {
    if (!this.#isSent) return false;
    this.leave();
    this.connection.send({ type: "prefill.drop", event_id: eventId(), session_id: conversation });
    return true;
  }
}
