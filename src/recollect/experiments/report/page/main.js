// The frame: views, filters, light and dark.

const VIEWS = { tables: "Tables", figures: "Figures" };
const SHOW = { tables: showTables, figures: showFigures, run: showRun };

function showView() {
  closeCard();
  byId("overview").hidden = state.view !== "tables";
  byId("overview").replaceChildren(...[overview()].flat(Infinity));
  byId("view").replaceChildren(...[SHOW[state.view]()].flat(Infinity).filter(Boolean));
  byId("views").replaceChildren(...Object.entries(VIEWS).map(([view, title]) => el("a", { href: address(view), "aria-current": state.view === view ? "page" : null }, title)));
  document.title = state.view === "run" ? `${named(state.row)}, ${groupTitle(state.row)}${state.seed === null ? "" : `, seed ${state.seed}`}: recollect report` : `${VIEWS[state.view]}: recollect report`;
}

const chips = {
  benchmark: ["Benchmark", Object.keys(report.benchmarks).map((name) => [name, name])],
  method: ["Method", METHODS.map((name) => [name, report.methods[name].title, swatch(report.methods[name].colour)])],
  buffer: ["Buffer", buffers.map((size) => [bufferName(size), bufferName(size)])],
  verdict: ["Verdict", [...Object.entries(VERDICTS).map(([word, mark]) => [word, `${mark} ${word}`]), [NO_VERDICT, NO_VERDICT]]],
};
const pressed = new Map();
const filterCount = el("span");
const metricChips = el("fieldset", {}, el("legend", {}, "Score"), METRICS.map((metric) => {
  const button = el("button", { type: "button", onclick: () => { state.metric = metric; changed(); } }, report.metrics[metric]);
  pressed.set(button, () => state.metric === metric);
  return button;
}));
const fieldsets = Object.fromEntries(FILTERS.map((name) => [name, el("fieldset", { "data-filter": name }, el("legend", {}, chips[name][0]), chips[name][1].map(([value, label, mark]) => {
  const button = el("button", { type: "button", "data-value": value, onclick: () => changeFilter(name, value) }, mark, label);
  pressed.set(button, () => state.filters[name].has(value));
  return button;
}))]));
const clear = el("button", { type: "button", class: "quiet", onclick: () => { for (const name of FILTERS) state.filters[name].clear(); changed(); } }, "Clear the filters");

function showFilters() {
  byId("filters").hidden = state.view === "run";
  metricChips.hidden = fieldsets.verdict.hidden = state.view !== "tables";
  for (const [button, test] of pressed) button.setAttribute("aria-pressed", String(test()));
  const count = FILTERS.reduce((sum, name) => sum + state.filters[name].size, 0);
  filterCount.textContent = count ? `Filters (${count} chosen)` : "Filters";
  clear.hidden = count === 0;
}

function go() {
  readAddress();
  showFilters();
  showView();
  if (arrived) { scrollTo(0, 0); byId("main").focus({ preventScroll: true }); }
  arrived = true;
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
const nameTheme = () => { byId("theme").textContent = isDark() ? "Light" : "Dark"; byId("theme").setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`); };
// A page from disk may have no storage: the choice then lasts as long as the page.
const remembered = (value) => { try { if (value) localStorage.setItem("recollect-theme", value); return localStorage.getItem("recollect-theme"); } catch { return null; } };

let arrived = false;
if (remembered()) root.dataset.theme = remembered();
byId("theme").addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; remembered(root.dataset.theme); nameTheme(); });
dark.addEventListener("change", nameTheme);
nameTheme();
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); byId("main").focus(); });
byId("filters").append(el("details", { open: matchMedia("(min-width: 45rem)").matches }, el("summary", {}, filterCount), metricChips, FILTERS.map((name) => fieldsets[name]), clear));
byId("footer").append(el("p", {}, `recollect ${report.version}. ${report.runs} runs, ${report.rows.length} configurations`
  + (report.repeated ? `; ${report.repeated} that were made twice are shown once, the latest.` : ".")
  + " The paper is Buzzega et al., Dark Experience for General Continual Learning, 2020."));
addEventListener("hashchange", go);
go();
