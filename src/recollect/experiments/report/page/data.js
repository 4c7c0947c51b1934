// The data, and the formatting of numbers.

const report = JSON.parse(byId("data").textContent);
const METRICS = Object.keys(report.metrics);
const OF_PAPER = ["accuracy", "fwt", "bwt", "forgetting"];
const METHODS = Object.keys(report.methods);
const SINGLE = "accuracy-single-epoch";
const VERDICTS = { equal: "✓", close: "≈", above: "▲", below: "▼" };
const NO_VERDICT = "no verdict";
const rowsById = new Map(report.rows.map((row) => [row.id, row]));
const buffers = [...new Set(report.rows.map((row) => row.buffer))].sort((a, b) => (a ?? -1) - (b ?? -1));

const text = (place) => report.texts[place];
const titled = (row) => report.methods[row.method].title;
const bufferName = (buffer) => (buffer === null ? "no memory" : String(buffer));
const named = (row) => titled(row) + (row.buffer === null ? "" : ` ${row.buffer}`);
const fixed = (value) => value.toFixed(2).replace("-", "−");
const plusMinus = ([mean, std, seeds]) => seeds === 1 || std === null ? fixed(mean) : `${fixed(mean)} ±${std.toFixed(2)}`;
const seedsOf = (count) => `${count} seed${count === 1 ? "" : "s"}`;
const number = (value) => String(+value.toPrecision(6));
const score = (row, setting, metric) => row.scores[setting]?.[metric] ?? null;
const paperOf = (row, setting, metric) => row.paper[setting]?.[metric] ?? null;

// Lower is better for forgetting; higher is better for everything else.
const quality = (verdict, metric) =>
  verdict === "equal" || verdict === "close" ? "same" : (verdict === "above") === (metric !== "forgetting") ? "better" : "worse";

// CSS class and words of the verdict on a published result, [mean, deviation, kind, weak, allowed].
const judged = ([, , kind, weak], metric) => (kind === null ? ["", NO_VERDICT]
  : [`${quality(kind, metric)}${weak ? " weak" : ""}`, weak ? `(${VERDICTS[kind]}) ${kind}, weak` : `${VERDICTS[kind]} ${kind}`]);
const remark = (run) => (run.diverged ? "diverged" : run.farBelow ? "far below" : "");

function bytes(count) {
  // Decimal units, as in the figures.
  const [size, unit] = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]].find(([least]) => count >= least) ?? [1, "B"];
  return `${+(count / size).toPrecision(3)} ${unit}`;
}

function seconds(value) {
  if (value === null) return "–";
  if (value < 0.1) return `${value.toPrecision(2)} s`;
  return value < 100 ? `${value.toFixed(2)} s` : `${(value / 60).toFixed(1)} min`;
}

// The configurations of one method and buffer, such as the points of a grid.
const cellOf = (row) => [groupKey(row), row.method, row.buffer].join(" ");
const cells = new Map();
for (const row of report.rows) cells.set(cellOf(row), [...(cells.get(cellOf(row)) ?? []), row]);
const siblings = (row) => cells.get(cellOf(row));
const shownOf = (rows) => rows.find((row) => row.why);
const several = [...cells.values()].filter((rows) => rows.length > 1);
const configurations = (count) => `${count} configuration${count === 1 ? "" : "s"}`;

// Rows that share a table: one benchmark with one network, trained and scored alike.
function grouped(rows) {
  const groups = new Map();
  for (const row of rows) {
    const key = groupKey(row);
    if (!groups.has(key)) groups.set(key, { key, title: groupTitle(row), benchmark: row.benchmark, rows: [] });
    groups.get(key).rows.push(row);
  }
  return [...groups.values()];
}

function groupKey(row) {
  return [row.benchmark, row.variant, row.epochs, row.validation].join(" ");
}

function groupTitle(row) {
  const usual = report.benchmarks[row.benchmark].epochs ?? 1;
  const epochs = row.epochs === usual ? "" : `, ${row.epochs} epoch${row.epochs === 1 ? "" : "s"} per task`;
  return row.benchmark + (row.variant && `, ${row.variant}`) + epochs + (row.validation ? ", validation split" : "");
}

const settingsOf = (rows) => Object.keys(report.settings).filter((s) => rows.some((row) => row.scores[s]));

// The values that distinguish rows of one method and buffer, such as those of a grid.
function varied(row) {
  const alike = siblings(row);
  return Object.keys(row.hyperparameters)
    .filter((name) => alike.some((other) => other.hyperparameters[name] !== row.hyperparameters[name]))
    .map((name) => `${name} ${number(row.hyperparameters[name])}`)
    .concat(chosenOptimiser(row, alike), row.apart && row.apart !== row.variant && !row.apart.startsWith("optimiser ") ? row.apart : []).join(", ");
}

const optimiserOf = (row) => row.optimiser?.optimiser ?? "SGD";
const scheduleOf = (row) => row.optimiser?.schedule ?? "constant";

// Optimiser and schedule, if they vary or are not plain SGD.
function chosenOptimiser(row, alike) {
  const all = (named, usual) => named(row) !== usual || alike.some((other) => named(other) !== named(row));
  return [...(all(optimiserOf, "SGD") ? [optimiserOf(row)] : []), ...(all(scheduleOf, "constant") ? [`${scheduleOf(row)} schedule`] : [])];
}

// Accuracies in percent, one line after each task; null where not measured. Over runs: the mean.
function matrixOf(runs, setting) {
  const found = runs.map((run) => run.matrix[setting]).filter((matrix) => matrix?.length);
  if (!found.length || found.length < runs.length) return null;
  const tasks = Math.max(...found.flat().map((line) => line.length));
  return found[0].map((_, i) => Array.from({ length: tasks }, (_, j) => {
    const values = found.map((matrix) => matrix[i]?.[j] ?? null);
    return values.includes(null) ? null : values.reduce((a, b) => a + b, 0) / values.length / 100;
  }));
}
