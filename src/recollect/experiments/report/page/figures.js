// The figures: each has its own choices, and all of them follow the filters.

const figureState = { across: "bytes", task: "mean", buffer: null, transfer: "forgetting", paper: false };

function showFigures() {
  const groups = grouped(chosen()).map((group) => ({ ...group, rows: oneEach(group.rows) }));
  if (!groups.length) return el("p", { class: "empty" }, "No run fits the filters.");
  const sections = [
    part("memory", "Accuracy against memory", "After the last task. A line is a method over its buffers; dashed, a method without one. Bytes are those of what a run holds besides its network after its last task.",
      (again) => [
        choice("Across", [["bytes", "bytes held"], ["buffer", "buffer, in examples"]], figureState.across, again("across")),
        check("the paper's, hollow", "paper", again),
      ], () => panels(groups, memoryPlot)),
    part("time", "Time per run", "Training alone: the time of a fleet divided by its runs. Compare only what ran alone on one machine.",
      () => [], () => groups.map((group) => dotPlot(group, null, {
        title: "seconds a run", log: true, value: (row) => (row.seconds > 0 ? [row.seconds, 0] : null), theirs: () => null, words: ([mean]) => seconds(mean),
      }))),
    wallClock(),
    fisher(),
    tinyMemories(groups),
    batches(),
    part("over-time", "Accuracy over time", "After each task, from the accuracy matrix, as the mean over seeds.",
      (again) => [
        choice("Accuracy on", [["mean", "the tasks so far"], ["each", "four tasks, side by side"], ...tasksOf(groups).map((n) => [String(n), `task ${n + 1}`])], figureState.task, again("task")),
        choice("Buffer", timeBuffers(groups).map((size) => [String(size), String(size)]), String(timeBuffer(groups)), again("buffer")),
      ], () => panels(groups, (group, setting) => timePlots(group, setting, timeBuffer(groups)))),
    part("transfer", "Forgetting and transfer", "One mark a buffer, the larger the buffer the larger the mark. Whiskers are one standard deviation.",
      (again) => [
        choice("Measure", METRICS.slice(1).map((metric) => [metric, report.metrics[metric].toLowerCase()]), figureState.transfer, again("transfer")),
        check("the paper's, hollow", "paper", again),
      ], () => panels(groups, (group, setting) => dotPlot(group, setting, {
        title: `${report.metrics[figureState.transfer]}, percent`, value: (row) => score(row, setting, figureState.transfer),
        theirs: (row) => figureState.paper && paperOf(row, setting, figureState.transfer), words: (mean) => plusMinus(mean),
      }))),
  ].filter(Boolean);
  return [jumps(sections), ...sections];
}

// Buttons, not links: the address holds the filters.
const jumps = (sections) => el("nav", { class: "chips jumps", "aria-label": "Figures" }, sections.map((section) => el("button", { type: "button", class: "quiet",
  onclick: () => { section.scrollIntoView({ block: "start" }); section.querySelector("h2").focus({ preventScroll: true }); } }, section.querySelector("h2").textContent)));

function part(name, title, about, choices, contents) {
  const holder = el("div", { class: "panels" });
  const redraw = () => {
    const found = contents().flat(Infinity).filter(Boolean);
    holder.replaceChildren(...(found.length ? found : [el("p", { class: "empty" }, "Nothing was measured for this.")]));
  };
  redraw();
  return el("section", { class: "figure", "data-figure": name }, el("h2", { tabindex: -1 }, title), el("p", { class: "faint" }, about),
    el("div", { class: "choices" }, choices((name) => (value) => { figureState[name] = value; redraw(); })), holder);
}

function check(label, name, again) {
  const box = el("input", { type: "checkbox", onchange: () => again(name)(box.checked) });
  box.checked = figureState[name];
  return el("label", { class: "choice" }, box, " ", label);
}

const panels = (groups, draw) => groups.flatMap((group) => settingsOf(group.rows).map((setting) => draw(group, setting)));
const byMethod = (rows) => [...Map.groupBy(rows, (row) => row.method).values()];
const words = (row, mean) => [row.buffer === null ? "no memory" : `buffer ${row.buffer}`, plusMinus(mean), `${seedsOf(mean[2])}, ${bytes(row.bytes)} held`];

function memoryPlot(group, setting) {
  const held = (row) => (figureState.across === "buffer" ? row.buffer : row.bytes) || null;
  const rows = group.rows.filter((row) => score(row, setting, "accuracy"));
  const sizes = [...new Set(rows.map(held).filter(Boolean))].sort((a, b) => a - b);
  if (!rows.length) return null;
  const domain = extent(sizes.length ? sizes : [1, 10], { log: true });
  const point = (row, x, mean, lines) => ({ x, y: mean[0], low: mean[0] - mean[1], high: mean[0] + mean[1], lines, href: addressOf(row) });
  const series = byMethod(rows).flatMap((own) => {
    const start = { ...lookOf(own[0]), key: own[0].method, label: titled(own[0]) };
    const means = own.map((row) => [row, score(row, setting, "accuracy")]);
    const theirs = figureState.paper && own.filter((row) => paperOf(row, setting, "accuracy") && held(row));
    return [
      ...means.filter(([row]) => !held(row)).map(([row, mean]) => ({ ...start, line: "dashed",
        points: domain.map((x) => ({ ...point(row, x, mean, words(row, mean)), low: undefined, size: 2.5 })) })),
      { ...start, line: "solid", unlisted: !own.some(held), points: means.filter(([row]) => held(row)).map(([row, mean]) => point(row, held(row), mean, words(row, mean))) },
      theirs && { ...start, label: `${start.label}, paper`, unlisted: true, points: theirs.map((row) => {
        const paper = paperOf(row, setting, "accuracy");
        return { ...point(row, held(row), paper, [`buffer ${row.buffer}`, plusMinus(paper)]), low: undefined, hollow: true };
      }) },
    ].filter((each) => each?.points?.length);
  });
  const y = percents(rows.flatMap((row) => { const [mean, std] = score(row, setting, "accuracy"); return [mean - std, mean + std]; }));
  const ticks = figureState.across === "buffer" ? sizes.map((size) => [size, String(size)]) : byteTicks(domain);
  return plot({ title: `${group.title}, ${report.settings[setting]}`, height: 340, legend: true, series,
    x: { title: figureState.across === "buffer" ? "buffer, examples" : "bytes held", domain, log: true, ticks },
    y: { title: "accuracy, percent", domain: y, ticks: linearTicks(y, 6) } });
}

