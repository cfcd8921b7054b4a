// The messages of the conversation on the page, the answer that runs at their end.
// Owns the list's nodes and where it is scrolled to. Looks at the chat; changes it by its commands.

import { number } from "./miss.js";
import { shares } from "./cache_shading.js";
import { button, element } from "./dom.js";
import { EditView } from "./edit_view.js";
import { MessageView } from "./message_view.js";
import { endNotes, missNote, progressNote } from "./turn_notes.js";

const NOTHING = [];
const NEAR = 80; // pixels from the end that still count as being there

export class TranscriptView {
  #views = [];
  #edit = null;
  #conversation = null;
  #isFollowing = true;
  #frame = 0;
  #notes = new Map(); // what a note was made from -> its nodes

  /** commands: {copy, edit, again, fork, choose, report}. */
  constructor(root, scroller, chat, commands) {
    Object.assign(this, { root, scroller, chat, commands });
    this.jump = button("Go to the end", () => this.follow(), { class: "jump", hidden: true });
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    root.after(this.jump);
  }

  /** Everything anew; nodes whose message is the same stay. */
  show() {
    const { entries, conversation } = this.chat;
    if (conversation?.id !== this.#conversation) this.#clear(conversation?.id ?? null);
    entries.forEach((entry, at) => this.#showEntry(entry, at));
    for (const view of this.#views.splice(entries.length)) view.node.remove();
    this.#keepUp();
  }

  /** More text of the answer: with the next frame, however many deltas come before that. */
  showText() {
    if (this.#frame !== 0) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      const { answer } = this.chat;
      if (answer === null || this.#views.length === 0) return;
      const view = this.#views.at(-1);
      if (view.text === "") this.show(); // what was said of it until its first text is over
      view.setText(answer.text);
      this.#keepUp();
    });
  }

  /** The last message as it is read: without its marks. */
  get lastText() {
    return this.#views.at(-1)?.shownText ?? "";
  }

  follow() {
    this.#isFollowing = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.jump.hidden = true;
  }

  /** Brings a message of the path to where it is seen; false: it is on another branch. */
  reveal(id) {
    const at = this.chat.entries.findIndex(({ message }) => message?.id === id);
    if (at < 0) return false;
    const { node } = this.#views[at];
    this.#isFollowing = false;
    node.tabIndex = -1;
    node.focus({ preventScroll: true });
    node.scrollIntoView({ block: "center" });
    return true;
  }

  /** Opens the last message of the user for editing; false: there is none. */
  editLast() {
    const at = this.chat.entries.findLastIndex(({ message }) => message?.role === "user" && message.id);
    if (at < 0 || this.chat.answer !== null) return false;
    this.#startEdit(this.chat.entries[at].message, at);
    return true;
  }

  #clear(id) {
    this.#conversation = id;
    this.#closeEdit();
    for (const view of this.#views.splice(0)) view.node.remove();
    this.#notes.clear();
    this.#isFollowing = true;
  }

  #showEntry({ message, answer }, at) {
    const role = message?.role ?? "assistant";
    const text = message?.text ?? answer.text;
    let view = this.#views[at];
    // Another text is another message, but for the one that is being written.
    if (view === undefined || view.role !== role || !text.startsWith(view.text)) {
      const made = new MessageView(role, this.commands);
      if (view === undefined) this.root.append(made.node);
      else view.node.replaceWith(made.node);
      view = this.#views[at] = made;
    }
    view.setText(text);
    view.update(message === undefined ? this.#ofAnswer(answer) : this.#ofMessage(message, at));
  }

  #ofMessage(message, at) {
    const { chat } = this;
    const isIdle = chat.answer === null;
    const isLast = at === chat.entries.length - 1;
    return {
      name: `${{ user: "You", assistant: "Answer", system: "Instructions" }[message.role]}, message ${at + 1}`,
      ...this.#origin(message),
      branch: message.id !== null && isIdle ? this.#branch(message) : null,
      actions: message.id === null ? [] : this.#actions(message, at, isIdle, isLast),
      isBusy: false,
      notes: this.#notesOf(message),
    };
  }

  #ofAnswer(answer) {
    const { isRunning, report } = answer;
    const notes = isRunning ? [progressNote(answer, this.chat.connection.hello !== null)] : [];
    const miss = this.#kept(`${answer.response} ${report !== null}`, () => this.#missNote(report?.miss ?? null, report));
    return {
      name: "Answer",
      runs: null,
      isPast: true,
      branch: null,
      actions: [],
      isBusy: isRunning,
      notes: miss === null ? notes : [...notes, miss],
    };
  }

  #actions(message, at, isIdle, isLast) {
    const { commands } = this;
    const copy = { label: "Copy", icon: "copy", run: () => commands.copy(message.text) };
    const fork = { label: "Fork from here", icon: "fork", run: () => commands.fork(message) };
    if (message.role === "system") return [copy];
    if (!isIdle) return message.role === "user" ? [copy] : [copy, fork];
    if (message.role === "user") {
      const edit = { label: "Edit", icon: "edit", run: () => this.#startEdit(message, at) };
      const answer = { label: "Answer this", icon: "again", run: () => commands.again(message) };
      return isLast ? [copy, edit, answer] : [copy, edit];
    }
    const question = this.chat.conversation.messages.get(message.parent);
    const again = { label: "Answer again", icon: "again", run: () => commands.again(question) };
    return question?.role === "user" ? [copy, again, fork] : [copy, fork];
  }

  #branch(message) {
    const beside = this.chat.conversation.beside(message);
    if (beside.length < 2) return null;
    const at = beside.findIndex((each) => each.id === message.id);
    return { at, count: beside.length, go: (step) => this.commands.choose(beside[at + step]) };
  }

