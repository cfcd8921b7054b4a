// Text to the clipboard, and to a file. Browsers have their clipboard for secure pages only, so a
// page served over plain HTTP selects the text and copies that.

import { element } from "./dom.js";

export async function copyText(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const field = element("textarea", { class: "unseen", "aria-hidden": "true", tabindex: "-1" });
  const focused = document.activeElement;
  field.value = text;
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  focused?.focus();
  if (!isCopied) throw new Error("The browser did not let the page copy.");
}

export function saveText(text, name, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  element("a", { href: address, download: name }).click();
  URL.revokeObjectURL(address);
}
