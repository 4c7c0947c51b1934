// One kind of plot for all figures: series of points, with lines or without, on two scales.

const SHAPES = {
  circle: (x, y, r) => svg("circle", { cx: x, cy: y, r }),
  square: (x, y, r) => svg("rect", { x: x - r, y: y - r, width: 2 * r, height: 2 * r }),
  triangle: (x, y, r) => svg("path", { d: `M${x} ${y - 1.2 * r}L${x + 1.2 * r} ${y + r}H${x - 1.2 * r}Z` }),
  diamond: (x, y, r) => svg("path", { d: `M${x} ${y - 1.4 * r}L${x + 1.4 * r} ${y}L${x} ${y + 1.4 * r}L${x - 1.4 * r} ${y}Z` }),
};
const SHAPE_NAMES = Object.keys(SHAPES);
const COLOURS = 11;
const look = (place) => ({ colour: `c${place % COLOURS}`, shape: SHAPE_NAMES[Math.floor(place / COLOURS) % SHAPE_NAMES.length] });
const lookOf = (row) => look(METHODS.indexOf(row.method));
const swatch = ({ colour, shape }) => svg("svg", { class: `swatch ${colour}`, viewBox: "0 0 12 12", "aria-hidden": "true" }, SHAPES[shape](6, 6, 4));

function linearTicks([low, high], count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) ticks.push([at, String(+at.toFixed(6)).replace("-", "−")]);
  return ticks;
}

function logTicks([low, high], named) {
  const steps = Math.log10(high / low) < 2.5 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    for (const step of steps) {
      const at = step * 10 ** power;
      if (at >= low && at <= high) ticks.push([at, named(at)]);
    }
  }
  return ticks;
}

// Bytes go up by fours: 4 KiB, 16 KiB, ..., 1 MiB.
function byteTicks([low, high]) {
  const ticks = [];
  for (let at = 4 ** Math.ceil(Math.log(low) / Math.log(4)); at <= high; at *= 4) ticks.push([at, bytes(at)]);
  return ticks;
}

function extent(values, { log = false, room = 0.06 } = {}) {
  const seen = log ? values.filter((v) => v > 0).map(Math.log10) : values;
  let [low, high] = [Math.min(...seen), Math.max(...seen)];
  const pad = (high - low) * room || 0.5;
  [low, high] = [low - pad, high + pad];
  return log ? [10 ** low, 10 ** high] : [low, high];
}

const percents = (values) => { const [low, high] = extent(values); return [Math.max(low, Math.min(0, ...values)), Math.min(high, Math.max(100, ...values))]; };

