// The conversation on the page and the answers that run: turns, stops, edits, forks, resuming.
// Owns what is known of the server's state; knows no DOM. Views look here and are told of changes.

import { Answer } from "./answer.js";
import { ConnectionLost, Refused, eventId } from "./connection.js";
import { Conversation } from "./conversation.js";
import { Draft } from "./draft.js";
import { headingOf, titleOf } from "./heading.js";
import { SessionCommands } from "./session_commands.js";
import { readMessage, readReport, readSession, readTree, without } from "./wire.js";

const KEPT_ENDS = 500;

export class Chat {
  conversation = null; // what is shown; null: a new one
  inspection = null; // what the cache has of its next turn
  #ends = new Map(); // response id -> {end, report}, of answers that this page has seen
  #beginning = null; // {text, isStopped}: a first message whose conversation is being made
  #answers = new Map(); // conversation id -> Answer, until the tree has it
  #lanes = new Map(); // stream id -> Answer
  #resumes = new Map(); // event id of a resume -> Answer
  #cut = new Map(); // conversation id -> {response, bootId}: the server left in mid-answer
  #watched = null; // the id of the conversation whose news come
  #wanted = null; // the id of the conversation to be shown
  #bootId = null;

  /**
   * options(): what the user chose for answers. on: {conversation, text, answer, ended, cache,
   * sessions, refused, gone}, functions that hear of changes.
   */
  constructor(connection, { options, on }) {
    Object.assign(this, { connection, options, on });
    this.commands = new SessionCommands(connection);
    this.draft = new Draft(connection);
  }

