// The paper's other figures: from the runs where they are enough, else from what recollect figures wrote.

const { drawn } = report;
const colourOf = (method, place) => look(METHODS.includes(method) ? METHODS.indexOf(method) : METHODS.length + place);
const wanted = (name, value) => !state.filters[name].size || state.filters[name].has(value);
const missing = (name, title, ...commands) => el("section", { class: "figure", "data-figure": name }, el("h2", { tabindex: -1 }, title),
  el("p", { class: "faint" }, "Not in this report. It is made by"), commands.map(command));
const added = (name, more = "") => [`recollect figures ${name}${more} --format json`, "recollect report --figures figures"];

const ENERGY = "The energy of the Fisher matrix";
const ENERGY_ABOUT = "L(k) is the sum of rate / B · |F(j)| over the steps j = 1, …, k. F(j) is the empirical Fisher matrix of the batch of B examples that arrives in step j, "
  + "at the weights before the step: the mean over its examples of g·gᵀ, where g is the gradient of the example's cross-entropy. |·| is the Frobenius norm. "
  + "Replayed examples are not in it. The paper takes its measure from Liao et al. (2018) without repeating the definition; this one is ours.";

function fisher() {
  if (!drawn.fisher) return missing("fisher", ENERGY, ...added("fisher"));
  const { benchmark, rate, seeds, ends, sides, curves } = drawn.fisher;
  const shown = curves.filter((curve) => wanted("method", curve.like) && wanted("buffer", String(curve.buffer)));
  if (!wanted("benchmark", benchmark) || !shown.length) return null;
  const last = ends.at(-1);
  const floor = Math.min(...curves.map(({ steps, mean }) => mean[steps.findIndex((k) => k >= last / 100)]));
  const domain = [floor, 1.5 * Math.max(...curves.map(({ mean, std }) => mean.at(-1) + std.at(-1)))];
  const across = [...new Set(curves.map(({ buffer }) => buffer))];
  const methods = [...new Set(curves.map(({ method }) => method))];
  const plots = Object.entries(sides).flatMap(([what, members]) => across.map((buffer) => {
    const series = shown.filter((curve) => curve.buffer === buffer && members.includes(curve.method)).map((curve) => ({
      ...colourOf(curve.like, methods.indexOf(curve.method)), key: curve.method, label: curve.title + (curve.like === curve.method ? "" : " (dashed)"), line: curve.like === curve.method ? "solid" : "dashed", band: true,
      points: curve.steps.map((k, n) => ({ x: k, y: curve.mean[n], low: Math.max(curve.mean[n] - curve.std[n], curve.mean[n] / 10), high: curve.mean[n] + curve.std[n], quiet: true, size: 3,
        lines: [`after ${k} steps: ${number(curve.mean[n])} ±${number(curve.std[n])}`, `accuracy at the end ${plusMinus(curve.accuracy)}`] })).filter(({ y }) => y >= floor),
    }));
    return series.length ? plot({ title: `${what}, buffer ${buffer}`, height: 340, legend: true, series,
      x: { title: "steps k", domain: [0, 1.04 * last], ticks: linearTicks([0, last], 6), marks: ends.slice(0, -1) },
      y: { title: "L(k)", domain, log: true, ticks: logTicks(domain, number) } }) : null;
  }));
  return part("fisher", ENERGY, `${ENERGY_ABOUT} On ${benchmark}, all methods with rate ${rate}; mean over ${seedsOf(seeds)}, bands are one standard deviation, thick grey lines the ends of tasks.`, () => [], () => plots);
}

const VARIANTS = ["er-ring", "er-kmeans", "er-mof", "er-hybrid"];
const TINY = "DER++ against ER at tiny memories";

