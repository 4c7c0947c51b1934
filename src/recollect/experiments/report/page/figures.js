// The figures: pre-rendered plots, selected by the filters and the chosen view.

const views = new Map(); // by figure: the view chosen last
const unpacked = report.figures.drawn && unpack(report.figures.drawn);

async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

function showFigures() {
  if (report.figures.missing) return el("p", { class: "empty" }, report.figures.missing);
  if (!chosen().length) return el("p", { class: "empty" }, "No runs match the filters.");
  const holder = el("div");
  unpacked.then((figures) => {
    const sections = figures.map(section).filter(Boolean);
    holder.append(jumps(sections), ...sections);
  });
  return holder;
}

// Buttons, not links: the address holds the filters.
const jumps = (sections) => el("nav", { class: "chips jumps", "aria-label": "Figures" }, sections.map((section) => el("button", { type: "button", class: "quiet",
  onclick: () => { section.scrollIntoView({ block: "start" }); section.querySelector("h2").focus({ preventScroll: true }); } }, section.querySelector("h2").textContent)));

const wanted = (name, value) => !state.filters[name].size || !value || state.filters[name].has(String(value));
// Variants that exist only in a figure follow the method that they are named after.
const hidden = (key) => !wanted("method", key) && !(key.endsWith("-at-ends") && wanted("method", key.slice(0, -"-at-ends".length)));

function section({ name, title, note, plots, configurations }) {
  const shown = plots.filter(({ benchmark, buffer, marks }) => wanted("benchmark", benchmark) && wanted("buffer", buffer)
    && (!marks || marks.some(([key]) => !hidden(key))));
  if (!shown.length) return null;
  const choices = [...new Set(shown.map(({ view }) => view).filter(Boolean))];
  const holder = el("div", { class: "panels" });
  const show = (view) => {
    views.set(name, view);
    holder.replaceChildren(...shown.filter((plot) => !plot.view || plot.view === view).map((plot) => plotted({ title, configurations, ...plot }, hidden)));
  };
  show(choices.includes(views.get(name)) ? views.get(name) : choices[0]);
  return el("section", { class: "figure", "data-figure": name }, el("h2", { tabindex: -1 }, title), el("p", { class: "faint" }, note, configurations && several.length > 0 && [" If a method and buffer have several configurations, a point shows the default one, or else the one with the best mean accuracy; its tooltip says so. ", el("a", { href: address("tables") }, "Tables"), " show the others."]),
    choices.length > 1 && el("div", { class: "choices" }, choice("Show", choices.map((view) => [view, view]), views.get(name), show)),
    holder);
}
