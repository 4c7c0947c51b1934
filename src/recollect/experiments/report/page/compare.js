// Two configurations on one benchmark: the paired difference over seeds, and which settings differ.

const LEVEL = 0.95;
// Rows that a row can be compared with: the same benchmark and split, with any network.
const rivals = (row) => report.rows.filter((other) => other !== row && other.benchmark === row.benchmark && other.validation === row.validation
  && Object.keys(row.scores).some((setting) => other.scores[setting]));
const comparable = report.rows.some((row) => rivals(row).length);

// P(|T| <= t) of Student's t distribution with an integer number of degrees of freedom.
function within(t, degrees) {
  const angle = Math.atan(t / Math.sqrt(degrees));
  const [sin, cos] = [Math.sin(angle), Math.cos(angle)];
  const odd = degrees % 2;
  let [term, sum] = [odd ? cos : 1, degrees === 1 ? 0 : odd ? cos : 1];
  for (let k = odd ? 3 : 2; k < degrees; k += 2) sum += term *= (cos * cos * (k - 1)) / k;
  return odd ? (2 / Math.PI) * (angle + sin * sum) : sin * sum;
}

function quantile(level, degrees) {
  let [low, high] = [0, 1000];
  while (high - low > 1e-9) {
    const middle = (low + high) / 2;
    if (within(middle, degrees) < level) low = middle;
    else high = middle;
  }
  return low;
}

// The difference A − B over the common seeds: mean, half-width of the interval, p-value, pairs, and unpaired seeds.
function paired(a, b, setting, metric) {
  const place = METRICS.indexOf(metric);
  const valueOf = (run) => run?.scores[setting]?.[place] ?? null;
  const others = new Map(b.runs.map((run) => [run.seed, run]));
  const both = a.runs.map((run) => [run.seed, valueOf(run), valueOf(others.get(run.seed))]).filter(([, p, q]) => p !== null && q !== null)
    .map(([seed, p, q]) => ({ seed, a: p / 100, b: q / 100, difference: (p - q) / 100 }));
  const n = both.length;
  const mean = both.reduce((sum, each) => sum + each.difference, 0) / n;
  const error = Math.sqrt(both.reduce((sum, each) => sum + (each.difference - mean) ** 2, 0) / (n - 1) / n);
  const seeds = new Set([...a.runs, ...b.runs].map((run) => run.seed));
  for (const { seed } of both) seeds.delete(seed);
  return { pairs: both, mean, half: n > 1 ? quantile(LEVEL, n - 1) * error : null,
    p: n > 1 && error > 0 ? 1 - within(Math.abs(mean) / error, n - 1) : null, unpaired: [...seeds].sort((p, q) => p - q) };
}

// The settings in which two configurations differ: [name, of A, of B].
function differing(a, b) {
  const each = (row, name) => [...new Set(row.runs.map((run) => text(run[name])).filter(Boolean))].join("; ");
  const names = [...new Set([...Object.keys(a.hyperparameters), ...Object.keys(b.hyperparameters)])];
  const value = (row, name) => (name in row.hyperparameters ? number(row.hyperparameters[name]) : "–");
  return [
    ["Method", titled(a), titled(b)], ["Buffer", bufferName(a.buffer), bufferName(b.buffer)], ["Epochs per task", a.epochs, b.epochs],
    ["Optimiser", optimiserOf(a), optimiserOf(b)], ["Schedule", scheduleOf(a), scheduleOf(b)],
    ...names.map((name) => [name, value(a, name), value(b, name)]), ["Network or data", a.variant || a.apart || "–", b.variant || b.apart || "–"],
    ["Network fingerprint", each(a, "network"), each(b, "network")], ["Data fingerprint", each(a, "data"), each(b, "data")],
    ["Precision", each(a, "precision"), each(b, "precision")], ["Computed by", each(a, "where"), each(b, "where")], ["Code", each(a, "code"), each(b, "code")],
  ].filter(([, p, q]) => p !== q);
}

