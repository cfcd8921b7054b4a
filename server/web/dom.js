// How nodes are made: every text becomes a text node, every attribute is set by name.
// Nothing here, and so nothing on the page, parses a string as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. Attributes: functions are listeners, true is present, false and null are absent. */
export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function shape(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** A button that says what it does, whether or not it has a picture. */
export function button(label, onClick, attributes = {}, ...children) {
  const shown = children.length > 0 ? children : [label];
  const name = children.length > 0 ? { "aria-label": label, title: label } : {};
  return element("button", { type: "button", click: onClick, ...name, ...attributes }, ...shown);
}

const ICONS = {
  menu: "M3 5h14M3 10h14M3 15h14",
  close: "M5 5l10 10M15 5L5 15",
  plus: "M10 4v12M4 10h12",
  edit: "M4 16l1-4 8-8 3 3-8 8zM12 5l3 3",
  copy: "M7 7h9v9H7zM13 7V4H4v9h3",
  check: "M4 11l4 4 8-9",
  again: "M16 10a6 6 0 1 1-2-4.5M16 3v4h-4",
  fork: "M5 4v12M5 11c0-4 10-1 10-7M5 4l-2 2M5 4l2 2M15 4l-2 2M15 4l2 2",
  left: "M12 5l-5 5 5 5",
  right: "M8 5l5 5-5 5",
  send: "M10 16V4M5 9l5-5 5 5",
  stop: "M6 6h8v8H6z",
  more: "M4.5 10h.01M10 10h.01M15.5 10h.01",
  cache: "M3 5h6M3 10h14M9 5c4 0 2 5 4 5M7 10c4 0 2 5 4 5h6",
  gear: "M4 6h6M14 6h2M4 14h2M10 14h6M12 4v4M8 12v4",
};

/** A line drawing, 20 units wide, in the colour of the text around it. */
export function icon(name) {
  return shape(
    "svg",
    { viewBox: "0 0 20 20", class: `icon icon-${name}`, "aria-hidden": "true" },
    shape("path", { d: ICONS[name] }),
  );
}