  get answer() {
    return this.conversation === null ? null : (this.#answers.get(this.conversation.id) ?? null);
  }

  /** {end, report} of the response that made this message; null: this page was not there. */
  endOf(message) {
    const id = message?.responses.find((each) => this.#ends.has(each));
    return this.#ends.get(id) ?? null;
  }

  /** Whether something runs here that can be stopped. */
  get isBusy() {
    return this.#beginning !== null || (this.answer?.isRunning ?? false);
  }

  isAnswering(conversation) {
    return this.#answers.get(conversation)?.isRunning ?? false;
  }

  /** What to show, in order: {message}, and at last {answer} while one runs. */
  get entries() {
    if (this.conversation === null) return this.#beginning === null ? [] : [asked(this.#beginning.text)];
    const { path } = this.conversation;
    const { answer } = this;
    if (answer === null) return path.map((message) => ({ message }));
    const at = path.findIndex((message) => message.id === answer.after);
    const kept = answer.after === null ? [] : path.slice(0, at < 0 ? path.length : at + 1);
    const entries = kept.map((message) => ({ message }));
    if (answer.question !== null) entries.push(asked(answer.question));
    return [...entries, { answer }];
  }

  // -- the connection ------------------------------------------------------------------------

  /** The socket is open: ask again whatever nobody answered, read on whatever ran. */
  async greeted(hello) {
    const restarted = this.#bootId !== null && this.#bootId !== hello.boot_id;
    this.#bootId = hello.boot_id;
    this.#watched = null;
    this.#resumes.clear();
    for (const answer of this.#answers.values()) {
      if (answer.response !== null && answer.isRunning) this.#resume(answer, restarted);
      else if (answer.isRunning) this.connection.send(answer.request);
      else this.refresh(answer.conversation);
    }
    if (this.#wanted !== null) await this.show(this.#wanted);
  }

  take(event) {
    if (event.type === "error") {
      this.#refused(event);
      return;
    }
    const lane = this.#lanes.get(event.stream_id);
    const id = event.response_id ?? event.response?.id;
    const answer = lane ?? [...this.#answers.values()].find((each) => each.response === id);
    if (answer === undefined) {
      this.#news(event);
      return;
    }
    const { conversation } = answer;
    const change = answer.take(event);
    if (answer.response !== null && answer.wantsStop) this.#cancel(answer);
    if (change === null) return;
    if (change.changed === "gap") this.#resume(answer, false);
    if (change.changed === "end") this.#ended(answer);
    if (conversation !== this.conversation?.id) return;
    if (change.changed === "text") this.on.text(answer);
    else this.on.answer(answer);
  }

  /** What others do, on another device or in another tab. */
  #news(event) {
    const about = event.session_id ?? event.session?.id ?? event.response?.conversation?.id;
    const isShown = about !== undefined && about === this.conversation?.id;
    if (event.type === "response.created" || event.type.startsWith("session.")) this.on.sessions();
    if (!isShown) return;
    if (event.type === "session.deleted") this.on.gone();
    else if (event.type !== "response.in_progress") this.#quietly(this.refresh(about));
  }

  // -- what is shown -------------------------------------------------------------------------

  /** A new conversation: nothing is stored before its first message. */
  showNew() {
    this.#wanted = null;
    this.conversation = null;
    this.inspection = null;
    this.draft.leave();
    this.on.conversation();
  }

  /** Shows a conversation, with the answer that it is just getting. Throws Refused. */
  async show(id) {
    this.#wanted = id;
    await this.refresh(id);
  }

  async refresh(id) {
    const loaded = await this.#load(id);
    if (this.#answers.get(id)?.isRunning === false) this.#forget(this.#answers.get(id));
    if (this.#wanted !== id) return;
    const isOther = this.conversation?.id !== id;
    this.conversation = loaded;
    if (isOther) this.inspection = null;
    const { running } = loaded.session;
    const cut = this.#cut.get(id);
    if (running !== null && !this.#answers.has(id) && !this.#ends.has(running)) {
      this.#adopt(loaded, running, false);
    } else if (cut !== undefined && cut.bootId !== this.#bootId) {
      this.#cut.delete(id);
      if (loaded.path.at(-1)?.responses.includes(cut.response)) this.#adopt(loaded, cut.response, true);
    }
    this.on.conversation();
    this.#quietly(Promise.all([this.#watch(id), this.inspect()]));
  }

  async #load(id) {
    const [got, tree] = await Promise.all([
      this.connection.request({ type: "session.get", session_id: id }),
      this.connection.request({ type: "session.tree", session_id: id }),
    ]);
    return new Conversation(readSession(got.session), tree.messages.map(readMessage));
  }

  /** Hears of the conversation's answers, whoever asks for them. */
  async #watch(id) {
    const before = this.#watched;
    if (before === id) return;
    this.#watched = id;
    const leave = { type: "session.unsubscribe", event_id: eventId(), session_id: before };
    if (before !== null) this.connection.send(leave);
    await this.connection.request({ type: "session.subscribe", session_id: id });
  }

  /**
   * An answer that somebody else asked for, or this page before it was loaded again; wasCut: one
   * that the server's end cut short.
   */
  #adopt(conversation, response, wasCut) {
    const last = conversation.path.at(-1);
    const isPartial = last?.responses.includes(response) ?? false;
    const after = isPartial ? last.parent : (last?.id ?? null);
    const answer = new Answer({ conversation: conversation.id, after, response });
    this.#follow(answer, eventId());
    this.#resume(answer, wasCut);
  }

  // -- turns ---------------------------------------------------------------------------------

  /** Asks; a conversation begins with its first message. Throws Refused, ConnectionLost. */
  async say(text, instructions = null) {
    const isNew = this.conversation === null;
    const { session, isStopped } = isNew ? await this.#begin(text, instructions) : this.conversation;
    const turn = { after: session.tip, question: text };
    this.#ask(session.id, turn, { type: "response.create", input: text }).wantsStop = isStopped ?? false;
  }

  /** The conversation of a first message; isStopped: somebody did not want to wait for it. */
  async #begin(text, instructions) {
    const beginning = { text, isStopped: false };
    this.#beginning = beginning;
    this.on.conversation();
    try {
      const event = { type: "session.create", name: titleOf(text), instructions };
      const reply = await this.connection.request(without(event));
      const session = readSession(reply.session);
      if (this.#wanted === null) await this.show(session.id);
      return { session, isStopped: beginning.isStopped };
    } finally {
      this.#beginning = null;
      this.on.conversation();
    }
  }

  /** Another text for a message of the path; what followed stays in the tree. */
  edit(message, text) {
    const { id } = this.conversation;
    const turn = this.conversation.turn(message);
    const event = { type: "response.create", input: text };
    this.#ask(id, { after: message.parent, question: text }, event, { edit_turn: turn });
  }

  /** Another answer in the place of this one; question: the message to be answered. */
  async answerAgain(question) {
    const { id, session, path } = this.conversation;
    const last = path.findLast((message) => message.role === "user");
    if (question.id !== last.id) await this.#moveTip(session.tip, question.id);
    this.#ask(id, { after: question.id }, { type: "response.regenerate" });
  }

  #ask(id, turn, event, extras = {}) {
    const name = eventId();
    const { body, x } = this.options();
    const more = event.type === "response.create" ? { on_busy: "queue", ...extras } : { on_busy: "queue" };
    const request = without({ ...event, conversation: id, ...body, event_id: name, stream_id: name });
    request.x = without({ ...x, ...more, return_progress: true });
    this.draft.leave();
    const answer = new Answer({ ...turn, conversation: id, request });
    this.#follow(answer, name);
    this.connection.send(request); // else it is sent when there is a connection again
    this.on.conversation();
    this.on.sessions();
    return answer;
  }

  #follow(answer, lane) {
    answer.lane = lane;
    this.#answers.set(answer.conversation, answer);
    this.#lanes.set(lane, answer);
  }