function showCompare() {
  const a = state.pair[0] ?? report.rows.find((row) => rivals(row).length);
  const b = rivals(a).includes(state.pair[1]) ? state.pair[1] : rivals(a)[0];
  if (!b) return el("p", { class: "empty" }, `There is no other configuration on ${a.benchmark} to compare ${named(a)} with.`);
  const settings = Object.keys(report.settings).filter((setting) => a.scores[setting] && b.scores[setting]);
  const setting = settings.includes(state.setting) ? state.setting : settings[0];
  const metrics = METRICS.filter((metric) => score(a, setting, metric) && score(b, setting, metric));
  const metric = metrics.includes(state.metric) ? state.metric : metrics[0];
  const go = (change) => { Object.assign(state, { pair: [a, b], setting, metric }, change); changed(); };
  return el("article", {},
    el("h1", {}, "Compare two configurations"),
    el("p", { class: "faint" }, "Runs with the same seed share their random numbers, so differences are computed seed by seed."),
    el("div", { class: "choices pair" },
      rowChoice("A", report.rows.filter((row) => rivals(row).length), a, (row) => go({ pair: [row, b] })),
      rowChoice("B", rivals(a), b, (row) => go({ pair: [a, row] })),
      settings.length > 1 && choice("Setting", settings.map((name) => [name, report.settings[name]]), setting, (name) => go({ setting: name })),
      metrics.length > 1 && choice("Score", metrics.map((name) => [name, report.metrics[name]]), metric, (name) => go({ metric: name }))),
    difference(a, b, setting, metric));
}

function rowChoice(label, rows, chosen, changed) {
  const select = el("select", { "aria-label": label, onchange: () => changed(rowsById.get(select.value)) }, grouped(rows).map((group) =>
    el("optgroup", { label: group.title }, group.rows.map((row) => el("option", { value: row.id, selected: row === chosen }, [named(row), varied(row)].filter(Boolean).join(", "))))));
  return el("label", { class: "choice" }, label, " ", select);
}

function difference(a, b, setting, metric) {
  const { pairs, mean, half, p, unpaired } = paired(a, b, setting, metric);
  if (!pairs.length) return el("p", { class: "empty" }, "They have no seed in common.");
  const signed = (value) => (value > 0 ? "+" : "") + fixed(value);
  const differ = differing(a, b);
  return [
    el("h2", {}, `A − B: ${signed(mean)} points of ${metricName(metric)}, ${report.settings[setting]}`),
    el("p", { id: "interval" }, half === null ? "A single pair of runs has no confidence interval: train more seeds."
      : `95 % confidence interval from ${signed(mean - half)} to ${signed(mean + half)}, over ${pairs.length} pairs (Student's t). `
        + (Math.abs(mean) > half ? "It does not contain 0" : "It contains 0: the difference is not significant")
        + (p === null ? "." : `; paired t-test: p ${p < 0.001 ? "< 0.001" : `= ${p.toFixed(3)}`}.`)),
    metric === "forgetting" && el("p", { class: "faint" }, "Less forgetting is better."),
    unpaired.length > 0 && el("p", { class: "faint" }, `Not compared, as only one of the two has the seed or its score: seed ${unpaired.join(", ")}.`),
    el("h2", {}, "Settings that differ"),
    differ.length ? pairTable("Settings that differ", ["Setting", "A", "B"], differ) : el("p", { class: "faint" }, "No recorded setting differs."),
    el("h2", {}, "Seed by seed"),
    pairTable("Seed by seed", ["Seed", "A", "B", "A − B"], pairs.map((each) => [each.seed, fixed(each.a), fixed(each.b), signed(each.difference)]), "right"),
  ];
}

function pairTable(title, heads, lines, side = "wrap") {
  return el("div", { class: "scroll", role: "region", "aria-label": title, tabindex: 0 }, el("table", { class: "grid", "aria-label": title },
    el("thead", {}, el("tr", {}, heads.map((head, n) => el("th", { scope: "col", class: n > 0 && side }, head)))),
    el("tbody", {}, lines.map(([first, ...others]) => el("tr", {}, el("th", { scope: "row" }, first), others.map((value) => el("td", { class: side }, value)))))));
}
