// The list and the cache beside the conversation: columns where there is room, else drawers over
// it, one at a time. Owns which is open; what does not show cannot be reached by the keyboard.

export class Drawer {
  /** wide: a media query: with that much room it is a column. isOpen: whether it is open there. */
  constructor(panel, opener, { wide, isOpen, onChange }) {
    Object.assign(this, { panel, opener, onChange });
    this.media = matchMedia(wide);
    this.isColumnOpen = isOpen;
    this.isOver = false;
    opener.addEventListener("click", () => this.toggle());
    this.media.addEventListener("change", () => {
      this.isOver = false;
      this.#show();
    });
    this.#show();
  }

  get isVisible() {
    return this.media.matches ? this.isColumnOpen : this.isOver;
  }

  toggle() {
    const wasVisible = this.isVisible;
    if (this.media.matches) this.isColumnOpen = !wasVisible;
    else this.isOver = !wasVisible;
    this.#show();
    if (!this.media.matches && this.isOver) this.panel.querySelector("button, a, input")?.focus();
    this.onChange(this);
  }

  /** Closes it where it lies over the conversation; whether it did. */
  dismiss() {
    if (!this.isOver) return false;
    this.isOver = false;
    this.#show();
    this.opener.focus();
    this.onChange(this);
    return true;
  }

  #show() {
    this.panel.inert = !this.isVisible;
    this.panel.classList.toggle("open", this.isVisible);
    this.opener.setAttribute("aria-expanded", String(this.isVisible));
  }
}
