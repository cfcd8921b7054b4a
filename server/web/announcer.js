// What a screen reader is told: that an answer has begun, and the answer when it is there, never
// its single tokens. Owns one live region.

const LETTERS = 1200;

export class Announcer {
  constructor(region) {
    this.region = region;
  }

  say(text) {
    // The same words again are news too: a live region speaks only of what changes.
    this.region.textContent = this.region.textContent === text ? `${text}\u00a0` : text;
  }

  began() {
    this.say("Answering.");
  }

  /** text: the answer as it is to be read. */
  ended({ end }, text) {
    const how = end.status === "completed" ? "Answer:" : end.status === "failed" ? "The answer failed." : "Stopped:";
    const letters = [...text];
    const said = letters.length <= LETTERS ? text : `${letters.slice(0, LETTERS).join("")} … The answer goes on.`;
    this.say(`${how} ${said}`);
  }
}