// plot({title, height, left, x, y, series}): x and y are {title, domain, ticks, log}; a series has a
// label, a colour, a shape, perhaps a line, and points {x, y, low, high, hollow, lines, href}.
function plot(spec) {
  const tip = el("div", { class: "tip", hidden: true });
  const box = el("div", { class: "plot" }, tip);
  const legend = spec.legend ? el("ul", { class: "legend" }) : null;
  const figure = el("figure", {}, el("figcaption", {}, spec.title), box, legend);
  let picture = null;
  let marks = [];
  let active = -1;

  const light = (key) => {
    picture.classList.toggle("dim", key !== null);
    for (const group of picture.querySelectorAll("[data-key]")) group.classList.toggle("lit", group.dataset.key === key);
  };
  const activate = (place) => {
    if (place === active) return;
    marks[active]?.mark.classList.remove("active");
    active = place;
    tip.hidden = place < 0;
    if (place < 0) return light(null);
    const { point, series, mark, px, py } = marks[place];
    mark.classList.add("active");
    light(series.key);
    tip.replaceChildren(el("strong", {}, series.label), ...point.lines.map((line) => el("div", {}, line)));
    tip.style.left = `${Math.max(0, Math.min(px + 12, box.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${py - tip.offsetHeight - 10 < 0 ? py + 14 : py - tip.offsetHeight - 10}px`;
  };
  const nearest = (event) => {
    const place = picture.getBoundingClientRect();
    const [x, y] = [event.clientX - place.left, event.clientY - place.top];
    let [best, distance] = [-1, 30 ** 2];
    marks.forEach(({ px, py }, n) => {
      const d = (px - x) ** 2 + (py - y) ** 2;
      if (d < distance) [best, distance] = [n, d];
    });
    return best;
  };
  const walk = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step && marks.length) {
      event.preventDefault();
      activate((active + step + marks.length) % marks.length);
      say([marks[active].series.label, ...marks[active].point.lines].join(", "));
    } else if (event.key === "Enter" && active >= 0 && marks[active].point.href) location.hash = marks[active].point.href;
    else if (event.key === "Escape") activate(-1);
  };

  function draw() {
    const width = Math.max(260, box.clientWidth);
    const edge = { left: spec.left ?? 52, right: 12, top: 8, bottom: 40 };
    const scale = ({ domain: [low, high], log }, from, to) => {
      const f = log ? Math.log : (v) => v;
      return (v) => from + ((f(v) - f(low)) / (f(high) - f(low))) * (to - from);
    };
    const [right, bottom] = [width - edge.right, spec.height - edge.bottom];
    const x = scale(spec.x, edge.left, right);
    const y = scale(spec.y, bottom, edge.top);
    marks = [];
    active = -1;
    let free = -Infinity;
    const ticks = spec.x.ticks.filter(([at, label]) => {
      const half = 3.4 * label.length + 4;
      if (x(at) - half < free || x(at) > right + 1) return false;
      free = x(at) + half;
      return true;
    });
    const fresh = svg("svg", {
      width, height: spec.height, tabindex: 0, role: "img",
      "aria-label": `${spec.title}: ${spec.y.title ?? "methods"} against ${spec.x.title}. Arrow keys go from point to point, Enter opens one.`,
      onpointermove: (event) => activate(nearest(event)),
      onpointerleave: () => activate(-1),
      onclick: (event) => { const n = nearest(event); activate(n); if (n >= 0 && event.pointerType === "mouse" && marks[n].point.href) location.hash = marks[n].point.href; },
      onkeydown: walk,
      onblur: () => activate(-1),
    },
      svg("g", { class: "grid" },
        spec.y.ticks.map(([at, label]) => [
          svg("line", { x1: edge.left, x2: right, y1: y(at), y2: y(at) }),
          svg("text", { x: edge.left - 6, y: y(at) + 4, "text-anchor": "end" }, label)]),
        ticks.map(([at, label]) => [
          svg("line", { x1: x(at), x2: x(at), y1: edge.top, y2: bottom }),
          svg("text", { x: x(at), y: bottom + 16, "text-anchor": "middle" }, label)]),
        (spec.x.marks ?? []).map((at) => svg("line", { class: "boundary", x1: x(at), x2: x(at), y1: edge.top, y2: bottom })),
        svg("text", { class: "axis", x: (edge.left + right) / 2, y: spec.height - 5, "text-anchor": "middle" }, spec.x.title),
        spec.y.title && svg("text", { class: "axis", transform: `translate(12 ${(edge.top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, spec.y.title)),
      spec.series.map((series) => {
        const drawn = series.points.map((point) => {
          const [px, py] = [x(point.x), y(point.y)];
          const mark = SHAPES[series.shape](px, py, point.size ?? 4);
          mark.classList.add("mark");
          if (point.hollow) mark.classList.add("hollow");
          if (point.quiet) mark.classList.add("quiet");
          marks.push({ point, series, mark, px, py });
          const spread = point.low !== undefined && !series.band && (spec.sideways
            ? svg("line", { class: "spread", x1: x(point.low), x2: x(point.high), y1: py, y2: py })
            : svg("line", { class: "spread", x1: px, x2: px, y1: y(point.low), y2: y(point.high) }));
          return [spread, mark];
        });
        const line = series.line && svg("path", { class: `line ${series.line}`, d: `M${series.points.map((p) => `${x(p.x)} ${y(p.y)}`).join("L")}` });
        const edges = series.band && [...series.points.map((p) => [p.x, p.high]), ...series.points.map((p) => [p.x, p.low]).reverse()];
        const band = edges && svg("path", { class: "band", d: `M${edges.map(([at, value]) => `${x(at)} ${y(Math.max(value, spec.y.domain[0]))}`).join("L")}Z` });
        return svg("g", { class: series.colour, "data-key": series.key }, band, line, drawn);
      }));
    picture?.remove();
    picture = fresh;
    box.prepend(fresh);
  }

  legend?.append(...spec.series.filter((s) => !s.unlisted).map((series) => el("li", { onpointerenter: () => light(series.key), onpointerleave: () => light(null) }, swatch(series), series.label)));
  let known = 0;
  new ResizeObserver(() => { if (box.clientWidth !== known) { known = box.clientWidth; draw(); } }).observe(box);
  return figure;
}
