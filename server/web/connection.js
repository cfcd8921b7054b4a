// One WebSocket that is there again after it was lost. Owns the socket, the tries, and the requests
// that wait for an answer. Knows no conversation: what has to be asked again, others know.

import { delay } from "./backoff.js";

const SUBPROTOCOL = "radixchat.v1";
const NEVER_AGAIN = new Set([1002, 1003, 1007, 1008, 1009, 3000, 3003, 4409]);
const STABLE_MS = 5000; // a server that says hello and goes is tried less and less often
const ANSWER_MS = 30000;
const PONG_MS = 15000;

/** The server said no: code, message, and the numbers that stand beside them. */
export class Refused extends Error {
  constructor(error) {
    super(error.message);
    this.code = error.code;
    this.details = error;
  }
}

/** Nobody knows whether what was sent arrived. */
export class ConnectionLost extends Error {}

export class Connection {
  #socket = null;
  #hello = null;
  #attempt = 0;
  #timers = { again: 0, stable: 0, watch: 0 };
  #waiting = new Map(); // event id -> {resolve, reject, timer}
  #received = 0;
  #pinged = 0;

  /**
   * onState({name, …}): "connecting", "open" (hello), "waiting" (for ms), "refused" (code, reason).
   * onEvent(event): what is no answer to a request. key(): the key or null. why(): asks the server
   * over HTTP why a socket was not opened: "key", "busy" or "unreachable".
   */
  constructor({ url, key, why, onState, onEvent }) {
    Object.assign(this, { url, key, why, onState, onEvent });
  }

  get hello() {
    return this.#hello;
  }

  connect() {
    this.#drop();
    this.onState({ name: "connecting" });
    const key = this.key();
    const protocols = key === null ? [SUBPROTOCOL] : [SUBPROTOCOL, `radixchat.bearer.${base64url(key)}`];
    const socket = new WebSocket(this.url, protocols);
    this.#socket = socket;
    // A socket that was given up may still speak; nobody listens.
    const isOurs = () => this.#socket === socket;
    socket.addEventListener("message", ({ data }) => isOurs() && this.#receive(JSON.parse(data)));
    socket.addEventListener("close", ({ code, reason }) => isOurs() && this.#closed(code, reason));
  }

  /** Tries now instead of later; nothing while the socket is open. */
  hurry() {
    if (this.#timers.again === 0) return;
    this.#attempt = 0;
    this.connect();
  }

  /** Whether it was sent. */
  send(event) {
    if (this.#hello === null) return false;
    this.#socket.send(JSON.stringify(event));
    return true;
  }

  /** The answer; throws Refused or ConnectionLost. */
  request(event) {
    const id = eventId();
    return new Promise((resolve, reject) => {
      if (!this.send({ event_id: id, ...event })) {
        reject(new ConnectionLost("There is no connection."));
        return;
      }
      const tooLong = () => this.#answered(id)?.reject(new ConnectionLost("The server does not answer."));
      this.#waiting.set(id, { resolve, reject, timer: setTimeout(tooLong, ANSWER_MS) });
    });
  }

  #receive(event) {
    this.#received = Date.now();
    if (event.type === "auth_required") {
      this.#closed(3000, "key");
      return;
    }
    if (event.type === "server.hello") this.#greeted(event);
    if (event.type.startsWith("response.")) this.#attempt = 0;
    if (event.type === "error") {
      const waiting = this.#answered(event.event_id);
      if (waiting) waiting.reject(new Refused(event.error));
      else this.onEvent(event);
      return;
    }
    const waiting = this.#answered(event.in_reply_to);
    if (waiting) waiting.resolve(event);
    else if (event.type !== "pong") this.onEvent(event);
  }

  #greeted(hello) {
    if (this.#hello !== null) return;
    this.#hello = hello;
    this.#pinged = 0;
    this.#timers.stable = setTimeout(() => (this.#attempt = 0), STABLE_MS);
    this.#timers.watch = setInterval(() => this.#watch(), (hello.heartbeat_s ?? 20) * 1000);
    this.onState({ name: "open", hello });
  }

  #answered(id) {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (waiting) clearTimeout(waiting.timer);
    return waiting;
  }

  /** A network that went away says nothing; a ping that nothing follows tells. */
  #watch() {
    const now = Date.now();
    if (this.#pinged > this.#received && now - this.#pinged > PONG_MS) {
      this.#closed(1006, "nothing was heard");
    } else if (this.#pinged <= this.#received) {
      this.#pinged = now;
      this.send({ type: "ping", t: now });
    }
  }

  async #closed(code, reason) {
    const wasOpen = this.#hello !== null;
    this.#drop();
    if (NEVER_AGAIN.has(code)) {
      this.onState({ name: "refused", code, reason });
      return;
    }
    const wait = delay(this.#attempt++);
    const until = Date.now() + wait;
    this.#timers.again = setTimeout(() => this.connect(), wait);
    this.onState({ name: "waiting", ms: wait, why: wasOpen ? "lost" : "unknown" });
    if (wasOpen) return;
    const why = await this.why();
    if (this.#timers.again === 0) return;
    if (why === "key") {
      this.#drop();
      this.onState({ name: "refused", code: 3000, reason: "key" });
    } else {
      this.onState({ name: "waiting", ms: Math.max(0, until - Date.now()), why });
    }
  }

  #drop() {
    clearTimeout(this.#timers.again);
    clearTimeout(this.#timers.stable);
    clearInterval(this.#timers.watch);
    this.#timers = { again: 0, stable: 0, watch: 0 };
    const socket = this.#socket;
    this.#socket = null;
    this.#hello = null;
    socket?.close(1000);
    for (const id of [...this.#waiting.keys()]) {
      this.#answered(id).reject(new ConnectionLost("The connection was lost."));
    }
  }
}

/** A name for an event that nobody else gives; crypto.randomUUID is for secure contexts only. */
export function eventId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `evt_${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

function base64url(text) {
  const bytes = String.fromCharCode(...new TextEncoder().encode(text));
  return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
