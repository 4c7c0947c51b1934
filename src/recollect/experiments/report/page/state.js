// Where the reader is, kept in the address so that it can be shared and gone back to.

const FILTERS = ["benchmark", "method", "buffer", "verdict"];
const state = { view: "tables", row: null, seed: null, metric: "accuracy", filters: {} };

function readAddress() {
  const [path, query] = location.hash.slice(1).split("?");
  const asked = new URLSearchParams(query ?? "");
  for (const name of FILTERS) state.filters[name] = new Set(asked.getAll(name));
  state.metric = METRICS.includes(asked.get("metric")) ? asked.get("metric") : "accuracy";
  const [id, seed] = path.startsWith("run/") ? path.slice(4).split("@") : [];
  state.row = rowsById.get(id) ?? null;
  state.seed = seed ?? null;
  state.view = state.row ? "run" : path === "figures" ? "figures" : "tables";
}

function address(path) {
  const asked = new URLSearchParams();
  for (const name of FILTERS) for (const value of state.filters[name]) asked.append(name, value);
  if (state.metric !== "accuracy") asked.set("metric", state.metric);
  return `#${path}${asked.size ? `?${asked}` : ""}`;
}

const addressOf = (row, seed = null) => address(`run/${row.id}${seed === null ? "" : `@${seed}`}`);

function chosen() {
  const { benchmark, method, buffer } = state.filters;
  return report.rows.filter((row) => (!benchmark.size || benchmark.has(row.benchmark))
    && (!method.size || method.has(row.method))
    && (!buffer.size || buffer.has(bufferName(row.buffer))));
}

function changeFilter(name, value) {
  const values = state.filters[name];
  if (!values.delete(value)) values.add(value);
  changed();
}

// The address follows without a new entry in the history: "back" leaves the view, not one chip.
function changed() {
  history.replaceState(null, "", address(state.view));
  showFilters();
  showView();
}