  #forget(answer) {
    this.#lanes.delete(answer.lane);
    if (this.#answers.get(answer.conversation) === answer) this.#answers.delete(answer.conversation);
  }

  stop() {
    const { answer } = this;
    if (this.#beginning !== null) this.#beginning.isStopped = true;
    if (answer === null || !answer.isRunning) return;
    answer.wantsStop = true;
    if (answer.response !== null) this.#cancel(answer);
    this.on.answer(answer);
  }

  #cancel(answer) {
    if (!answer.isRunning || answer.isCancelled) return;
    const event = { type: "response.cancel", event_id: eventId(), response_id: answer.response };
    answer.isCancelled = this.connection.send(event);
  }

  /** Reads on from the last event that came; restarted: the server is another process than then. */
  async #resume(answer, restarted) {
    const event = {
      type: "response.resume",
      event_id: eventId(),
      stream_id: answer.lane,
      response_id: answer.response,
      starting_after: answer.sequence,
    };
    if (restarted) {
      event.x = { continue: true };
      answer.report = null; // the prompt is computed anew, by another cache
    }
    answer.isCancelled = false;
    this.#resumes.set(event.event_id, answer);
    this.connection.send(event);
  }

  #refused({ error, event_id: id }) {
    const resumed = this.#resumes.get(id);
    this.#resumes.delete(id);
    const asked = [...this.#answers.values()].find((answer) => answer.request?.event_id === id);
    const answer = resumed ?? asked;
    if (answer !== undefined) {
      this.#forget(answer);
      if (resumed !== undefined) this.#quietly(this.refresh(answer.conversation));
      else if (answer.conversation === this.conversation?.id) this.on.conversation();
    }
    this.on.refused(new Refused(error), asked ?? null);
  }

  #ended(answer) {
    const { response, end, report } = answer;
    this.#ends.set(response, { end, report });
    if (this.#ends.size > KEPT_ENDS) this.#ends.delete(this.#ends.keys().next().value);
    if (end.reason === "server_shutdown") {
      this.#cut.set(answer.conversation, { response, bootId: this.#bootId });
    }
    this.on.ended(answer);
    this.#quietly(this.refresh(answer.conversation));
    this.on.sessions();
  }

  // -- branches ------------------------------------------------------------------------------

  /** Goes on from another message that stands in the same place. */
  async choose(message) {
    await this.#moveTip(this.conversation.session.tip, this.conversation.leaf(message).id);
    await this.refresh(this.conversation.id);
  }

  async #moveTip(expected, tip) {
    await this.commands.moveTip(this.conversation.id, expected, tip);
    this.conversation.session.tip = tip;
  }

  async fork(message) {
    const { id, session } = this.conversation;
    return this.commands.fork(id, message.id, `${headingOf(session)} (fork)`);
  }

  async rename(name) {
    await this.commands.rename(this.conversation.id, name);
    this.conversation.session.title = name;
    this.on.conversation();
    this.on.sessions();
  }

  async remove() {
    await this.commands.remove(this.conversation.id);
    this.on.sessions();
  }

  // -- the cache -----------------------------------------------------------------------------

  /** What is typed is computed while it is typed; an empty text drops that. */
  async typed(text) {
    if (this.conversation === null || this.answer !== null) return;
    if (await this.draft.type(this.conversation.id, text)) this.on.cache();
  }

  async inspect() {
    const id = this.conversation?.id;
    if (id === undefined || this.#answers.has(id)) return;
    const report = readReport(await this.connection.request({ type: "cache.inspect", session_id: id }));
    if (this.conversation?.id !== id) return;
    this.inspection = report;
    this.on.cache();
  }

  async tree() {
    const event = { type: "cache.tree", session_id: this.conversation?.id };
    return readTree(await this.connection.request(without(event)));
  }

  /** For what the page asks of its own accord: a lost connection is no news. */
  #quietly(promise) {
    promise.catch((error) => {
      if (error instanceof Refused) this.on.refused(error, null);
      else if (!(error instanceof ConnectionLost)) throw error;
    });
  }
}

/** What the user says just now, before the server has it. */
function asked(text) {
  return { message: { id: null, role: "user", text, responses: [] } };
}
