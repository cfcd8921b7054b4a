// What is said below an answer: how far it is, what the cache saved, why it saved no more, how it
// ended. Values to nodes; knows no conversation.

import { CAME } from "./cache_shading.js";
import { element } from "./dom.js";
import { explainMiss, number } from "./miss.js";

const ENDINGS = {
  max_output_tokens: "The answer ends here: it has as many tokens as were asked for.",
  context_length: "The answer ends here: the conversation is as long as the model can see.",
  deadline: "The answer ends here: its time is up.",
  interrupted: "Stopped.",
  server_shutdown: "The server went away while it answered.",
  unknown: "This answer is not complete.",
};

/** One line while an answer runs. */
export function progressNote(answer, isConnected) {
  return element("p", { class: "progress" }, progressText(answer, isConnected));
}

function progressText(answer, isConnected) {
  if (!isConnected) return "Waiting for the connection …";
  if (answer.wantsStop) return "Stopping …";
  if (answer.response === null) return "Sent …";
  if (answer.text !== "") return "";
  const { progress } = answer;
  if (progress === null) return "Waiting for its turn …";
  const fresh = progress.total - progress.cached;
  const done = progress.processed - progress.cached;
  const cached = progress.cached > 0 ? `, ${number(progress.cached)} more were in the cache` : "";
  return `Reading ${number(done)} of ${number(fresh)} tokens${cached} …`;
}

/** Below an answer that has ended. end: null where this page was not there. */
export function endNotes(message, end) {
  const notes = [];
  const reason = end?.reason ?? (message.status === "interrupted" ? "unknown" : null);
  const isFailed = end?.status === "failed" || message.status === "error";
  if (isFailed) {
    notes.push(element("p", { class: "ending failed" }, end?.error?.message ?? "The answer failed."));
  } else if (reason !== null) {
    notes.push(element("p", { class: "ending" }, ENDINGS[reason] ?? reason));
  }
  if (end?.leftOut.length > 0) {
    const count = end.leftOut.length;
    notes.push(element("p", { class: "ending" }, `The model was not shown the oldest ${count} messages.`));
  }
  if (end !== null && end.input !== null && end.input > 0) notes.push(usageNote(end));
  return notes;
}

function usageNote({ input, cached, below, firstMs, perSecond }) {
  const share = Math.round((100 * cached) / input);
  const far = Object.entries(below).filter(([, tokens]) => tokens > 0);
  const from = far.map(([place, tokens]) => `, ${number(tokens)} ${CAME[place]}`).join("");
  const parts = [
    element("span", {}, element("strong", {}, `${number(cached)} of ${number(input)}`), ` tokens cached (${share} %)${from}`),
    element("span", {}, `${number(input - cached)} computed`),
  ];
  if (firstMs !== null) parts.push(element("span", {}, `first token after ${seconds(firstMs)}`));
  if (perSecond !== null) parts.push(element("span", {}, `${Math.round(perSecond)} tokens/s`));
  return element("p", { class: "usage" }, ...parts);
}

function seconds(ms) {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** Why no more was in the cache, with both texts where the prompts differ. */
export function missNote(miss, total, place) {
  const { headline, explanation, expected, got } = explainMiss(miss, total ?? 0, place);
  const texts =
    expected === null || got === null
      ? []
      : [
          element(
            "dl",
            { class: "texts" },
            element("dt", {}, "Before"),
            element("dd", {}, element("code", {}, expected)),
            element("dt", {}, "Now"),
            element("dd", {}, element("code", {}, got)),
          ),
        ];
  return element(
    "details",
    { class: `miss ${miss.reason}` },
    element("summary", {}, headline),
    element("p", {}, explanation),
    ...texts,
  );
}
