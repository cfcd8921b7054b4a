// The page: makes its parts and lets them hear of each other. What is shown is in the address, so
// that a page that is loaded again is where it was.

import { forgetKey, storeKey, storedKey, whyRefused } from "./access_key.js";
import { Announcer } from "./announcer.js";
import { CacheView } from "./cache_view.js";
import { Chat } from "./chat.js";
import { copyText, saveText } from "./clipboard.js";
import { ComposerView } from "./composer_view.js";
import { Connection, ConnectionLost, Refused } from "./connection.js";
import { ask, prepare } from "./dialogs.js";
import { icon } from "./dom.js";
import { Drawer } from "./drawers.js";
import { headingOf } from "./heading.js";
import { ListView } from "./list_view.js";
import { number } from "./miss.js";
import { Notices } from "./notices.js";
import { Preferences } from "./preferences.js";
import { SessionList } from "./session_list.js";
import { TranscriptView } from "./transcript_view.js";

const byId = (id) => document.getElementById(id);
const preferences = new Preferences();
const announcer = new Announcer(byId("announcer"));
const notices = new Notices(byId("alert"), byId("connection"), byId("notices"));

const connection = new Connection({
  url: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1/responses`,
  key: storedKey,
  why: whyRefused,
  onState: connectionChanged,
  onEvent: heard,
});
const chat = new Chat(connection, {
  options: () => preferences.options(),
  on: {
    conversation: showConversation,
    text: () => transcript.showText(),
    answer: showAnswer,
    ended,
    cache: showCache,
    sessions: () => attempt(() => sessions.load()),
    refused: showRefusal,
    gone: () => go(null),
  },
});
const sessions = new SessionList(connection, () => list.show(chat.conversation?.id ?? null));
const list = new ListView(byId("list"), byId("search"), byId("list-status"), {
  list: sessions,
  isAnswering: (id) => chat.isAnswering(id),
  onMore: () => attempt(() => sessions.loadMore()),
  onSearch: (text) => attempt(() => sessions.search(text)),
});
const transcript = new TranscriptView(byId("messages"), byId("scroller"), chat, {
  copy: (text) => attempt(() => copyText(text).then(() => announcer.say("Copied."))),
  edit: (message, text) => attempt(() => chat.edit(message, text)),
  again: (question) => attempt(() => chat.answerAgain(question)),
  choose: (message) => attempt(() => chat.choose(message)),
  fork: (message) => attempt(async () => go(await chat.fork(message))),
});
const composer = new ComposerView(byId("composer"), {
  send: say,
  stop: () => chat.stop(),
  draft: (text) => preferences.get("draft") && attempt(() => chat.typed(text)),
  editLast: () => transcript.editLast(),
});
const drawers = [
  new Drawer(byId("list-panel"), byId("open-list"), {
    wide: "(min-width: 56rem)",
    isOpen: true,
    onChange: onlyOneOver,
  }),
  new Drawer(byId("cache-panel"), byId("open-cache"), {
    wide: "(min-width: 75rem)",
    isOpen: preferences.get("panel"),
    onChange: (drawer) => {
      onlyOneOver(drawer);
      if (drawer.media.matches) preferences.set("panel", drawer.isVisible);
      attempt(() => cache.poll());
    },
  }),
];
const cache = new CacheView(byId("cache"), chat, () => drawers[1].isVisible);

// -- what happened ---------------------------------------------------------------------------

function connectionChanged(state) {
  notices.connection(state, connection);
  if (state.name === "open") {
    attempt(() => chat.greeted(state.hello));
    attempt(() => sessions.load());
    attempt(() => cache.poll());
  } else if (state.name === "refused" && state.code === 3000) {
    askForKey();
  }
  if (state.name !== "connecting" && chat.answer !== null) transcript.show();
}

function heard(event) {
  if (event.type === "server.draining") notices.draining(event);
  else chat.take(event);
}

function showConversation() {
  const { conversation } = chat;
  const title = conversation === null ? "New conversation" : headingOf(conversation.session);
  byId("title").textContent = title;
  document.title = conversation === null ? "radixchat" : `${title} · radixchat`;
  byId("more").hidden = conversation === null;
  byId("welcome").hidden = chat.entries.length > 0;
  if (conversation !== null && addressed()[0] !== conversation.id) {
    history.replaceState(null, "", `#${conversation.id}`);
  }
  list.show(conversation?.id ?? null);
  showAnswer();
}

function showAnswer() {
  composer.setRunning(chat.isBusy);
  showCache();
  attempt(() => cache.poll());
}

function showCache() {
  cache.show();
  transcript.show();
  const { tokens } = chat.draft;
  byId("hint").textContent =
    tokens > 0 ? `${number(tokens)} tokens are computed already, with what you have written.` : "";
}

