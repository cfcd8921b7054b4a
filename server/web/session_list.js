// The list of conversations and the search in them, as the server has them. Knows no DOM.

import { readHit, readSession } from "./wire.js";

const PAGE = 40;

export class SessionList {
  sessions = [];
  hasMore = false;
  query = "";
  hits = null; // of the query; null: nothing is looked for

  /** onChange(): sessions or hits are others. */
  constructor(connection, onChange) {
    Object.assign(this, { connection, onChange });
  }

  /** The newest ones again, as many as were shown. */
  async load() {
    const limit = Math.min(1000, Math.max(PAGE, this.sessions.length));
    const reply = await this.connection.request({ type: "session.list", limit });
    this.sessions = reply.sessions.map(readSession);
    this.hasMore = reply.has_more;
    this.onChange();
  }

  async loadMore() {
    const after = this.sessions.at(-1)?.id;
    const reply = await this.connection.request({ type: "session.list", limit: PAGE, after });
    const known = new Set(this.sessions.map(({ id }) => id));
    this.sessions.push(...reply.sessions.map(readSession).filter(({ id }) => !known.has(id)));
    this.hasMore = reply.has_more;
    this.onChange();
  }

  async search(query) {
    this.query = query.trim();
    const asked = this.query;
    if (asked === "") {
      this.hits = null;
    } else {
      const reply = await this.connection.request({ type: "session.search", query: asked, limit: 50 });
      if (asked !== this.query) return;
      this.hits = reply.hits.map(readHit);
    }
    this.onChange();
  }
}
