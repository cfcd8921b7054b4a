// The page's few questions: the key, a name, whether to delete, the settings. Each is a <dialog>
// of the page; what it answers is a promise.

/** The form's values by name when it is sent; null when it is left. */
export function ask(dialog, values = {}) {
  const form = dialog.querySelector("form");
  form.reset();
  for (const [name, value] of Object.entries(values)) {
    const field = form.elements.namedItem(name);
    if (field.type === "checkbox") field.checked = Boolean(value);
    else field.value = value ?? "";
  }
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    const done = () => resolve(dialog.returnValue === "yes" ? valuesOf(form) : null);
    dialog.addEventListener("close", done, { once: true });
  });
}

function valuesOf(form) {
  const values = {};
  for (const field of form.elements) {
    if (!field.name) continue;
    if (field.type === "checkbox") values[field.name] = field.checked;
    else if (field.type === "number") values[field.name] = field.value === "" ? null : field.valueAsNumber;
    else values[field.name] = field.value;
  }
  return values;
}

/** Makes every button that closes a dialog do that; sending a form says "yes". */
export function prepare(dialog) {
  const form = dialog.querySelector("form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.close("yes");
  });
  for (const button of dialog.querySelectorAll("[data-close]")) {
    button.addEventListener("click", () => dialog.close());
  }
}
