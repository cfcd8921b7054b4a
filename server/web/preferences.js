// What the user chose on this device: how answers are sampled, what is shown. Owns one entry of the
// browser's storage.

const NAME = "radixchat.preferences";
const NUMBERS = ["temperature", "top_p", "max_output_tokens", "seed"];
// As `radixchat chat` asks: at the 1.0 of OpenAI's API a small model talks nonsense, and without a
// limit it may do so until the context is full.
const DEFAULTS = { temperature: 0.2, top_p: 0.9, max_output_tokens: 1024, draft: true, shading: true, panel: true };

export class Preferences {
  #values;

  constructor() {
    this.#values = { ...DEFAULTS, ...stored() };
  }

  get(name) {
    return this.#values[name] ?? null;
  }

  set(name, value) {
    this.#values[name] = value;
    localStorage.setItem(NAME, JSON.stringify(this.#values));
  }

  /** {body, x}: the fields of a request, where the user left none empty. */
  options() {
    const [temperature, top_p, max_output_tokens, seed] = NUMBERS.map((name) => this.get(name));
    return { body: { temperature, top_p, max_output_tokens }, x: { seed } };
  }
}

function stored() {
  try {
    const values = JSON.parse(localStorage.getItem(NAME) ?? "{}");
    return values !== null && typeof values === "object" ? values : {};
  } catch {
    return {}; // somebody else's, or an older page's
  }
}
