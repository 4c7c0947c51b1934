// The frame of the page: views, filters, colour theme.

const figuresView = Boolean(report.figures.drawn || report.figures.missing);
const VIEWS = { tables: "Tables", ...(figuresView && { figures: "Figures" }), ...(comparable && { compare: "Compare" }) };
const SHOW = { tables: showTables, figures: showFigures, compare: showCompare, run: showRun };

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
const MEASURED = METRICS.filter((metric) => report.rows.some((row) => Object.keys(row.scores).some((setting) => score(row, setting, metric))));
const anyPaper = report.rows.some((row) => Object.values(row.paper).some((by) => Object.keys(by).length));
const pressed = new Map();
const filterCount = el("span");
const everyChips = el("fieldset", {}, el("legend", {}, "Show"), [[false, "one configuration per method"], [true, "every configuration"]].map(([value, label]) => {
  const button = el("button", { type: "button", "data-every": String(value), onclick: () => { state.every = value; changed(); } }, label);
  pressed.set(button, () => state.every === value);
  return button;
}));
const metricChips = el("fieldset", {}, el("legend", {}, "Score"), MEASURED.map((metric) => {
  const button = el("button", { type: "button", onclick: () => { state.metric = metric; changed(); } }, report.metrics[metric]);
  pressed.set(button, () => state.metric === metric);
  return button;
}));
const fieldsets = Object.fromEntries(FILTERS.map((name) => [name, el("fieldset", { "data-filter": name }, el("legend", {}, chips[name][0]), chips[name][1].map(([value, label, mark]) => {
  const button = el("button", { type: "button", "data-value": value, onclick: () => changeFilter(name, value) }, mark, label);
  pressed.set(button, () => state.filters[name].has(value));
  return button;
}))]));
const clear = el("button", { type: "button", class: "quiet", onclick: () => { for (const name of FILTERS) state.filters[name].clear(); changed(); } }, "Clear filters");

function showFilters() {
  const tables = state.view === "tables";
  // A filter with a single choice is hidden.
  for (const name of FILTERS) fieldsets[name].hidden = chips[name][1].length < 2 || (name === "verdict" && !(tables && anyPaper));
  metricChips.hidden = !tables || MEASURED.length < 2;
  everyChips.hidden = !tables || !several.length;
  byId("filters").hidden = !(tables || state.view === "figures") || [...Object.values(fieldsets), metricChips, everyChips].every((each) => each.hidden);
  for (const [button, test] of pressed) button.setAttribute("aria-pressed", String(test()));
  const count = FILTERS.reduce((sum, name) => sum + state.filters[name].size, 0);
  filterCount.textContent = count ? `Filters (${count} active)` : "Filters";
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
// A page opened from disk may have no storage: the theme is then not remembered.
const remembered = (value) => { try { if (value) localStorage.setItem("recollect-theme", value); return localStorage.getItem("recollect-theme"); } catch { return null; } };

let arrived = false;
if (remembered()) root.dataset.theme = remembered();
byId("theme").addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; remembered(root.dataset.theme); nameTheme(); });
dark.addEventListener("change", nameTheme);
nameTheme();
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); byId("main").focus(); });
byId("filters").append(el("details", { open: matchMedia("(min-width: 45rem)").matches }, el("summary", {}, filterCount), metricChips, everyChips, FILTERS.map((name) => fieldsets[name]), clear));
byId("footer").append(el("p", {}, `recollect ${report.version}. ${report.runs} run${report.runs === 1 ? "" : "s"}, ${configurations(report.rows.length)}`
  + (report.repeated ? `; of ${report.repeated} repeated runs, the latest is shown.` : ".")
  + (anyPaper ? " The paper is Buzzega et al., Dark Experience for General Continual Learning, 2020." : "")));
addEventListener("hashchange", go);
go();
