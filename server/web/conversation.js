// A conversation as the server's tree of messages: the path to its tip, and what stands beside it.
// Knows no socket and no DOM.

export class Conversation {
  /** session: {id, title, system, tip, running}; messages: {id, parent, role, text, …}. */
  constructor(session, messages) {
    this.session = session;
    this.messages = new Map(messages.map((message) => [message.id, message]));
    this.children = new Map(); // id or null -> messages, oldest first
    for (const message of messages) {
      const beside = this.children.get(message.parent) ?? [];
      beside.push(message);
      this.children.set(message.parent, beside);
    }
  }

  get id() {
    return this.session.id;
  }

  /** The messages from the first to the tip. */
  get path() {
    const path = [];
    for (let at = this.messages.get(this.session.tip); at; at = this.messages.get(at.parent)) path.push(at);
    return path.reverse();
  }

  /** The messages that stand in the place of this one, itself among them. */
  beside(message) {
    const all = this.children.get(message.parent) ?? [message];
    return all.filter((each) => each.role === message.role);
  }

  /** Where the conversation was left when it went on from this message: the newest leaf below. */
  leaf(message) {
    let at = message;
    for (let below = this.children.get(at.id); below?.length > 0; below = this.children.get(at.id)) {
      at = below.reduce((newest, each) => (each.createdAt >= newest.createdAt ? each : newest));
    }
    return at;
  }

  /** Which turn of the path this user message is, from 1. */
  turn(message) {
    const users = this.path.filter((each) => each.role === "user");
    return users.findIndex((each) => each.id === message.id) + 1;
  }
}