const tasksOf = (groups) => Array.from({ length: Math.max(1, ...groups.flatMap(({ rows }) => rows.flatMap((row) => Object.values(row.runs[0].matrix).map((lines) => lines.length)))) }, (_, n) => n);
const timeBuffers = (groups) => [...new Set(groups.flatMap(({ rows }) => rows.map((row) => row.buffer)))].filter((size) => size !== null).sort((a, b) => a - b);

function timeBuffer(groups) {
  const sizes = timeBuffers(groups);
  if (sizes.includes(Number(figureState.buffer))) return Number(figureState.buffer);
  return sizes.includes(500) ? 500 : sizes[0] ?? null;
}

// One value after each task: on one task from when it is learned, or the mean over those so far.
function overTime(matrix, task) {
  return matrix.map((line, after) => {
    const seen = task === "mean" ? line.slice(0, after + 1) : after >= task ? [line[task] ?? null] : [null];
    return seen.includes(null) ? null : seen.reduce((a, b) => a + b, 0) / seen.length;
  });
}

// The first task, and some that follow it evenly; never the last, of which nothing is known later.
function timePlots(group, setting, buffer) {
  if (figureState.task !== "each") return timePlot(group, setting, buffer, figureState.task === "mean" ? "mean" : Number(figureState.task));
  const tasks = Math.max(1, ...group.rows.map((row) => row.runs[0].matrix[setting]?.length ?? 1));
  const shown = Math.min(4, tasks - 1);
  return Array.from({ length: shown }, (_, n) => timePlot(group, setting, buffer, Math.floor((n * tasks) / shown), `, task ${Math.floor((n * tasks) / shown) + 1}`));
}

function timePlot(group, setting, buffer, task, more = "") {
  const series = group.rows.filter((row) => row.buffer === null || row.buffer === buffer).flatMap((row) => {
    const matrix = matrixOf(row.runs, setting);
    if (!matrix || matrix.length < 2) return [];
    const points = overTime(matrix, task).map((value, n) => value !== null && { x: n + 1, y: value, size: 3,
      lines: [`after task ${n + 1}`, `${fixed(value)} on ${task === "mean" ? "the tasks so far" : `task ${task + 1}`}`], href: addressOf(row) }).filter(Boolean);
    return points.length ? [{ ...lookOf(row), key: row.id, label: named(row), line: "solid", points }] : [];
  });
  return series.length ? timeAxes(`${group.title}, ${report.settings[setting]}${more}`, series) : null;
}

function timeAxes(title, series, height = 340) {
  const last = Math.max(...series.flatMap(({ points }) => points.map(({ x }) => x)));
  const y = percents(series.flatMap(({ points }) => points.map((point) => point.y)));
  return plot({ title, height, legend: true, series,
    x: { title: "after task", domain: [0.8, last + 0.2], ticks: Array.from({ length: last }, (_, n) => [n + 1, String(n + 1)]) },
    y: { title: "accuracy, percent", domain: y, ticks: linearTicks(y, 6) } });
}

// One line a method, one mark a buffer.
function dotPlot(group, setting, { title, log = false, value, theirs, words: say }) {
  const methods = byMethod(group.rows.filter(value));
  if (!methods.length) return null;
  const all = [];
  const series = methods.flatMap((own, n) => {
    const start = { ...lookOf(own[0]), key: own[0].method, label: titled(own[0]) };
    const points = own.map((row, size) => {
      const [mean, std] = value(row);
      all.push(mean - std, mean + std);
      const steps = log ? `${row.steps} steps of ${+((mean / row.steps) * 1e6).toPrecision(3)} µs` : seedsOf(value(row)[2]);
      return { x: mean, y: -n, low: mean - std, high: mean + std, size: 3 + Math.min(size, 3), href: addressOf(row),
        lines: [row.buffer === null ? "no memory" : `buffer ${row.buffer}`, say(value(row)), steps, log && text(row.runs[0].where)].filter(Boolean) };
    });
    const hollow = own.filter(theirs).map((row) => {
      all.push(theirs(row)[0]);
      return { x: theirs(row)[0], y: -n, hollow: true, size: 3 + Math.min(own.indexOf(row), 3), lines: [`buffer ${row.buffer ?? "–"}`, plusMinus(theirs(row))], href: addressOf(row) };
    });
    return [{ ...start, points }, { ...start, label: `${start.label}, paper`, points: hollow }].filter((each) => each.points.length);
  });
  const domain = extent(all, { log });
  return plot({ title: group.title + (setting ? `, ${report.settings[setting]}` : ""), height: 60 + 22 * methods.length, left: 16 + 6.5 * Math.max(6, ...methods.map((own) => titled(own[0]).length)), sideways: true, series,
    x: { title, domain, log, ticks: log ? logTicks(domain, number) : linearTicks(domain, 6) },
    y: { domain: [0.6 - methods.length, 0.6], ticks: methods.map((own, n) => [-n, titled(own[0])]) } });
}
