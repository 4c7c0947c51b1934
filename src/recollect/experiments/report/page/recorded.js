// Details that some runs recorded: curves, accuracy per class, confusion matrices.

let records = null; // unpacked on first use
const MANY_CLASSES = 25; // from here on, matrix cells are too small for numbers

function fromRecord(row, show) {
  const holder = el("div");
  records ??= unpack(report.recorded);
  records.then((all) => holder.append(...[show(all[row.id])].flat(Infinity).filter(Boolean)));
  return holder;
}

const withRecord = (runs, name) => runs.filter((run) => run.recorded?.includes(name));
const fewer = (row, found, run) => !run && found.length < row.runs.length && ` Recorded by ${found.length} of ${row.runs.length} seeds.`;

function curves(row, run, runs) {
  const found = withRecord(runs, "curves");
  if (!found.length) return null;
  if (report.figures.missing) return el("p", { class: "empty" }, report.figures.missing);
  const key = run && `seed ${run.seed}`;
  return [
    el("p", { class: "faint" }, "Points within a task are measured on a subset of the test examples, those at its end on all. Dotted lines: task ends.",
      run && " The other seeds are pale.", fewer(row, found, run)),
    fromRecord(row, (record) => el("div", { class: "panels fine" }, record.curves
      .filter(({ marks }) => !key || marks.some(([name]) => name === key))
      .map((plot) => plotted({ ...plot, lit: key, follow: (name) => name.startsWith("seed ") && addressOf(row, name.slice(5)) })))),
  ];
}

const settingName = (setting) => report.settings[setting] ?? setting;
// Confusion matrices by setting and seed, of the seeds with as many classes as the first one.
const countsOf = (record, found) => Object.entries(record.confusion)
  .map(([setting, bySeed]) => [setting, found.map((run) => bySeed[run.seed]).filter(Boolean).filter((counts, _, [first]) => counts.length === first.length)])
  .filter(([, all]) => all.length);
const total = (values) => values.reduce((sum, value) => sum + value, 0);

function classAccuracies(row, run, runs) {
  const found = withRecord(runs, "confusion");
  return found.length > 0 && [
    el("p", { class: "faint" }, `On the test examples of each class after the last task${found.length > 1 ? ", mean ± standard deviation over seeds" : ""}.`, fewer(row, found, run)),
    fromRecord(row, (record) => el("div", { class: "maps" }, countsOf(record, found).map(([setting, all]) => el("div", { class: "perclass" },
      el("h3", {}, settingName(setting)),
      el("ul", { class: "classes", "aria-label": `Accuracy per class, ${settingName(setting)}` }, all[0].map((_, n) => classLine(n, all.map((counts) => counts[n])))))))),
  ];
}

function classLine(label, rows) {
  const values = rows.filter((counts) => total(counts)).map((counts) => 100 * counts[label] / total(counts));
  if (!values.length) return el("li", {}, el("span", {}, `class ${label}`), el("span", { class: "faint" }, "no test examples"));
  const mean = total(values) / values.length;
  const std = Math.sqrt(total(values.map((value) => (value - mean) ** 2)) / Math.max(values.length - 1, 1));
  return el("li", {}, el("span", {}, `class ${label}`), el("span", { class: "track", "aria-hidden": "true" }, el("span", { style: { width: `${mean}%` } })),
    el("span", { class: "right" }, mean.toFixed(1), values.length > 1 && el("small", {}, ` ±${std.toFixed(1)}`)));
}

function confusions(row, run, runs) {
  const found = withRecord(runs, "confusion");
  return found.length > 0 && [
    el("p", { class: "faint" }, `Percentage of the test examples of each class (row) that were predicted as each class (column) after the last task${found.length > 1 ? ", over all seeds" : ""}. Empty: none.`, fewer(row, found, run)),
    fromRecord(row, (record) => el("div", { class: "maps" }, countsOf(record, found).map(([setting, all]) => confusionMap(added(all), setting, run)))),
  ];
}

const added = (all) => all[0].map((line, i) => line.map((_, j) => total(all.map((counts) => counts[i][j]))));

function confusionMap(counts, setting, run) {
  const title = `${settingName(setting)}${run ? `, seed ${run.seed}` : ""}`;
  const many = counts.length > MANY_CLASSES;
  const cell = (count, i, j, all) => {
    const value = all ? 100 * count / all : 0;
    const said = `class ${i} predicted as class ${j}: ${count} of ${all}`;
    return el("td", { class: value > 61 ? "cell strong" : "cell", style: { "--v": `${value}%` }, title: said }, !many && count > 0 && (value < 0.5 ? "<1" : value.toFixed(0)));
  };
  const head = (n) => (many && n % 10 ? null : n);
  return el("div", { class: "scroll", role: "region", "aria-label": `Confusion matrix, ${title}`, tabindex: 0 },
    el("table", { class: `heat confusion ${many ? "tiny" : "many"}` },
      el("caption", {}, title),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, many ? "" : "class"), counts.map((_, n) => el("th", { scope: "col" }, head(n))))),
      el("tbody", {}, counts.map((line, i) => el("tr", {}, el("th", { scope: "row" }, head(i)), line.map((count, j) => cell(count, i, j, total(line))))))));
}
