// The state of the page, stored in the address so that it can be shared and navigated.

const FILTERS = ["benchmark", "method", "buffer", "verdict"];
const state = { view: "tables", row: null, seed: null, metric: "accuracy", filters: {}, every: false, picks: new Map(), pair: [], setting: null };

function readAddress() {
  const [path, query] = location.hash.slice(1).split("?");
  const asked = new URLSearchParams(query ?? "");
  for (const name of FILTERS) state.filters[name] = new Set(asked.getAll(name));
  state.metric = METRICS.includes(asked.get("metric")) ? asked.get("metric") : "accuracy";
  state.every = asked.has("every");
  state.picks = new Map(asked.getAll("pick").map((id) => rowsById.get(id)).filter(Boolean).map((row) => [cellOf(row), row]));
  state.pair = ["a", "b"].map((name) => rowsById.get(asked.get(name)) ?? null);
  state.setting = asked.get("setting");
  const [id, seed] = path.startsWith("run/") ? path.slice(4).split("@") : [];
  state.row = rowsById.get(id) ?? null;
  state.seed = seed ?? null;
  state.view = state.row ? "run" : path in VIEWS ? path : "tables";
}

function address(path, pair = path === "compare" ? state.pair : []) {
  const asked = new URLSearchParams();
  for (const name of FILTERS) for (const value of state.filters[name]) asked.append(name, value);
  if (state.metric !== "accuracy") asked.set("metric", state.metric);
  if (state.every) asked.set("every", "1");
  for (const row of state.picks.values()) asked.append("pick", row.id);
  pair.forEach((row, n) => { if (row) asked.set("ab"[n], row.id); });
  if (path === "compare" && state.setting) asked.set("setting", state.setting);
  return `#${path}${asked.size ? `?${asked}` : ""}`;
}

const addressOf = (row, seed = null) => address(`run/${row.id}${seed === null ? "" : `@${seed}`}`);

function chosen() {
  const { benchmark, method, buffer } = state.filters;
  return report.rows.filter((row) => (!benchmark.size || benchmark.has(row.benchmark))
    && (!method.size || method.has(row.method))
    && (!buffer.size || buffer.has(bufferName(row.buffer))));
}

// The configuration shown for its method and buffer in a table.
const pickedOf = (rows) => state.picks.get(cellOf(rows[0])) ?? shownOf(rows);

function pick(row) {
  if (row.why) state.picks.delete(cellOf(row));
  else state.picks.set(cellOf(row), row);
  changed();
}

function changeFilter(name, value) {
  const values = state.filters[name];
  if (!values.delete(value)) values.add(value);
  changed();
}

// Filters replace the history entry: "back" leaves the view, not a single filter.
function changed() {
  history.replaceState(null, "", address(state.view));
  showFilters();
  showView();
}
