// DOM elements. Data become text nodes and attributes only, never markup.

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const byId = (id) => document.getElementById(id);
const say = (text) => { byId("said").textContent = text; };

function choice(label, options, chosen, changed) {
  const select = el("select", { onchange: () => changed(select.value) },
    options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
  return el("label", { class: "choice" }, label, " ", select);
}

function command(text) {
  const button = el("button", { type: "button", class: "quiet", onclick: () => copy(text, button) }, "Copy");
  // Avoid a line break between an option and its value.
  const words = text.split(/ (?=--)/).flatMap((word, n) => [n ? " " : "", el("span", {}, word)]);
  return el("div", { class: "command" }, el("code", {}, words), button);
}

async function copy(text, button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages opened from disk may have no clipboard access: select a copy of the text instead.
    const area = el("textarea", { class: "unseen", "aria-label": "Command" });
    area.value = text;
    button.after(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = done ? "Copied" : "Select it manually";
  say(done ? "Copied" : "Could not copy");
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}
