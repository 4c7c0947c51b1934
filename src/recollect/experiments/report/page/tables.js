// The tables: number of reproduced results, then our results next to the published ones.

const sorting = new Map(); // by table: {column, down}

function showTables() {
  const groups = grouped(chosen()).map(withColumns).filter((group) => group.rows.length);
  return [
    el("h2", {}, report.metrics[state.metric]),
    el("p", { class: "faint" }, metricAbout[state.metric], " Mean ± standard deviation over seeds, in percent. Select a number for its details."),
    several.length > 0 && !state.every && el("p", { class: "faint", id: "one-of-several" }, oneOfSeveral()),
    groups.length ? groups.map(table) : el("p", { class: "empty" }, "No runs match the filters."),
    groups.some(({ compared }) => compared) && el("p", { class: "rule" }, "✓ equal: |ours − paper| ≤ 3·√(σ²/seeds + σ²(paper)/10), that is, within three standard errors. ≈ close: by half a point more. ▲ above, ▼ below. "
      + "Equal and close count as reproduced. (✓) weak: fewer than ten seeds (σ is then the larger of ours and the paper's), or a run that diverged or is far below the others. "
      + "Far below: more than 15 points and five robust standard deviations below the median of the same configuration; means include such runs."),
  ];
}

// Explains which of several configurations is shown.
const oneOfSeveral = () => `${several.length} of ${cells.size} methods and buffers ${several.length === 1 ? "has" : "have"} several configurations, `
  + `${several.reduce((sum, rows) => sum + rows.length, 0)} in total. Each shows one: the default values (the paper's, if published), or else the best mean accuracy. To select another one, use the menu below its name.`;

// A menu of the configurations of a method and buffer, best first.
function grid(row) {
  const rows = siblings(row);
  const [setting] = settingsOf(rows);
  const mean = (each) => score(each, setting, "accuracy")?.[0] ?? -Infinity;
  const ordered = [...rows].sort((a, b) => mean(b) - mean(a));
  const name = (each) => `${varied(each)}${score(each, setting, "accuracy") ? ` (${fixed(mean(each))})` : ""}`;
  return [
    el("select", { "aria-label": `Configuration of ${named(row)}, ${groupTitle(row)}`, onchange: (event) => pick(rowsById.get(event.target.value)) },
      ordered.map((each) => el("option", { value: each.id, selected: each === row }, name(each)))),
    el("small", {}, `1 of ${configurations(rows.length)}: ${row.why || "selected"}`),
  ];
}

const metricAbout = {
  accuracy: "Accuracy on all tasks after the last one.",
  fwt: "Accuracy on a task just before it is learned, minus the accuracy of an untrained network.",
  bwt: "Final accuracy on a task, minus the accuracy just after it was learned.",
  forgetting: "Best accuracy on a task, minus the final one. Lower is better.",
  average_incremental_accuracy: "Accuracy on the tasks so far, measured after each task and averaged.",
  anytime_accuracy: "Accuracy on the tasks so far, averaged over all steps; only for runs with curves.",
};