function tinyMemories(groups) {
  if (!report.rows.some((row) => VARIANTS.includes(row.method))) {
    return missing("tiny-memories", TINY, ...["er", ...VARIANTS, "derpp"].map((method) => `recollect run seq-mnist ${method} --buffer 10 20 50 100`), "recollect report");
  }
  // The sizes are those that a variant was run with, whatever the filters hide of it.
  const sizes = (group) => new Set(report.rows.filter((row) => VARIANTS.includes(row.method) && row.benchmark === group.benchmark && !row.validation).map((row) => row.buffer));
  const plots = () => panels(groups, (group, setting) => {
    const among = sizes(group);
    const rows = group.rows.filter((row) => among.has(row.buffer) && ["er", ...VARIANTS, "derpp"].includes(row.method) && score(row, setting, "accuracy"));
    // Task-IL has nothing to tell here: all are near the top.
    if (!rows.length || setting === "task") return null;
    const methods = byMethod(rows);
    const series = methods.map((own, n) => ({ ...lookOf(own[0]), key: own[0].method, label: own[0].method === "er" ? "ER (reservoir)" : titled(own[0]), line: "solid",
      points: own.map((row) => {
        const mean = score(row, setting, "accuracy");
        // Points of one size stand side by side, so that their whiskers can be read.
        return { x: row.buffer * 1.025 ** (n - (methods.length - 1) / 2), y: mean[0], low: mean[0] - mean[1], high: mean[0] + mean[1], lines: words(row, mean), href: addressOf(row) };
      }) }));
    const y = percents(series.flatMap(({ points }) => points.flatMap(({ low, high }) => [low, high])));
    const all = [...new Set(rows.map((row) => row.buffer))].sort((a, b) => a - b);
    return plot({ title: `${group.title}, ${report.settings[setting]}`, height: 340, legend: true, series,
      x: { title: "examples in memory", domain: extent(series.flatMap(({ points }) => points.map(({ x }) => x)), { log: true }), log: true, ticks: all.map((size) => [size, String(size)]) },
      y: { title: "accuracy, percent", domain: y, ticks: linearTicks(y, 6) } });
  });
  return part("tiny-memories", TINY, "ER with other rules of what to keep, and DER++ with its reservoir, after the last task. Whiskers are one standard deviation. The sizes are those that one of ER's variants was run with.", () => [], plots);
}

function wallClock() {
  if (!drawn["wall-clock"]) return missing("wall-clock", "What a step costs", "make bench-methods > bench.txt", ...added("wall-clock", " --bench bench.txt"));
  const { note, panels: machines } = drawn["wall-clock"];
  const plots = machines.map(({ title, unit, bars }) => {
    const shown = bars.filter(([method]) => wanted("method", method));
    if (!shown.length) return null;
    const domain = extent(shown.flatMap(([, , least, most]) => [least, most]), { log: true });
    const series = shown.map(([method, name, least, most], n) => ({ ...colourOf(method, n), key: method, label: name,
      points: [{ x: least, y: -n, low: least, high: most, lines: [`${number(least)} ${unit}`, least === most ? null : `the slowest ${number(most)}`].filter(Boolean) }] }));
    return plot({ title, height: 60 + 22 * shown.length, left: 16 + 6.5 * Math.max(6, ...shown.map(([, name]) => name.length)), sideways: true, series,
      x: { title: unit, domain, log: true, ticks: logTicks(domain, number) },
      y: { domain: [0.6 - shown.length, 0.6], ticks: shown.map(([, name], n) => [-n, name]) } });
  });
  return plots.some(Boolean) ? part("wall-clock", "What a step costs", note, () => [], () => plots) : null;
}

const ARRIVES = "What arrives on MNIST-360";

function batches() {
  if (!drawn["mnist-360"]) return missing("mnist-360", ARRIVES, ...added("mnist-360"));
  const { benchmark, seed, across, batches: pairs } = drawn["mnist-360"];
  if (!wanted("benchmark", benchmark)) return null;
  const cell = ({ picture, labels }, n) => {
    const pair = `${n % across} and ${(n + 1) % across}`;
    const about = `round ${Math.floor(n / across) + 1}, digits ${pair}: ${labels.join(" ")}`;
    return el("li", { title: about }, el("img", { src: picture, alt: about, class: "batch" }), el("span", { "aria-hidden": "true" }, pair));
  };
  return el("section", { class: "figure", "data-figure": "mnist-360" }, el("h2", { tabindex: -1 }, ARRIVES),
    el("p", { class: "faint" }, `The first nine examples of each of the ${pairs.length} pairs of digits of ${benchmark}, from left to right and row by row in order of arrival (seed ${seed}). A row is a round of pairs; digits turn on from batch to batch. No one says where a pair ends.`),
    el("div", { class: "scroll", role: "region", "aria-label": ARRIVES, tabindex: 0 }, el("ol", { class: "batches", style: { "--across": across } }, pairs.map(cell))));
}
