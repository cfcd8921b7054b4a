// What can be done with a conversation besides talking: each a request and its reply.

import { without } from "./wire.js";

export class SessionCommands {
  constructor(connection) {
    this.connection = connection;
  }

  /** Goes on from another message; refused if the tip is not the expected one any more. */
  async moveTip(id, expected, tip) {
    const event = { type: "session.update", session_id: id, tip, expected_tip: expected };
    await this.connection.request(without(event));
  }

  /** A new conversation that goes on from a message; copies nothing. Its id. */
  async fork(id, at, name) {
    const event = { type: "session.fork", session_id: id, at, name };
    return (await this.connection.request(event)).session.id;
  }

  async rename(id, name) {
    await this.connection.request({ type: "session.update", session_id: id, name });
  }

  async remove(id) {
    await this.connection.request({ type: "session.delete", session_id: id });
  }

  /** The conversation as a text; format: "markdown" or "json". */
  async export(id, format) {
    const event = { type: "session.export", session_id: id, format };
    return (await this.connection.request(event)).text;
  }
}
