// The card with the runs behind a number. It opens on hover, focus or tap.

const card = byId("card");
let cardTimer = 0;
let cardAnchor = null;

function explains(button, content) {
  const soon = (action, wait) => { clearTimeout(cardTimer); cardTimer = setTimeout(action, wait); };
  fill(button, {
    "aria-expanded": "false",
    onpointerenter: (event) => { if (event.pointerType === "mouse") soon(() => openCard(button, content), 150); },
    onpointerleave: () => soon(closeCard, 250),
    onclick: () => { clearTimeout(cardTimer); openCard(button, content); card.focus(); },
  }, []);
  return button;
}

function openCard(anchor, content) {
  if (cardAnchor === anchor && !card.hidden) return;
  closeCard();
  cardAnchor = anchor;
  anchor.setAttribute("aria-expanded", "true");
  card.replaceChildren(el("button", { type: "button", class: "quiet close", "aria-label": "Close", onclick: () => leaveCard() }, "×"), content());
  card.hidden = false;
  card.tabIndex = -1;
  const place = anchor.getBoundingClientRect();
  const left = Math.max(8, Math.min(place.left, document.documentElement.clientWidth - card.offsetWidth - 8));
  const below = place.bottom + 6 + card.offsetHeight <= innerHeight || place.top < card.offsetHeight + 6;
  card.style.left = `${left + scrollX}px`;
  card.style.top = `${(below ? place.bottom + 6 : place.top - card.offsetHeight - 6) + scrollY}px`;
}

function closeCard() {
  clearTimeout(cardTimer);
  card.hidden = true;
  cardAnchor?.setAttribute("aria-expanded", "false");
  cardAnchor = null;
}

function leaveCard() {
  const anchor = cardAnchor;
  closeCard();
  anchor?.focus();
}

card.addEventListener("pointerenter", () => clearTimeout(cardTimer));
card.addEventListener("pointerleave", () => { if (!card.contains(document.activeElement)) cardTimer = setTimeout(closeCard, 250); });
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && !card.hidden) leaveCard(); });
document.addEventListener("pointerdown", (event) => {
  if (!card.hidden && !card.contains(event.target) && !cardAnchor?.contains(event.target)) closeCard();
});

function numberCard(row, setting, metric) {
  const [mean, std, seeds] = score(row, setting, metric);
  const paper = paperOf(row, setting, metric);
  const place = METRICS.indexOf(metric);
  return el("div", {},
    el("h3", {}, `${named(row)}, ${row.benchmark}`),
    el("p", {}, `${report.metrics[metric]}, ${report.settings[setting]}: `, el("strong", {}, plusMinus([mean, std, seeds])), ` over ${seedsOf(seeds)}`),
    paper && el("p", {}, `Paper: ${plusMinus(paper)}. `, whyJudged(mean - paper[0], paper)),
    el("ul", { class: "seeds", "aria-label": "Seeds" }, row.runs.map((run) => {
      const value = run.scores[setting]?.[place] ?? null;
      return el("li", {}, el("a", { href: addressOf(row, run.seed), onclick: closeCard }, `seed ${run.seed}`), ` ${value === null ? "–" : fixed(value / 100)}`, remark(run) && ` ${remark(run)}`);
    })),
    el("p", { class: "faint" }, values(row), siblings(row).length > 1 && `; one of ${configurations(siblings(row).length)}`),
    madeBy(row.commands.map(text), row.again),
    el("p", {}, el("a", { href: addressOf(row), onclick: closeCard }, "Heat map and runs →")));
}

function whyJudged(difference, [, , kind, weak, allowed]) {
  if (kind === null) return "There is no verdict: neither our single seed nor the paper has a standard deviation.";
  const errors = `three standard errors, ${allowed.toFixed(2)}`;
  const place = { equal: `within ${errors}`, close: `more than ${errors}, by half a point or less` }[kind] ?? `more than ${errors}, and half a point`;
  return `The difference of ${fixed(difference)} is ${place}.`
    + (weak ? " Weak: fewer than ten seeds (our standard deviation is then the larger of ours and the paper's), or a run that diverged or is far below the others." : "");
}

const values = (row) => Object.entries(row.hyperparameters).map(([name, value]) => `${name} ${number(value)}`).join(", ");

function madeBy(commands, again) {
  return [
    commands.length > 0 && [el("p", { class: "label" }, "Command"), commands.map(command)],
    again && [el("p", { class: "label" }, commands.length ? "To train only this again" : "To train it again"), command(again)],
  ];
}
