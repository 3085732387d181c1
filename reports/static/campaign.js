/* The table of a campaign's runs, from the JSON block: sorted, filtered and paged.
 *
 * The page holds thousands of runs as data, and at most fifty as rows. Text enters the page as text
 * (textContent), never as markup.
 */
"use strict";
(() => {
  const PAGE_ROWS = 50;
  const place = document.getElementById("run-table");
  if (!place) return;
  const data = JSON.parse(document.getElementById("data").textContent);
  const runs = data.runs;
  const number = new Intl.NumberFormat("en");
  const count = (n) => (n === null ? "—" : number.format(n));
  const seconds = (n) => (n === null ? "—" : `${n.toFixed(2)} s`);

  function percent(part, whole) {
    if (part === null || !whole) return "—";
    if (part === 0 || part === whole) return part ? "100 %" : "0 %";
    const share = (100 * part) / whole;
    const room = Math.min(share, 100 - share);
    return `${share.toFixed(Math.max(1, 1 - Math.floor(Math.log10(room))))} %`;
  }

  function rate(run) {
    return runs.lost[run] === null || !runs.acknowledged[run] ? null : runs.lost[run] / runs.acknowledged[run];
  }

  // --- the columns: name, sort key, contents ----------------------------------------------------

  const COLUMNS = [
    { name: "run", by: (run) => run, show: link },
    { name: "cell", kind: "cell", by: (run) => runs.cell[run], show: (run) => named(runs.cell[run]) },
    { name: "class", by: (run) => runs.class[run], show: mark },
    { name: "lost", kind: "n", by: (run) => runs.lost[run], show: (run) => count(runs.lost[run]), losses: true },
    { name: "acknowledged", kind: "n", by: (run) => runs.acknowledged[run], show: (run) => count(runs.acknowledged[run]) },
    { name: "loss rate", kind: "n", by: rate, show: (run) => percent(runs.lost[run], runs.acknowledged[run]), losses: true },
    { name: "longest gap", kind: "n", by: (run) => runs.gap_s[run], show: (run) => seconds(runs.gap_s[run]) },
    { name: "failed writes", kind: "n", by: (run) => runs.refused[run], show: (run) => count(runs.refused[run]) },
    { name: "why", kind: "evidence", by: (run) => data.whys[runs.why[run]] || null, show: (run) => data.whys[runs.why[run]] },
  ].filter((column) => data.countsLosses || !column.losses);

  const named = (cell) => `${cell + 1}: ${data.cells[cell]}`;

  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function link(run) {
    const id = runs.id[run];
    const code = element("code", {}, id);
    if (!runs.page[run]) return code;
    const [whole, ...cell] = id.split("."); // of a run that several cells shared
    const own = cell.length ? `cells/${encodeURIComponent(cell.join("."))}/` : "";
    const folder = `runs/${encodeURIComponent(whole)}/${own}`;
    return element("a", { href: runs.page[run] === 2 ? `${folder}report.html` : folder }, code);
  }

  function mark(run) {
    const name = data.classes[runs.class[run]];
    const verdict = data.kinds[runs.class[run]];
    const kind = { loss: "mark-bad", wrong: "mark-bad", none: "mark-good" }[verdict] || "mark-off";
    const icon = { loss: "✕ ", wrong: "✕ ", none: "✓ " }[verdict] || "? ";
    if (kind === "mark-off" || runs.counts[run]) return element("span", { class: `mark ${kind}` }, icon + name);
    return element("span", { class: "mark mark-off" }, `${icon}${name}, not counted`);
  }

  // --- selection ----------------------------------------------------------------------------------

  const state = { cell: "", class: "", text: "", column: 0, down: false, page: 0 };
  let chosen = [];

  function choose() {
    const text = state.text.toLowerCase();
    const all = runs.id.map((_, run) => run);
    chosen = all.filter(
      (run) =>
        (state.cell === "" || runs.cell[run] === Number(state.cell)) &&
        (state.class === "" || runs.class[run] === Number(state.class)) &&
        (!text || `${runs.id[run]} ${data.cells[runs.cell[run]]} ${data.whys[runs.why[run]]}`.toLowerCase().includes(text)),
    );
    const by = COLUMNS[state.column].by;
    const keys = new Map(chosen.map((run) => [run, by(run)]));
    const sign = state.down ? -1 : 1;
    chosen.sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      if (x === y) return a - b;
      if (x === null || y === null) return x === null ? 1 : -1; // unknown values come last
      return (x < y ? -1 : 1) * sign;
    });
  }

  const body = element("tbody");
  const status = element("p", { class: "soft", role: "status", "aria-live": "polite" });
  const heads = COLUMNS.map((column, at) => {
    const button = element("button", { type: "button" }, column.name);
    button.addEventListener("click", () => {
      state.down = state.column === at ? !state.down : column.kind === "n";
      state.column = at;
      state.page = 0;
      draw();
    });
    return element("th", { scope: "col", class: column.kind === "n" ? "n" : "" }, button);
  });

  function pick(label, key, names) {
    const select = element("select", { id: `pick-${key}` }, element("option", { value: "" }, "all"));
    names.forEach((name, at) => select.append(element("option", { value: String(at) }, name)));
    select.addEventListener("change", () => filter({ [key]: select.value }));
    return [element("label", { for: select.id }, label), select];
  }

  function filter(change) {
    Object.assign(state, change, { page: 0 });
    cellPick.value = state.cell;
    classPick.value = state.class;
    textPick.value = state.text;
    draw();
  }

  function turn(step) {
    const button = element("button", { type: "button" }, step < 0 ? "← previous" : "next →");
    button.addEventListener("click", () => {
      state.page += step;
      draw();
    });
    return button;
  }

  function draw() {
    choose();
    const first = state.page * PAGE_ROWS;
    const shown = chosen.slice(first, first + PAGE_ROWS);
    body.replaceChildren(
      ...shown.map((run) => {
        const cells = COLUMNS.map((column) => {
          const content = column.show(run);
          const shown = typeof content === "string" && column.kind !== "n" ? element("bdi", {}, content) : content;
          return element("td", { class: column.kind || "", "data-label": column.name }, shown);
        });
        return element("tr", {}, ...cells);
      }),
    );
    heads.forEach((head, at) => {
      if (at === state.column) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const listed = count(runs.id.length);
    const in_all = chosen.length < runs.id.length ? ` (${listed} in all)` : "";
    const of = runs.id.length < data.all ? ` (${listed} listed, of ${count(data.all)})` : in_all;
    status.textContent = shown.length
      ? `Showing ${count(first + 1)} to ${count(first + shown.length)} of ${count(chosen.length)} ${data.unit}s${of}.`
      : `No ${data.unit} matches${of}.`;
    previous.disabled = first === 0;
    next.disabled = first + PAGE_ROWS >= chosen.length;
  }

  const [cellLabel, cellPick] = pick("cell", "cell", data.cells.map((_, cell) => named(cell)));
  const [classLabel, classPick] = pick("class", "class", data.classes);
  const textPick = element("input", { type: "search", id: "pick-text", size: "18" });
  textPick.addEventListener("input", () => filter({ text: textPick.value }));
  const reset = element("button", { type: "button" }, "show all");
  reset.addEventListener("click", () => filter({ cell: "", class: "", text: "" }));
  const [previous, next] = [turn(-1), turn(1)];

  place.replaceChildren(
    element("div", { class: "picks no-print" }, cellLabel, cellPick, classLabel, classPick, element("label", { for: "pick-text" }, "contains"), textPick, reset),
    status,
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs" }, element("table", { class: "blocks wide runs" }, element("thead", {}, element("tr", {}, ...heads)), body)),
    element("div", { class: "picks no-print" }, previous, next),
  );
  draw();

  for (const square of document.querySelectorAll("a[data-cell]")) {
    square.addEventListener("click", () => {
      filter({ cell: square.dataset.cell, class: "", text: "" });
      document.getElementById("runs").focus();
    });
  }
})();
