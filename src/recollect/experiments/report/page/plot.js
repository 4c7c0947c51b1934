// One plot: a pre-rendered SVG, its legend, and a tooltip for the point under the cursor.

const swatch = (colour) => el("span", { class: "swatch ink", style: { background: colour }, "aria-hidden": "true" });

// A plot is {title, benchmark, svg, marks, legend, wide}; a mark is [key, x, y, buffer, ...lines]. The key `lit` is highlighted
// unless the cursor is on another one; `follow` returns the link target of a key, by default its configuration.
function plotted({ title, benchmark, variant, svg, marks: all = [], legend = [], wide, configurations: ofRows, lit = null, follow = null }, hides = () => false) {
  const picture = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  picture.classList.add("ink");
  picture.setAttribute("role", "img");
  if (wide) {
    picture.setAttribute("aria-label", title);
    return el("div", { class: "scroll", role: "region", "aria-label": title, tabindex: 0 }, picture);
  }
  const tip = el("div", { class: "tip", hidden: true });
  const dot = el("div", { class: "dot ink", hidden: true });
  const box = el("div", { class: "plot" }, picture, dot, tip);
  const marks = all.filter(([key]) => !hides(key));
  const titles = new Map(legend.map(([key, name]) => [key, name]));
  let active = -1;

  for (const group of picture.querySelectorAll("[data-key]")) if (hides(group.dataset.key)) group.remove();
  const light = (pointed) => {
    const key = pointed ?? lit;
    picture.classList.toggle("dim", key !== null);
    for (const group of picture.querySelectorAll("[data-key]")) group.classList.toggle("lit", group.dataset.key === key);
  };
  // Convert SVG units to page pixels.
  const scale = () => picture.clientWidth / picture.viewBox.baseVal.width;
  const activate = (index) => {
    if (index === active) return;
    active = index;
    tip.hidden = dot.hidden = index < 0;
    if (index < 0) return light(null);
    const [key, left, top, , ...lines] = marks[index];
    const [x, y] = [left * scale(), top * scale()];
    light(key);
    tip.replaceChildren(el("strong", {}, nameOf(key)), ...lines.map((line) => el("div", {}, line)), ...oneOf(marks[index]).map((line) => el("div", {}, line)));
    dot.style.left = `${x}px`;
    dot.style.top = `${y}px`;
    tip.style.left = `${Math.max(0, Math.min(x + 12, box.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${y - tip.offsetHeight - 10 < 0 ? y + 14 : y - tip.offsetHeight - 10}px`;
  };
  const nameOf = (key) => titles.get(key) ?? report.methods[key]?.title ?? key;
  const oneOf = ([key, , , buffer]) => {
    const row = ofRows && shownRow(benchmark, variant, key, buffer);
    return row && siblings(row).length > 1 ? [`1 of ${configurations(siblings(row).length)}: ${row.why}`] : [];
  };
  const nearest = (event) => {
    const place = picture.getBoundingClientRect();
    let [best, distance] = [-1, 30 ** 2];
    marks.forEach(([, x, y], n) => {
      const d = (x * scale() - event.clientX + place.left) ** 2 + (y * scale() - event.clientY + place.top) ** 2;
      if (d < distance) [best, distance] = [n, d];
    });
    return best;
  };
  const open = () => {
    if (!marks[active]) return;
    const [key, , , buffer] = marks[active];
    const row = !follow && shownRow(benchmark, variant, key, buffer);
    const target = follow ? follow(key) : row && addressOf(row);
    if (target) location.hash = target;
  };
  fill(picture, {
    tabindex: 0,
    "aria-label": `${title.replaceAll("\n", ", ")}. Use the arrow keys to move between points and Enter to open one.`,
    onpointermove: (event) => activate(nearest(event)),
    onpointerleave: () => activate(-1),
    onblur: () => activate(-1),
    onclick: (event) => { activate(nearest(event)); if (event.pointerType === "mouse") open(); },
    onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step && marks.length) {
        event.preventDefault();
        activate((Math.max(active, step < 0 ? 0 : -1) + step + marks.length) % marks.length);
        const [key, , , , ...lines] = marks[active];
        say([nameOf(key), ...lines, ...oneOf(marks[active])].join(", "));
      } else if (event.key === "Enter") open();
      else if (event.key === "Escape") activate(-1);
    },
  }, []);
  light(null);
  return el("figure", {}, el("figcaption", {}, title), box,
    legend.length > 0 && el("ul", { class: "legend" }, legend.filter(([key]) => !hides(key)).map(([key, name, colour]) =>
      el("li", { onpointerenter: () => light(key), onpointerleave: () => light(null) }, swatch(colour), name))));
}

// The configuration shown in a figure for a method and buffer.
function shownRow(benchmark, variant, method, buffer) {
  const usual = report.benchmarks[benchmark]?.epochs;
  return report.rows.find((row) => row.why && row.benchmark === benchmark && row.variant === variant && row.method === method && row.buffer === buffer
    && !row.validation && row.epochs === (usual ?? row.epochs));
}