function overview() {
  const shown = report.tallies.filter(({ benchmark }) => !state.filters.benchmark.size || state.filters.benchmark.has(benchmark));
  if (!shown.length) return [el("h1", {}, `${report.runs.toLocaleString("en")} run${report.runs === 1 ? "" : "s"}, ${configurations(report.rows.length)}`)];
  const metrics = [...new Set(shown.map(({ metric }) => metric))];
  const main = metrics.includes("accuracy") ? "accuracy" : metrics[0];
  const sum = (metric, word) => shown.filter((t) => t.metric === metric).reduce((total, t) => total + t[word], 0);
  const measured = (tally) => tally.reproduced + tally.above + tally.below;
  const words = (tally) => [["same", "✓", "equal"], ["same", "≈", "close"], ...(tally.metric === "forgetting"
    ? [["worse", "▲", "above"], ["better", "▼", "below"]] : [["better", "▲", "above"], ["worse", "▼", "below"]])];
  const cell = (tally) => tally && el("td", {},
    el("div", { class: "stack", "aria-hidden": "true" }, words(tally).map(([kind, , word]) => tally[word] > 0
      && el("span", { class: kind, style: { "flex-grow": tally[word] } })), tally.printed > measured(tally)
      && el("span", { class: "open", style: { "flex-grow": tally.printed - measured(tally) } })),
    el("span", { class: "counts" }, words(tally).map(([kind, mark, word]) => tally[word] > 0
      && el("span", { class: kind, title: word }, `${mark} ${tally[word]}`, el("span", { class: "unseen" }, ` ${word}`))),
      el("span", { class: "faint" }, `of ${tally.printed}`)));
  const count = (word) => sum(main, word);
  const open = count("printed") - count("reproduced") - count("above") - count("below");
  return [
    el("h1", {}, `${count("reproduced")} of ${count("printed")} published ${metricName(main)} results reproduced`),
    el("p", { class: "lead" }, `${count("equal")} are equal and ${count("close")} close; ${count("above")} are above the paper's and ${count("below")} below${open ? `; ${open} are not measured` : ""}. `
      + (count("weak") ? `${count("weak")} of these verdicts are weak. ` : "")
      + `${report.runs.toLocaleString("en")} runs are in this report.`),
    el("div", { class: "scroll", role: "region", "aria-label": "Summary by benchmark", tabindex: 0 },
      el("table", { class: "summary", "aria-label": "Summary by benchmark" },
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Benchmark"), metrics.map((metric) => el("th", { scope: "col" }, capital(metricName(metric)))))),
        el("tbody", {}, [...new Set(shown.map(({ benchmark }) => benchmark))].map((benchmark) => el("tr", {},
          el("th", { scope: "row" }, benchmark),
          metrics.map((metric) => cell(shown.find((t) => t.benchmark === benchmark && t.metric === metric)) ?? el("td", { class: "faint" }, "–"))))))),
  ];
}

const metricName = (metric) => (metric === SINGLE ? "single-epoch accuracy" : report.metrics[metric].toLowerCase());
const capital = (words) => words[0].toUpperCase() + words.slice(1);

function withColumns(group) {
  const { metric, filters: { verdict } } = state;
  const measured = (row) => Object.keys(row.scores).some((setting) => score(row, setting, metric));
  const wanted = (row) => !verdict.size || Object.keys(row.scores).some((setting) => verdict.has(paperOf(row, setting, metric)?.[2] ?? NO_VERDICT));
  const shown = (row) => state.every || pickedOf(siblings(row)) === row;
  const rows = group.rows.filter((row) => shown(row) && measured(row) && wanted(row));
  const settings = settingsOf(rows).filter((setting) => rows.some((row) => score(row, setting, metric)));
  const compared = rows.some((row) => settings.some((setting) => paperOf(row, setting, metric)));
  return { ...group, rows, settings, compared };
}