function ended(answer) {
  if (answer.conversation !== chat.conversation?.id) return;
  transcript.show();
  announcer.ended(answer, transcript.lastText);
}

function showRefusal(error, answer) {
  if (answer?.question) composer.restore(answer.question);
  notices.error(error);
  showConversation();
}

// -- what the user wants ---------------------------------------------------------------------

async function say(text) {
  transcript.follow();
  const instructions = byId("instructions").value.trim() || null;
  try {
    await chat.say(text, instructions);
    notices.clear();
    announcer.began();
    transcript.follow();
  } catch (error) {
    composer.restore(text);
    report(error);
  }
}

/** [conversation, message] that the address names; null: a new one, none. */
function addressed() {
  const [id, message] = location.hash.slice(1).split("/");
  return [id || null, message ?? null];
}

function go(id) {
  if (id === null) history.pushState(null, "", location.pathname);
  else history.pushState(null, "", `#${id}`);
  return showAddressed();
}

let showing = 0; // counts what was asked for; only the last takes the focus, or fails

async function showAddressed() {
  const mine = ++showing;
  const [id, message] = addressed();
  for (const drawer of drawers) drawer.dismiss();
  notices.clear();
  try {
    if (id === null) chat.showNew();
    else await chat.show(id);
    if (mine !== showing) return;
    if (message !== null && transcript.reveal(message)) return;
  } catch (error) {
    if (mine !== showing) return;
    if (error instanceof Refused && error.details.code?.endsWith("not_found")) go(null);
    report(error);
  }
  composer.focus();
}

/** Runs something that may fail; what failed is said. */
async function attempt(action) {
  try {
    await action();
  } catch (error) {
    report(error);
  }
}

function report(error) {
  if (error instanceof ConnectionLost) return; // that is shown already, and what ran is resumed
  if (!(error instanceof Refused)) console.error(error);
  notices.error(error);
}

async function askForKey() {
  const dialog = byId("key-dialog");
  if (dialog.open) return;
  byId("key-wrong").hidden = storedKey() === null;
  const values = await ask(dialog);
  if (values === null) return;
  storeKey(values.key.trim(), values.onDevice);
  connection.connect();
}

async function changeSettings() {
  const names = ["temperature", "top_p", "max_output_tokens", "seed", "draft", "shading"];
  byId("forget-key").hidden = storedKey() === null;
  const old = Object.fromEntries(names.map((name) => [name, preferences.get(name)]));
  const values = await ask(byId("settings-dialog"), old);
  if (values === null) return;
  for (const name of names) preferences.set(name, values[name]);
  shade();
}

function shade() {
  document.body.classList.toggle("shaded", preferences.get("shading"));
}

async function rename() {
  const values = await ask(byId("rename-dialog"), { name: headingOf(chat.conversation.session) });
  if (values !== null) await chat.rename(values.name.trim());
}

async function remove() {
  if ((await ask(byId("delete-dialog"))) === null) return;
  await chat.remove();
  await go(null);
}

async function save(format, ending, type) {
  const { id } = chat.conversation.session;
  const name = headingOf(chat.conversation.session).replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60);
  saveText(await chat.commands.export(id, format), `${name || "conversation"}.${ending}`, type);
}

function onlyOneOver(opened) {
  for (const drawer of drawers) if (drawer !== opened && opened.isOver) drawer.dismiss();
}

// -- buttons and keys ------------------------------------------------------------------------

const PICTURES = { "open-list": "menu", "close-list": "close", more: "more", "open-cache": "cache", "close-cache": "close", settings: "gear" };
for (const [id, picture] of Object.entries(PICTURES)) byId(id).append(icon(picture));
for (const dialog of document.querySelectorAll("dialog")) prepare(dialog);

const CLICKS = {
  new: () => go(null),
  settings: changeSettings,
  rename,
  delete: remove,
  "export-markdown": () => save("markdown", "md", "text/markdown"),
  "export-json": () => save("json", "json", "application/json"),
  "close-list": () => drawers[0].dismiss(),
  "close-cache": () => drawers[1].dismiss(),
  "forget-key": () => {
    forgetKey();
    location.reload();
  },
};
for (const [id, action] of Object.entries(CLICKS)) {
  byId(id).addEventListener("click", () => {
    if (byId("menu").contains(byId(id))) byId("menu").hidePopover();
    attempt(action);
  });
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !event.isComposing && !document.querySelector("dialog[open], :popover-open")) {
    if (!drawers.some((drawer) => drawer.dismiss())) chat.stop();
  } else if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    if (!drawers[0].isVisible) drawers[0].toggle();
    byId("search").select();
  }
});
document.addEventListener("visibilitychange", () => document.hidden || connection.hurry());
addEventListener("online", () => connection.hurry());
addEventListener("popstate", showAddressed); // a link's fragment fires it, too

shade();
connection.connect();
showAddressed();