  /** Where the message's tokens came from in the last turn; before there was one, where they are. */
  #origin(message) {
    const { answer, conversation, inspection } = this.chat;
    const last = conversation?.path.at(-1);
    const ended = answer === null ? this.chat.endOf(last) : null;
    const turn = answer === null ? (ended?.report ?? null) : answer.report;
    const output = message === last ? (ended?.end.output ?? 0) : 0;
    if (output > 0) return { runs: [{ state: "generated", tokens: output }], isPast: true };
    // What is asked just now has no id here yet; it is the last one of its turn's report.
    const id = message.id ?? turn?.segments.findLast((segment) => segment.message !== null)?.message;
    return { runs: shares(turn ?? inspection).get(id) ?? null, isPast: turn !== null };
  }

  #notesOf(message) {
    if (message.role !== "assistant") return NOTHING;
    const ended = this.chat.endOf(message);
    const key = `${message.id} ${message.status} ${ended !== null}`;
    return this.#kept(key, () => {
      const notes = endNotes(message, ended?.end ?? null);
      const miss = this.#missNote(ended?.end.miss ?? null, { total: ended?.end.input });
      return miss === null ? notes : [...notes, miss];
    });
  }

  #kept(key, make) {
    if (!this.#notes.has(key)) this.#notes.set(key, make());
    return this.#notes.get(key);
  }

  #missNote(miss, report) {
    return miss === null || miss.reason === "cold" ? null : missNote(miss, report.total, this.#placeOf(miss.message));
  }

  #placeOf(id) {
    const { path } = this.chat.conversation;
    const at = path.findIndex((message) => message.id === id);
    if (at < 0) return null;
    const { role } = path[at];
    if (role === "system") return "the instructions";
    const count = path.slice(0, at + 1).filter((message) => message.role === role).length;
    return `${role === "user" ? "your message" : "answer"} ${number(count)}`;
  }

  #startEdit(message, at) {
    this.#closeEdit();
    const { node } = this.#views[at];
    const send = (text) => {
      this.#closeEdit();
      this.commands.edit(message, text);
    };
    this.#edit = new EditView(message.text, send, () => this.#closeEdit(true));
    this.#edit.opener = node;
    node.hidden = true;
    node.after(this.#edit.node);
    this.#edit.focus();
  }

  #closeEdit(focusBack = false) {
    if (this.#edit === null) return;
    const { opener } = this.#edit;
    this.#edit.node.remove();
    opener.hidden = false;
    if (focusBack) opener.querySelector('[aria-label="Edit"]')?.focus();
    this.#edit = null;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    this.#isFollowing = scrollHeight - scrollTop - clientHeight < NEAR;
    this.jump.hidden = this.#isFollowing;
  }

  #keepUp() {
    if (this.#isFollowing) this.follow();
  }
}