function table(group) {
  const { metric } = state;
  const columns = [
    { name: "Method", value: (row) => METHODS.indexOf(row.method) },
    { name: "Buffer", value: (row) => row.buffer, right: true },
    ...group.settings.flatMap((setting) => [
      { name: "ours", setting, value: (row) => score(row, setting, metric)?.[0] ?? null, right: true },
      ...(group.compared ? [
        { name: "paper", setting, value: (row) => paperOf(row, setting, metric)?.[0] ?? null, right: true },
        { name: "verdict", setting, value: (row) => { const paper = paperOf(row, setting, metric); return paper && score(row, setting, metric)[0] - paper[0]; } },
      ] : []),
    ]),
    { name: "Memory", value: (row) => row.bytes, right: true },
    { name: "Time per run", value: (row) => row.seconds, right: true },
    { name: "Seeds", value: (row) => row.runs.length, right: true },
  ];
  const key = (column) => `${column.setting ?? ""} ${column.name}`;
  const body = el("tbody");
  const heads = new Map();
  const head = (column) => {
    const cell = el("th", { scope: "col", class: column.right && "right", rowspan: column.setting ? null : 2 },
      el("button", { type: "button", "aria-label": `Sort by ${column.setting ? `${report.settings[column.setting]} ` : ""}${column.name}`,
        onclick: () => sortBy(column) }, column.name));
    heads.set(key(column), cell);
    return cell;
  };
  // Scores sort best first, everything else ascending; sorting again reverses the order.
  const sortBy = (column) => {
    const now = sorting.get(group.key);
    sorting.set(group.key, { column: key(column), down: now?.column === key(column) ? !now.down : Boolean(column.setting) });
    redraw();
  };
  const redraw = () => {
    const now = sorting.get(group.key);
    const column = columns.find((each) => key(each) === now?.column);
    for (const [name, cell] of heads) cell.setAttribute("aria-sort", column && name === key(column) ? (now.down ? "descending" : "ascending") : "none");
    const rows = [...group.rows];
    if (column) {
      rows.sort((a, b) => {
        const [p, q] = [column.value(a), column.value(b)];
        if (p === null || q === null) return (p === null) - (q === null);
        return now.down ? q - p : p - q;
      });
    }
    body.replaceChildren(...rows.map((row, n) => line(row, group, !column && n > 0 && rows[n - 1].method !== row.method)));
  };
  const span = group.compared ? 3 : 1;
  const grid = el("table", { class: "results" },
    el("caption", { class: "unseen" }, `${group.title}: ${report.metrics[metric]}`),
    el("thead", {},
      el("tr", {}, columns.slice(0, 2).map(head), group.settings.map((setting) => el("th", { scope: "colgroup", colspan: span, class: "setting" }, report.settings[setting])), columns.slice(-3).map(head)),
      el("tr", {}, columns.slice(2, -3).map(head))),
    body);
  redraw();
  const about = report.benchmarks[group.benchmark];
  return el("section", { class: "benchmark", "data-benchmark": group.benchmark },
    el("h3", {}, group.title),
    el("p", { class: "faint" }, about.about && `${capital(about.about)}.`, about.standsIn && ` It substitutes for ${about.standsIn}, so there is no published result to compare with.`),
    el("div", { class: "scroll", role: "region", "aria-label": group.title, tabindex: 0 }, grid));
}

function line(row, group, apart) {
  const { metric } = state;
  const differs = varied(row);
  const remarks = ["diverged", "far below"].map((word) => [row.runs.filter((run) => remark(run) === word).length, word]).filter(([count]) => count);
  return el("tr", { class: apart && "apart" },
    el("th", { scope: "row" }, el("a", { href: addressOf(row) }, titled(row)),
      siblings(row).length > 1 && !state.every ? grid(row) : differs && el("small", {}, differs), !row.usual && el("small", {}, "not the paper's values"),
      remarks.map(([count, word]) => el("small", { class: "worse" }, `${count} ${word}`))),
    el("td", { class: "right" }, row.buffer ?? "–"),
    group.settings.map((setting) => {
      const [ours, paper] = [score(row, setting, metric), paperOf(row, setting, metric)];
      return [
        el("td", { class: "right number" }, ours
          ? explains(el("button", { type: "button" }, fixed(ours[0]), ours[2] === 1 ? "" : el("small", {}, ` ±${ours[1].toFixed(2)}`)), () => numberCard(row, setting, metric)) : "–"),
        group.compared && [
          el("td", { class: "right paper" }, paper ? [fixed(paper[0]), paper[1] !== null && el("small", {}, ` ±${paper[1].toFixed(2)}`)] : "–"),
          el("td", { class: `verdict ${paper ? judged(paper, metric)[0] : ""}` }, paper ? judged(paper, metric)[1] : ""),
        ],
      ];
    }),
    el("td", { class: "right" }, bytes(row.bytes)),
    el("td", { class: "right" }, seconds(row.seconds)),
    el("td", { class: "right" }, row.runs.length));
}
