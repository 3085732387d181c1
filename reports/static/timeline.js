/* The live timeline: one canvas for each run, drawn from the JSON block of the page.
 *
 * All panels share one time axis: faults, the latency of writes on a log scale, writes per second, charts of offsets or ages where the run is about these,
 * and for each partition its leader and its replicas in sync. The script uses no chart library, since most of it
 * is lanes, hatching and marks by outcome. Text enters the page as text (textContent, fillText),
 * never as markup. The timelines of one page share zoom and cursor.
 */
"use strict";
(() => {
  const MARKS = { ok: dot, fail: square, info: diamond, open: triangle, absent: plus, lost: cross };
  const TONES = { ok: "survived", open: "info" };
  const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";
  const NEAR_PX = 14;

  // --- shapes: each adds itself to a path around (x, y) ---------------------------------------

  function dot(path, x, y, r) { path.moveTo(x + r * 0.7, y); path.arc(x, y, r * 0.7, 0, 6.3); }
  function square(path, x, y, r) { path.rect(x - r, y - r, 2 * r, 2 * r); }
  function diamond(path, x, y, r) {
    const d = r * 1.35;
    path.moveTo(x, y - d); path.lineTo(x + d, y); path.lineTo(x, y + d); path.lineTo(x - d, y);
    path.closePath();
  }
  function triangle(path, x, y, r) {
    path.moveTo(x, y - r * 1.2); path.lineTo(x + r * 1.2, y + r); path.lineTo(x - r * 1.2, y + r);
    path.closePath();
  }
  function plus(path, x, y, r) {
    path.moveTo(x - r, y); path.lineTo(x + r, y); path.moveTo(x, y - r); path.lineTo(x, y + r);
  }
  function cross(path, x, y, r) {
    path.moveTo(x - r, y - r); path.lineTo(x + r, y + r);
    path.moveTo(x - r, y + r); path.lineTo(x + r, y - r);
  }

  // --- text and elements ---------------------------------------------------------------------

  const count = (n) => n.toLocaleString("en");
  const latency = (us) =>
    us < 1000 ? `${us} µs` : us < 1e6 ? `${+(us / 1e3).toPrecision(3)} ms` : `${+(us / 1e6).toPrecision(3)} s`;

  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function ticks(from, to, most) {
    const raw = (to - from) / Math.max(most, 1);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw);
    const found = [];
    for (let n = Math.ceil(from / step - 1e-9); n * step <= to + step * 1e-9; n++) found.push(+(n * step).toPrecision(12));
    return found;
  }

  class Timeline {
    constructor(figure, data, group) {
      this.data = data;
      this.group = group;
      this.losses = data.outcomes.some((outcome) => outcome.key === "lost" && outcome.label);
      this.home = [data.scale.start, data.scale.end];
      this.view = [...this.home];
      this.hidden = new Set();
      this.cursor = null;
      this.drag = null;
      this.chosen = data.partitions.slice(0, data.lanes);
      this.build(figure);
      this.resize();
      figure.querySelector(".still").hidden = true;
      this.live.hidden = false;
      this.resize();
      new ResizeObserver(() => this.resize()).observe(this.stage);
    }

    // --- elements around the canvas --------------------------------------------------------------

    build(figure) {
      this.live = figure.querySelector(".live");
      this.canvas = element("canvas", { "aria-hidden": "true" });
      this.readout = element("div", { class: "readout" });
      this.readout.hidden = true;
      this.announcement = element("p", { class: "unseen", "aria-live": "polite" });
      this.stage = element("div", {
        class: "stage", tabindex: "0", role: "application",
        "aria-roledescription": "timeline", "aria-label":
          `Timeline of ${this.data.title}. The left and right arrow keys move along time, plus and minus zoom, `
          + "0 shows the whole run, L goes to the next lost write.",
      }, this.canvas);
      this.live.append(this.bar(), this.stage, this.readout, this.announcement, this.help());
      this.stage.append(this.readout);
      this.listen();
    }

    bar() {
      const legend = element("div", { class: "legend", role: "group", "aria-label": "Kinds of writes" });
      this.data.outcomes.forEach((outcome, place) => {
        if (outcome.total || outcome.key === "ok" || (outcome.key === "lost" && outcome.label)) legend.append(this.toggle(outcome, place));
      });
      const tools = element("div", { class: "tools", role: "group", "aria-label": "Zoom" });
      for (const [label, sign, act] of [
        ["Zoom in", "+", () => this.zoom(0.5)], ["Zoom out", "−", () => this.zoom(2)],
        ["Show the whole run", "whole run", () => this.show(this.home)],
      ]) {
        const button = element("button", { type: "button", "aria-label": label }, sign);
        button.addEventListener("click", act);
        tools.append(button);
      }
      if (this.data.partitions.length > this.data.lanes) tools.prepend(this.picker());
      return element("div", { class: "bar" }, legend, element("span", { class: "space" }), tools);
    }

    toggle(outcome, place) {
      const button = element("button", { type: "button", "aria-pressed": "true" });
      const icon = element("canvas", { width: "24", height: "24", "aria-hidden": "true" });
      icon.style.width = icon.style.height = "12px";
      button.append(icon, outcome.label + " ", element("b", {}, count(outcome.total)));
      button.addEventListener("click", () => {
        if (!this.hidden.delete(place)) this.hidden.add(place);
        button.setAttribute("aria-pressed", String(!this.hidden.has(place)));
        this.draw();
      });
      (this.icons ||= []).push([icon, outcome.key]);
      return button;
    }

    picker() {
      const select = element("select", { "aria-label": "Partitions shown" });
      select.append(element("option", { value: "" }, `${this.data.lanes} with most ${this.data.panels.length ? "findings" : "losses"}`));
      const order = this.data.partitions.map((p) => p.id).sort((a, b) => a - b);
      for (const id of order) select.append(element("option", { value: id }, `partition ${id}`));
      select.addEventListener("change", () => {
        const only = this.data.partitions.filter((p) => String(p.id) === select.value);
        this.chosen = only.length ? only : this.data.partitions.slice(0, this.data.lanes);
        this.resize();
      });
      return select;
    }

    help() {
      const key = (name) => element("kbd", {}, name);
      return element("p", { class: "help help-keys" }, "Drag to zoom, double-click to show the whole run. Keys: ", key("←"), " ", key("→"),
        " move, ", key("+"), " ", key("−"), " zoom, ", key("L"), " next lost write, ", key("0"), " whole run.");
    }

    // --- interaction -----------------------------------------------------------------------------

    listen() {
      const at = (event) => {
        const box = this.canvas.getBoundingClientRect();
        return [event.clientX - box.left, event.clientY - box.top];
      };
      this.stage.addEventListener("pointerdown", (event) => {
        if (event.pointerType !== "touch") this.drag = { from: at(event)[0], to: at(event)[0] };
        else this.point(...at(event));
      });
      this.stage.addEventListener("pointermove", (event) => {
        if (this.drag) this.drag.to = at(event)[0];
        this.point(...at(event));
      });
      window.addEventListener("pointerup", () => {
        const drag = this.drag;
        this.drag = null;
        if (!drag) return;
        if (Math.abs(drag.to - drag.from) > 6) this.show([this.time(Math.min(drag.from, drag.to)), this.time(Math.max(drag.from, drag.to))]);
        else this.draw();
      });
      this.stage.addEventListener("pointerleave", (event) => {
        if (event.pointerType !== "touch" && !this.drag) this.leave();
      });
      this.stage.addEventListener("dblclick", () => this.show(this.home));
      this.stage.addEventListener("wheel", (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? 1.25 : 0.8);
      }, { passive: false });
      this.stage.addEventListener("keydown", (event) => this.key(event));
      this.stage.addEventListener("blur", () => this.leave());
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const step = (this.view[1] - this.view[0]) / (event.shiftKey ? 10 : 100);
      const now = this.cursor ?? this.view[0];
      const acts = {
        ArrowRight: () => this.goto(now + step), ArrowLeft: () => this.goto(now - step),
        Home: () => this.goto(this.view[0]), End: () => this.goto(this.view[1]),
        "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
        0: () => this.show(this.home), Escape: () => { this.show(this.home); this.leave(); },
        l: () => this.nextLost(), L: () => this.nextLost(),
      };
      if (!acts[event.key]) return;
      event.preventDefault();
      acts[event.key]();
    }

    goto(time, mark) {
      const [low, high] = this.home;
      const t = Math.min(Math.max(time, low), high);
      const span = this.view[1] - this.view[0];
      if (t < this.view[0]) this.show([t, t + span]);
      if (t > this.view[1]) this.show([t - span, t]);
      this.group.forEach((line) => line.setCursor(t));
      this.describe(t, mark ?? -1, this.x(t), this.latencyTop);
      this.announcement.textContent = this.readout.innerText;
    }

    nextLost() {
      const { time, outcome } = this.data.marks;
      const lost = this.data.outcomes.findIndex((o) => o.key === "lost");
      const after = this.cursor === null ? -Infinity : Math.round(this.cursor * 1e3);
      let best = -1;
      time.forEach((t, i) => {
        if (outcome[i] === lost && t > after && (best < 0 || t < time[best])) best = i;
      });
      if (best >= 0) this.goto(time[best] / 1e3, best);
      else this.announcement.textContent = "No further lost write.";
    }

    zoom(factor) {
      const middle = this.cursor ?? (this.view[0] + this.view[1]) / 2;
      this.show([middle - (middle - this.view[0]) * factor, middle + (this.view[1] - middle) * factor]);
    }

    show([from, to]) {
      const [low, high] = this.home;
      const span = Math.min(Math.max(to - from, 0.05), high - low);
      const start = Math.min(Math.max((from + to - span) / 2, low), high - span);
      this.group.forEach((line) => { line.view = [start, start + span]; line.draw(); });
    }

    point(x, y) {
      if (x < this.left || x > this.left + this.wide) return this.leave();
      const mark = this.drag ? -1 : this.nearest(x, y);
      const t = mark < 0 ? this.time(x) : this.data.marks.time[mark] / 1e3;
      this.group.forEach((line) => line.setCursor(t));
      this.describe(t, mark, x, y);
    }

    setCursor(t) { this.cursor = t; this.picked = -1; this.draw(); }

    leave() {
      this.group.forEach((line) => { line.cursor = null; line.picked = -1; line.readout.hidden = !line.narrow; line.draw(); });
    }

    // --- the state at one instant ----------------------------------------------------------------

    describe(t, mark, x, y) {
      const lines = [["when", `${t.toFixed(2)} s`], ...this.factsAt(t, mark)];
      this.readout.replaceChildren(...lines.map(([kind, text]) => element("p", { class: kind }, text)));
      this.readout.hidden = false;
      this.picked = mark;
      if (!this.narrow) {
        const { offsetWidth: w, offsetHeight: h } = this.readout;
        this.readout.style.left = `${x + 16 + w > this.left + this.wide ? x - w - 16 : x + 16}px`;
        this.readout.style.top = `${Math.max(0, Math.min(y - h / 2, this.tall - h))}px`;
      }
      this.draw();
    }

    factsAt(t, mark) {
      const { data } = this;
      const found = [];
      if (mark >= 0) found.push(...this.factsOf(mark));
      for (const fault of data.faults) {
        if (fault.from <= t && (fault.to === null || t < fault.to)) {
          found.push(["", `fault ${fault.id}: ${fault.what} (${fault.proof})`]);
        }
      }
      for (const panel of this.panels) found.push(...this.factsOfPanel(panel, t));
      for (const partition of this.chosen) found.push(["", this.factsOfPartition(partition, t)]);
      const controller = data.controllers.find(([from, to]) => from <= t && t < to);
      if (controller) found.push(["", `active controller ${controller[2]}`]);
      const bar = Math.floor((t - data.bars.from_s[0]) / data.bars.width);
      if (bar >= 0 && bar < data.bars.from_s.length) {
        const per = (name) => count(Math.round(data.bars[name][bar] / data.bars.width));
        found.push(["", `per second: attempted ${per("attempted")} · ${data.outcomes[0].label} ${per("survived")}${this.losses ? ` · lost ${per("lost")}` : ""}`]);
      }
      return found;
    }

    factsOf(mark) {
      const m = this.data.marks;
      const outcome = this.data.outcomes[m.outcome[mark]];
      const parts = [`write ${m.value[mark]}: ${outcome.label}`];
      if (m.latency[mark] >= 0) parts.push(latency(m.latency[mark]));
      if (m.partition[mark] >= 0 && this.data.partitions.length > 1) parts.push(`partition ${m.partition[mark]}`);
      if (m.offset[mark] >= 0) parts.push(`offset ${m.offset[mark]}`);
      parts.push(`process ${m.process[mark]}`);
      const lines = [[outcome.key === "lost" ? "is-lost" : "", parts.join(" · ")]];
      if (m.count[mark] > 1) lines.push(["", `and ${count(m.count[mark] - 1)} more writes with this outcome here`]);
      return lines;
    }

    factsOfPartition(partition, t) {
      const { nodes } = this.data;
      const view = partition.views.find(([from, to]) => from <= t && t < to);
      const of = this.data.partitions.length > 1 ? `partition ${partition.id}: ` : "";
      if (!view) return `${of}no node answered`;
      const [, , leader, epoch, inSync] = view;
      const who = leader < 0 ? "no leader" : `${nodes[leader]} leads`;
      const term = epoch < 0 ? "" : ` (epoch ${epoch})`;
      const members = inSync.length ? `, in sync ${inSync.length}: ${inSync.map((n) => nodes[n]).join(", ")}` : "";
      const believers = partition.beliefs.filter(([, from, to]) => from <= t && t < to)
        .map(([node, , , old]) => `; ${nodes[node]} believes that it leads${old < 0 ? "" : ` (epoch ${old})`}`);
      return `${of}${who}${term}${members}${believers.join("")}`;
    }

    factsOfPanel({ title, tracks, areas, marks, kinds }, t) {
      const at = tracks.map(({ name, time, height }) => {
        const last = time.findLastIndex((each) => each !== null && each <= t * 1e3);
        return last < 0 ? "" : `, ${name} ${count(height[last])}`;
      });
      const lines = tracks.length ? [["", title + at.join("")]] : [];
      const near = (this.view[1] - this.view[0]) / 100;
      kinds.forEach(({ label }, kind) => {
        const here = marks.filter((mark) => mark[0] === kind && Math.abs(mark[1] - t) < near);
        const within = areas.filter((area) => area[0] === kind && area[1] <= t && t <= area[2]);
        const total = [...here, ...within].reduce((sum, each) => sum + each.at(-1), 0);
        const oldest = tracks.length ? "" : `, the oldest ${Math.max(...here.map((mark) => mark[2])).toFixed(2)} s`;
        if (total) lines.push(["is-lost", `${label}: ${count(total)}${oldest}`]);
      });
      return lines;
    }

    nearest(x, y) {
      const { time, outcome } = this.data.marks;
      let best = -1, bestSquare = NEAR_PX ** 2;
      if (y < this.latencyTop - NEAR_PX || y > this.latencyTop + this.latencyTall + NEAR_PX) return best;
      for (let i = 0; i < time.length; i++) {
        const dx = this.x(time[i] / 1e3) - x;
        if (dx > NEAR_PX || dx < -NEAR_PX || this.hidden.has(outcome[i])) continue;
        const square = dx * dx + (this.y(i) - y) ** 2;
        if (square <= bestSquare) { bestSquare = square; best = i; }
      }
      return best;
    }

    // --- layout ----------------------------------------------------------------------------------

    x(t) { return this.left + ((t - this.view[0]) / (this.view[1] - this.view[0])) * this.wide; }
    time(x) {
      const share = Math.min(Math.max((x - this.left) / this.wide, 0), 1);
      return this.view[0] + share * (this.view[1] - this.view[0]);
    }
    yOf(ms) {
      const [low, high] = this.data.scale.latency.map(Math.log10);
      const share = Math.max(0, (Math.log10(ms) - low) / (high - low));
      return this.latencyTop + this.latencyTall - Math.min(share, 1) * (this.latencyTall - this.strip);
    }
    y(mark) {
      const us = this.data.marks.latency[mark];
      return us < 0 ? this.latencyTop + this.strip / 2 - 1 : this.yOf(us / 1e3);
    }

    resize() {
      const width = this.stage.clientWidth || this.live.parentElement.clientWidth;
      const { data } = this;
      this.narrow = width < 600;
      this.live.classList.toggle("narrow", this.narrow);
      if (this.narrow) { this.stage.after(this.readout); this.readout.hidden = false; } else { this.stage.append(this.readout); this.readout.hidden = this.cursor === null; }
      if (this.narrow && !this.readout.childNodes.length) this.readout.replaceChildren(element("p", { class: "help" }, "Touch the timeline to see the state at an instant."));
      this.left = this.narrow ? 46 : 72;
      this.wide = width - this.left - 8;
      this.laneTall = this.narrow ? 15 : 17;
      this.strip = data.outcomes.find((o) => o.key === "open").total ? 16 : 0;
      this.latencyTop = data.faults.length * 26 + (data.faults.length ? 30 : 22);
      this.latencyTall = this.narrow ? 220 : 300;
      this.rateTop = this.latencyTop + this.latencyTall + 40;
      this.rateTall = this.narrow ? 80 : 104;
      this.panels = data.panels.filter(({ partition: p }) => p === null || this.chosen.some(({ id }) => id === p));
      this.panelTall = this.narrow ? 100 : 130;
      this.panelsTop = this.rateTop + this.rateTall + 40;
      this.lanesTop = this.panelsTop + this.panels.length * (this.panelTall + 40) - 22;
      this.groupTall = (data.nodes.length + 1) * this.laneTall + 12;
      const lanes = this.chosen.length * this.groupTall + (data.controllers.length ? this.laneTall + 6 : 0);
      this.axisTop = this.lanesTop + lanes;
      this.tall = this.axisTop + 44;
      const dense = window.devicePixelRatio || 1;
      this.canvas.width = Math.round(width * dense);
      this.canvas.height = Math.round(this.tall * dense);
      this.canvas.style.height = `${this.tall}px`;
      this.pen = this.canvas.getContext("2d");
      this.pen.setTransform(dense, 0, 0, dense, 0, 0);
      this.draw(true);
    }

    // --- drawing -----------------------------------------------------------------------------------

    draw(now) {
      if (now) { this.paint(); return; }
      if (this.due) return;
      this.due = requestAnimationFrame(() => { this.due = 0; this.paint(); });
    }

    paint() {
      const style = getComputedStyle(document.documentElement);
      this.tone = (name) => style.getPropertyValue(`--${name}`).trim();
      this.pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
      this.paintShades();
      this.paintFaults();
      this.paintLatency();
      this.paintRates();
      this.panels.forEach((panel, place) => this.paintPanel(panel, this.panelsTop + place * (this.panelTall + 40)));
      this.paintLanes();
      this.paintAxis();
      this.paintCursor();
      for (const [icon, key] of this.icons) this.paintIcon(icon, key);
    }

    text(label, x, y, { tone = "muted", align = "left", size = 12, bold = false, most = Infinity } = {}) {
      const { pen } = this;
      pen.font = `${bold ? 600 : 400} ${size}px ${FONT}`;
      pen.fillStyle = this.tone(tone);
      pen.textAlign = align;
      pen.textBaseline = "middle";
      let shown = label;
      while (shown.length > 1 && pen.measureText(shown).width > most) shown = shown.slice(0, -2).trimEnd() + "…";
      pen.fillText(shown, x, y);
      return pen.measureText(shown).width;
    }

    within(from, to, y, tall, act) {
      // Whole pixels, so that neighbours meet without a seam; at least one pixel, so that a short
      // interval is visible.
      const x0 = Math.round(Math.max(this.x(from), this.left));
      const x1 = Math.round(Math.min(this.x(to), this.left + this.wide));
      if (this.x(to) > this.left && x0 <= this.left + this.wide && x1 >= x0) act(x0, y, Math.max(x1 - x0, 1), tall);
    }

    hatch(x, y, w, h, tone, { gap = 6, thick = 1.6 } = {}) {
      const { pen } = this;
      pen.save();
      pen.beginPath(); pen.rect(x, y, w, h); pen.clip();
      pen.strokeStyle = this.tone(tone); pen.lineWidth = thick;
      pen.beginPath();
      for (let at = Math.floor((x - h) / gap) * gap; at < x + w; at += gap) { pen.moveTo(at, y + h); pen.lineTo(at + h, y); }
      pen.stroke();
      pen.restore();
    }

    ending(fault) { return fault.to === null ? this.home[1] : fault.to; }

    paintShades() {
      const { pen } = this;
      pen.globalAlpha = 0.17;
      for (const fault of this.data.faults) {
        pen.fillStyle = this.tone(`fault-${fault.tint}`);
        this.within(fault.from, this.ending(fault), this.latencyTop, this.axisTop - this.latencyTop, (...box) => pen.fillRect(...box));
      }
      pen.globalAlpha = 1;
    }

    paintFaults() {
      const { pen } = this;
      this.data.faults.forEach((fault, place) => {
        const y = place * 26 + 1, tone = this.tone(`fault-${fault.tint}`);
        this.within(fault.from, this.ending(fault), y, 22, (x, top, w, h) => {
          pen.globalAlpha = 0.38; pen.fillStyle = tone; pen.fillRect(x, top, w, h); pen.globalAlpha = 1;
          pen.strokeStyle = tone; pen.lineWidth = 1;
          pen.setLineDash(fault.proven ? [] : [4, 3]);
          pen.strokeRect(x + 0.5, top + 0.5, w - 1, h - 1);
          pen.setLineDash([]);
          const proof = `${fault.proven ? "✓" : fault.proof === "control" ? "–" : "✕"} ${fault.proof}`;
          const full = `${fault.id}  ${fault.what}  ${proof}`;
          const short = `${fault.id}  ${proof}`;
          pen.font = `400 12px ${FONT}`;
          const room = this.left + this.wide;
          const label = pen.measureText(full).width + 8 < Math.max(w, room - x) ? full : short;
          const at = Math.max(this.left + 4, Math.min(x + 7, room - pen.measureText(label).width - 4));
          this.text(label, at, top + h / 2 + 0.5, { tone: "ink" });
        });
      });
    }

    paintLatency() {
      const { pen, data } = this;
      this.text("write latency", this.left, this.latencyTop - 12, { bold: true, tone: "ink" });
      const [low, high] = [Math.ceil, Math.floor].map((whole, i) => whole(Math.log10(data.scale.latency[i])));
      const every = Math.max(1, Math.ceil(((high - low) * 22) / this.latencyTall));
      for (let power = low; power <= high; power += every) {
        const y = Math.round(this.yOf(10 ** power)) + 0.5;
        this.rule(y);
        this.text(latency(10 ** (power + 3)), this.left - 7, y, { align: "right", size: 11 });
      }
      if (this.strip) this.text(this.narrow ? "none" : "no answer", this.left - 7, this.latencyTop + this.strip / 2 - 1, { align: "right", size: 11 });
      pen.save();
      pen.beginPath(); pen.rect(this.left, this.latencyTop - 6, this.wide, this.latencyTall + 12); pen.clip();
      data.outcomes.forEach((outcome, place) => { if (!this.hidden.has(place)) this.paintMarks(outcome.key, place); });
      pen.restore();
    }

    paintMarks(key, place) {
      const { time, outcome } = this.data.marks;
      const path = new Path2D(), [from, to] = [this.view[0] * 1e3, this.view[1] * 1e3];
      const r = this.narrow ? 2 : 2.5;
      for (let i = 0; i < time.length; i++) {
        if (outcome[i] === place && time[i] >= from && time[i] <= to) MARKS[key](path, this.x(time[i] / 1e3), this.y(i), r);
      }
      this.finish(this.pen, path, key);
    }

    finish(pen, path, key) {
      const tone = this.tone(TONES[key] || key);
      if (key === "ok") { pen.globalAlpha = 0.8; pen.fillStyle = tone; pen.fill(path); pen.globalAlpha = 1; return; }
      pen.strokeStyle = tone;
      pen.lineWidth = key === "lost" || key === "absent" ? 1.3 : 1;
      pen.stroke(path);
    }

    paintIcon(icon, key) {
      const pen = icon.getContext("2d");
      pen.setTransform(2, 0, 0, 2, 0, 0);
      pen.clearRect(0, 0, 12, 12);
      const path = new Path2D();
      MARKS[key](path, 6, 6, key === "ok" ? 5 : 3.6);
      this.finish(pen, path, key);
    }

    rule(y) {
      const { pen } = this;
      pen.strokeStyle = this.tone("rule"); pen.lineWidth = 1;
      pen.beginPath(); pen.moveTo(this.left, y); pen.lineTo(this.left + this.wide, y); pen.stroke();
    }

    paintRates() {
      const { pen, data } = this, { bars } = data;
      const top = data.scale.rate * 1.04, base = this.rateTop + this.rateTall;
      const y = (n) => base - (n / top) * this.rateTall;
      this.text("writes per second", this.left, this.rateTop - 12, { bold: true, tone: "ink" });
      for (const n of ticks(0, top, 3)) {
        this.rule(Math.round(y(n)) + 0.5);
        this.text(n >= 1e4 ? `${n / 1e3}k` : count(n), this.left - 7, y(n), { align: "right", size: 11 });
      }
      bars.from_s.forEach((from, i) => {
        let below = 0;
        for (const [name, tone] of [["survived", "survived"], ["absent", "absent"], ["lost", "lost"]]) {
          const height = bars[name][i] / bars.width;
          if (!height) continue;
          this.within(from, from + bars.width, y(below + height), y(below) - y(below + height), (x, at, w, h) => {
            pen.globalAlpha = tone === "survived" ? 0.75 : 1;
            pen.fillStyle = this.tone(tone);
            pen.fillRect(x, at, w, h);
            pen.globalAlpha = 1;
            if (tone === "lost") this.hatch(x, at, w, h, "paper", { gap: 7, thick: 1.3 });
          });
          below += height;
        }
      });
      this.outline(bars, y);
      if (!this.narrow) this.text(`line: attempted   bars: acknowledged${this.losses ? ", lost on top" : ""}`, this.left + this.wide, this.rateTop - 12, { align: "right", size: 11 });
    }

    outline(bars, y) {
      const { pen } = this;
      pen.save();
      pen.beginPath(); pen.rect(this.left, this.rateTop - 4, this.wide, this.rateTall + 6); pen.clip();
      pen.strokeStyle = this.tone("ink"); pen.lineWidth = 1;
      pen.beginPath();
      bars.from_s.forEach((from, i) => {
        const at = y(bars.attempted[i] / bars.width);
        pen.lineTo(this.x(from), at); pen.lineTo(this.x(from + bars.width), at);
      });
      pen.stroke();
      pen.restore();
    }

    paintPanel({ title, top, kinds, tracks, areas, marks }, head) {
      const { pen } = this, base = head + this.panelTall;
      const y = (n) => base - (n / (top * 1.04)) * this.panelTall;
      this.text(title, this.left, head - 12, { bold: true, tone: "ink" });
      for (const n of ticks(0, top, 3)) {
        this.rule(Math.round(y(n)) + 0.5);
        this.text(n >= 1e4 ? `${n / 1e3}k` : count(n), this.left - 7, y(n), { align: "right", size: 11 });
      }
      pen.save();
      pen.beginPath(); pen.rect(this.left, head - 6, this.wide, this.panelTall + 12); pen.clip();
      for (const [kind, from, to, low, high] of areas) {
        const { tone, hatched } = kinds[kind], tall = Math.max(y(low) - y(high), 3);
        this.within(from, to, (y(low) + y(high) - tall) / 2, tall, (x, at, w, h) => {
          if (hatched) { this.hatch(x - 2, at - 1, w + 4, h + 2, tone, { gap: 4 }); return; }
          pen.globalAlpha = 0.6; pen.fillStyle = this.tone(tone); pen.fillRect(x, at, w, h); pen.globalAlpha = 1;
        });
      }
      for (const { tone, step, time, height } of tracks) {
        pen.strokeStyle = this.tone(tone); pen.lineWidth = tone === "ink" ? 1 : 1.8;
        pen.setLineDash(step ? [4, 3] : []);
        pen.beginPath();
        time.forEach((t, i) => {
          if (t === null) return;
          const x = this.x(t / 1e3), begins = i === 0 || time[i - 1] === null;
          if (step && !begins) pen.lineTo(x, y(height[i - 1]));
          if (begins) pen.moveTo(x, y(height[i])); else pen.lineTo(x, y(height[i]));
        });
        pen.stroke();
        pen.setLineDash([]);
      }
      const path = new Path2D();
      for (const [, t, height] of marks) {
        diamond(path, this.x(t), y(height), 2.5);
        if (!tracks.length) { path.moveTo(this.x(t), y(height)); path.lineTo(this.x(t), base); }
      }
      this.finish(pen, path, "lost");
      pen.restore();
    }

    paintLanes() {
      const { data, laneTall } = this;
      this.chosen.forEach((partition, place) => {
        let y = this.lanesTop + place * this.groupTall + 6;
        this.rule(Math.round(y - 3) + 0.5);
        const of = this.data.partitions.length > 1 ? `p${partition.id}` : "";
        this.text(of && this.narrow ? of : `${of && `${of}: `}in sync`, this.left - 7, y + laneTall / 2, { align: "right", size: 11, tone: "ink", most: this.left - 4 });
        this.paintSizes(partition, y);
        data.nodes.forEach((node, n) => {
          y += laneTall;
          this.text(node, this.left - 7, y + laneTall / 2, { align: "right", size: 11, most: this.left - 8 });
          this.paintLane(partition, n, y);
        });
      });
      if (data.controllers.length) this.paintControllers(this.lanesTop + this.chosen.length * this.groupTall + 2);
    }

    paintSizes(partition, y) {
      let before = -1;
      for (const [from, to, , , inSync] of partition.views) {
        if (inSync.length !== before || from <= this.view[0]) {
          this.within(from, to, y, this.laneTall, (x, top, w) => { if (w > 9) this.text(String(inSync.length), x + 2, top + this.laneTall / 2, { tone: "ink", size: 11, bold: true }); });
        }
        before = inSync.length;
      }
    }

    paintLane(partition, node, y) {
      const { pen } = this, tall = this.laneTall - 4;
      for (const [from, to, leader, , inSync] of partition.views) {
        if (leader !== node && !inSync.includes(node)) continue;
        pen.fillStyle = this.tone(leader === node ? "leads" : "insync");
        this.within(from, to, y + 2, tall, (x, top, w, h) => pen.fillRect(x, top, w, h));
      }
      for (const [who, from, to] of partition.beliefs) {
        if (who !== node) continue;
        this.within(from, to, y + 2, tall, (x, top, w, h) => {
          pen.fillStyle = this.tone("paper"); pen.fillRect(x, top, w, h);
          this.hatch(x, top, w, h, "leads");
          pen.strokeStyle = this.tone("leads"); pen.lineWidth = 1;
          pen.strokeRect(x + 0.5, top + 0.5, w - 1, h - 1);
        });
      }
    }

    paintControllers(y) {
      const { pen } = this;
      this.text(this.narrow ? "ctrl" : "controller", this.left - 7, y + this.laneTall / 2, { align: "right", size: 11, most: this.left - 4 });
      for (const [from, to, name] of this.data.controllers) {
        this.within(from, to, y + 2, this.laneTall - 4, (x, top, w, h) => {
          pen.strokeStyle = this.tone("muted"); pen.lineWidth = 1;
          pen.strokeRect(x + 0.5, top + 0.5, w - 1, h - 1);
          if (w > 20) this.text(name, x + 4, top + h / 2 + 0.5, { size: 11, most: w - 6 });
        });
      }
    }

    paintAxis() {
      const { pen } = this, y = Math.round(this.axisTop) + 0.5;
      this.rule(y);
      for (const t of ticks(...this.view, this.wide / (this.narrow ? 54 : 76))) {
        const x = Math.round(this.x(t)) + 0.5;
        pen.beginPath(); pen.moveTo(x, y); pen.lineTo(x, y + 4); pen.stroke();
        this.text(String(t), x, y + 14, { align: "center", size: 11 });
      }
      this.text("seconds since the start of the run", this.left + this.wide / 2, y + 33, { align: "center", size: 12 });
      if (!this.narrow) this.paintKey(y + 33);
    }

    paintKey(y) {
      const { pen } = this;
      let x = this.left + this.wide;
      for (const [label, role] of [["believes that it leads", "believes"], ["in sync", "insync"], ["leads", "leads"]]) {
        x -= this.text(label, x, y, { align: "right", size: 11 }) + 20;
        pen.fillStyle = this.tone(role === "believes" ? "paper" : role);
        pen.fillRect(x, y - 5, 15, 10);
        if (role === "believes") {
          this.hatch(x, y - 5, 15, 10, "leads", { gap: 5 });
          pen.strokeStyle = this.tone("leads"); pen.strokeRect(x + 0.5, y - 4.5, 14, 9);
        }
        x -= 12;
      }
    }

    paintCursor() {
      const { pen } = this;
      if (this.drag) {
        pen.globalAlpha = 0.15; pen.fillStyle = this.tone("ink");
        pen.fillRect(Math.min(this.drag.from, this.drag.to), this.latencyTop, Math.abs(this.drag.to - this.drag.from), this.axisTop - this.latencyTop);
        pen.globalAlpha = 1;
      }
      if (this.cursor === null || this.cursor < this.view[0] || this.cursor > this.view[1]) return;
      const x = Math.round(this.x(this.cursor)) + 0.5;
      pen.strokeStyle = this.tone("ink"); pen.lineWidth = 1; pen.globalAlpha = 0.55;
      pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, this.axisTop); pen.stroke();
      pen.globalAlpha = 1;
      if (this.picked >= 0) {
        pen.lineWidth = 1.5;
        pen.beginPath(); pen.arc(this.x(this.data.marks.time[this.picked] / 1e3), this.y(this.picked), 6, 0, 6.3); pen.stroke();
      }
    }
  }

  const group = [];
  const all = JSON.parse(document.getElementById("data").textContent) || [];
  for (const figure of document.querySelectorAll("[data-timeline]")) {
    group.push(new Timeline(figure, all[Number(figure.dataset.timeline)], group));
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => group.forEach((line) => line.draw()));
})();
