// One configuration, or one of its runs: scores, heat maps and provenance.

function showRun() {
  const { row } = state;
  const run = row.runs.find((each) => String(each.seed) === state.seed) ?? null;
  const runs = run ? [run] : row.runs;
  const settings = Object.keys(row.scores);
  return el("article", {},
    el("p", {}, el("a", { href: address("tables") }, "← Tables"), figuresView && [" · ", el("a", { href: address("figures") }, "Figures")],
      rivals(row).length > 0 && [" · ", el("a", { href: address("compare", [row]) }, "Compare with another")]),
    el("h1", {}, titled(row), row.buffer !== null && `, buffer ${row.buffer}`, `, ${groupTitle(row)}`, run && `, seed ${run.seed}`),
    el("nav", { class: "chips", "aria-label": "Runs" },
      el("a", { href: addressOf(row), "aria-current": run ? null : "page" }, `mean of ${row.runs.length}`),
      row.runs.map((each) => el("a", { href: addressOf(row, each.seed), "aria-current": each === run ? "page" : null }, `seed ${each.seed}`))),
    run?.diverged && el("p", { class: "worse" }, "This run diverged: its loss or weights were no longer finite."),
    run?.farBelow && el("p", { class: "worse" }, "This run is far below the others: more than 15 points and five robust standard deviations below their median. The mean includes it."),
    SECTIONS.map(([title, show]) => { const shown = show(row, run, runs, settings); return shown && [el("h2", {}, title), shown]; }));
}

// Sections without content are not shown.
const SECTIONS = [
  ["Scores", scoreTable],
  ["Configurations", gridTable],
  ["Curves", curves],
  ["Accuracy matrix", matrices],
  ["Accuracy per class", classAccuracies],
  ["Confusion matrix", confusions],
  ["Provenance", (row, run, runs) => [facts(row, runs), run ? madeBy([text(run.command)].filter(Boolean), run.again) : madeBy(row.commands.map(text), row.again)]],
];

function matrices(row, run, runs, settings) {
  const found = settings.map((setting) => [matrixOf(runs, setting), setting]).filter(([matrix]) => matrix);
  return found.length > 0 && [
    el("p", { class: "faint" }, `Accuracy on each task after each task, in percent${run ? "" : ", mean over seeds"}. Tasks further ahead than the next one are not measured.`),
    el("div", { class: "maps" }, found.map(([matrix, setting]) => heatMap(matrix, setting, run))),
  ];
}

// All configurations of the method and buffer, best first.
function gridTable(row, run, runs, settings) {
  const rows = siblings(row);
  if (run || rows.length === 1) return null;
  const mean = (each) => score(each, settings[0], "accuracy")?.[0] ?? -Infinity;
  return [
    el("p", { class: "faint" }, `${named(row)} has ${configurations(rows.length)} here, by mean accuracy. Figures show the one marked ●: ${shownOf(rows).why}.`),
    el("div", { class: "scroll", role: "region", "aria-label": "Configurations", tabindex: 0 }, el("table", { class: "grid", "aria-label": "Configurations" },
      el("thead", {}, el("tr", {}, ["Configuration", ...settings.map((setting) => report.settings[setting]), "Seeds"].map((name, n) => el("th", { scope: "col", class: n && "right" }, name)))),
      el("tbody", {}, [...rows].sort((a, b) => mean(b) - mean(a)).map((each) => el("tr", {},
        el("th", { scope: "row" }, each === row ? el("strong", {}, varied(each)) : el("a", { href: addressOf(each) }, varied(each)), each.why && [" ●", el("span", { class: "unseen" }, ` ${each.why}`)]),
        settings.map((setting) => el("td", { class: "right" }, score(each, setting, "accuracy") ? plusMinus(score(each, setting, "accuracy")) : "–")),
        el("td", { class: "right" }, each.runs.length)))))),
  ];
}

function scoreTable(row, run, runs, settings) {
  const metrics = METRICS.filter((metric) => OF_PAPER.includes(metric) || settings.some((setting) => score(row, setting, metric)));
  return el("div", { class: "scroll", role: "region", "aria-label": "Scores", tabindex: 0 }, el("table", { class: "scores", "aria-label": "Scores" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Setting"), metrics.map((metric) => el("th", { scope: "col", class: "right wrap" }, report.metrics[metric])))),
    el("tbody", {}, settings.map((setting) => el("tr", {}, el("th", { scope: "row" }, report.settings[setting]), metrics.map((metric) => {
      const [mean, paper] = [score(row, setting, metric), paperOf(row, setting, metric)];
      const own = run && (run.scores[setting][METRICS.indexOf(metric)] ?? null);
      if (run) return el("td", { class: "right" }, own === null ? "–" : fixed(own / 100), mean && el("small", {}, `mean ${plusMinus(mean)}`));
      return el("td", { class: "right" }, mean ? plusMinus(mean) : "–", mean && mean[2] < row.runs.length && el("small", {}, `over ${seedsOf(mean[2])}`),
        paper && el("small", {}, `paper ${plusMinus(paper)}`), paper && el("small", { class: judged(paper, metric)[0] }, judged(paper, metric)[1]));
    }))))));
}

function heatMap(matrix, setting, run) {
  const title = `${report.settings[setting]}${run ? `, seed ${run.seed}` : ""}`;
  const many = matrix[0].length > 10;
  const before = run?.untrained[setting] ?? null;
  const cells = (values) => values.map((value) => (value === null ? el("td", { class: "gap" }, el("span", { class: "unseen" }, "not measured"))
    : el("td", { class: value > 61 ? "cell strong" : "cell", style: { "--v": `${value}%` }, title: fixed(value) }, many ? value.toFixed(0) : value.toFixed(1))));
  return el("div", { class: "scroll", role: "region", "aria-label": `Accuracy matrix, ${title}`, tabindex: 0 },
    el("table", { class: many ? "heat many" : "heat" },
      el("caption", {}, title),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "on task"), matrix[0].map((_, n) => el("th", { scope: "col" }, n + 1)))),
      el("tbody", {},
        before && el("tr", {}, el("th", { scope: "row" }, "untrained"), cells(before.map((v) => (v === null ? null : v / 100)))),
        matrix.map((values, n) => el("tr", {}, el("th", { scope: "row" }, matrix.length === 1 ? "at the end" : `after ${n + 1}`), cells(values))))));
}

function facts(row, runs) {
  const each = (name) => [...new Set(runs.map((run) => text(run[name])).filter(Boolean))].join("; ");
  const time = runs.length === 1 ? runs[0].seconds : row.seconds;
  const lines = [
    ["Network or data", row.variant],
    ["Hyper-parameters", values(row) + (row.usual ? "" : " (other values than the paper's)")],
    ["Optimiser", `${optimiserOf(row)}, ${scheduleOf(row)} learning rate`],
    ["Buffer", row.buffer === null ? "no memory" : `${row.buffer} examples`],
    ["Memory", bytes(row.bytes)],
    ["Training", `${row.epochs} epoch${row.epochs === 1 ? "" : "s"} per task, ${row.steps} steps, ${seconds(time)} per run`],
    ["Computed by", each("where")], ["Precision", each("precision")], ["Machine", each("machine")], ["Code", each("code")],
    ["Network fingerprint", each("network")], ["Data fingerprint", each("data")], ["Finished", each("created")],
  ];
  return el("dl", {}, lines.filter(([, value]) => value).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}
