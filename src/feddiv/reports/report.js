// The charts of a report: each `draw` takes the runs that are switched on and fills its place.
"use strict";
(() => {
  const { runs, draws } = JSON.parse(document.getElementById("data").textContent);
  const { percent, plain, element } = Charts;
  const color = (run) => `var(--${run.colour})`;
  const hidden = new Set(), drawings = [];
  const shown = () => runs.filter((_, place) => !hidden.has(place));
  const host = (name) => document.querySelector(`[data-chart="${name}"]`);
  const redraw = () => { rows(); drawings.forEach((draw) => draw()); };
  // Tables with a row for each run say whose it is.
  const rows = () => document.querySelectorAll("[data-rows]").forEach((table) => {
    const whose = table.dataset.rows.split(" ");
    table.querySelectorAll("tbody tr").forEach((row, place) => { row.hidden = hidden.has(+whose[place]); });
  });
  const drawn = (name, draw) => { const place = host(name); if (place) { const job = () => draw(place); drawings.push(job); job(); } };
  const empty = (place, words) => { place.replaceChildren(); element("p", "empty", place, words); };
  const points = (across, values) => across.map((x, place) => [x, values[place] ?? NaN]);
  const known = (values) => points(values.map((_, place) => place), values).filter((point) => Number.isFinite(point[1]));
  const roundsOf = (x) => `round ${plain(x)}`;
  const withSeries = (key) => shown().filter((run) => run.series[key]);

  // What one may choose: a row of buttons, or a list.
  function choice(name, options, change) {
    const place = document.querySelector(`[data-choice="${name}"]`);
    if (!place) return () => options[0]?.[0];
    let value = options[0]?.[0];
    if (options.length < 2) return () => value;
    const buttons = options.map(([key, words]) => {
      const button = element("button", "", place, words);
      button.type = "button";
      button.dataset.value = key;
      button.setAttribute("aria-pressed", key === value);
      button.addEventListener("click", () => {
        value = key;
        buttons.forEach((each) => each.setAttribute("aria-pressed", each === button));
        change();
      });
      return button;
    });
    return () => value;
  }
  function list(name, options, change, first) {
    const place = document.querySelector(`[data-list="${name}"]`);
    if (!place) return () => first ?? options[0]?.[0];
    const select = element("select", "", place);
    for (const [key, words] of options) element("option", "", select, words).value = key;
    if (first !== undefined && first !== null) select.value = first;
    select.addEventListener("change", change);
    if (options.length < 2) place.hidden = true;
    return () => { const value = select.value; return Number.isNaN(+value) ? value : +value; };
  }

  // Of the runs that are switched on: the one that was chosen, else the first; none where all are off.
  function runList(name, numbers, change) {
    const place = document.querySelector(`[data-list="${name}"]`), select = place && element("select", "", place);
    let wanted = numbers[0];
    for (const number of select ? numbers : []) element("option", "", select, runs[number].label).value = number;
    select?.addEventListener("change", () => { wanted = +select.value; change(); });
    if (place && numbers.length < 2) place.hidden = true;
    return () => {
      const on = numbers.filter((number) => !hidden.has(number)), now = on.includes(wanted) ? wanted : on[0];
      if (select) {
        for (const option of select.options) option.hidden = option.disabled = hidden.has(+option.value);
        select.value = now ?? "";
      }
      return now;
    };
  }

  function legend() {
    const place = document.getElementById("legend");
    if (!place) return;
    runs.forEach((run, number) => {
      const chip = element("button", "chip", place);
      chip.type = "button";
      chip.setAttribute("aria-pressed", "true");
      chip.title = "Show or hide";
      const line = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      line.setAttribute("viewBox", "0 0 26 8");
      const stroke = document.createElementNS("http://www.w3.org/2000/svg", "line");
      for (const [key, value] of Object.entries({ x1: 1, x2: 25, y1: 4, y2: 4, "stroke-width": 3 })) stroke.setAttribute(key, value);
      if (run.dash) stroke.setAttribute("stroke-dasharray", run.dash);
      stroke.style.stroke = color(run);
      line.append(stroke);
      Charts.mark(line, 13, 4, 3, run.mark).style.fill = color(run);
      chip.append(line, run.label);
      chip.addEventListener("click", () => {
        if (!hidden.delete(number)) hidden.add(number);
        chip.setAttribute("aria-pressed", String(!hidden.has(number)));
        redraw();
      });
    });
  }

  // As far as every run is in warm-up; where some have none the first one's that has, by its name.
  const warmups = () => {
    const shared = Math.min(...shown().map((run) => run.warmup)), own = shown().find((run) => run.warmup > 0);
    if (!own) return [];
    return [shared > 0 ? { from: 0, to: shared, text: "warm-up" } : { from: 0, to: own.warmup, text: `warm-up of ${own.label}` }];
  };
  // Of very many rounds a running mean is what one can follow; the rounds themselves stay behind it.
  const MANY = 150;
  function smoothed(values) {
    if (values.length <= MANY) return values;
    const half = Math.ceil(values.length / 80);
    return values.map((value, at) => {
      if (!Number.isFinite(value)) return NaN;
      const near = values.slice(Math.max(0, at - half), at + half + 1).filter(Number.isFinite);
      return near.reduce((a, b) => a + b, 0) / near.length;
    });
  }
  function curve(series) {
    if (series.data.length <= MANY) return [series];
    const means = smoothed(series.data.map((point) => point[1]));
    return [{ ...series, width: 0.8, opacity: 0.3, dash: null, hover: false }, { ...series, data: series.data.map((point, at) => [point[0], means[at], point[1]]) }];
  }
  const lines = (key) => withSeries(key).flatMap((run) => curve({ name: run.label, color: color(run), dash: run.dash, data: points(run.round, run.series[key]) }));
  const tipOf = (format, heading = roundsOf) => (x, found) => [heading(x), found.map((each) => [each.series.color, `${each.series.name}: ${format(each.point[2] ?? each.point[1])}`])];

  function accuracy() {
    const along = choice("accuracy-x", [["round", "by round"], ["time", "by time"], ["traffic", "by traffic"]], () => redraw());
    drawn("accuracy", (place) => {
      const key = along(), series = [];
      for (const run of shown()) {
        const values = run.series[run.measure];
        if (!values) continue;
        const across = run[key];
        const data = points(across, values).filter((point) => Number.isFinite(point[1])); // some rounds are not evaluated
        series.push(...curve({ name: run.label, color: color(run), dash: run.dash, data, width: run === runs[0] ? 2.6 : 1.8 }));
        if (run.series.believed_accuracy)
          series.push({ name: `${run.label}, believed`, color: color(run), dash: "2 3", data: points(across, run.series.believed_accuracy).filter((point) => Number.isFinite(point[1])), width: 1.6 });
        const best = values.indexOf(run.end.best);
        if (best >= 0) series.push({ name: `${run.label}, best`, color: color(run), kind: "dots", mark: run.mark, radius: 5, data: [[across[best], values[best]]], hover: false });
      }
      if (!series.length) return empty(place, hidden.size ? "All runs with a measure are switched off." : "No round was evaluated.");
      const values = series.flatMap((each) => each.data.map((point) => point[1]));
      const format = { round: plain, time: (x) => duration(x), traffic: (x) => `${plain(x)} MB` }[key];
      Charts.xy(place, {
        label: "Accuracy by round", hover: "x", height: place.clientWidth < 460 ? 280 : 360,
        x: { label: { round: "communication round", time: "time spent", traffic: "MB sent, both ways" }[key], min: 0, whole: key === "round", format, ticks: key === "time" ? timeTicks(series) : undefined },
        y: { label: runs[0].measure.replace(/_/g, " "), min: Math.max(0, Math.floor(20 * Math.min(...values)) / 20), max: 1, format: percent },
        series, bands: key === "round" ? warmups() : [],
        tip: (x, found) => [key === "round" ? roundsOf(x) : format(x), found.map((each) => [each.series.color, `${each.series.name}: ${percent(each.point[2] ?? each.point[1])}`])],
      });
    });
  }
  const duration = (seconds) => seconds < 90 ? `${plain(seconds)} s` : seconds < 5400 ? `${+(seconds / 60).toFixed(1)} min` : `${+(seconds / 3600).toFixed(1)} h`;
  function timeTicks(series) {
    const end = Math.max(...series.flatMap((each) => each.data.map((point) => point[0])));
    const step = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 36000, 86400, 172800].find((each) => end / each <= 7) || end / 5;
    return Array.from({ length: Math.floor(end / step) + 1 }, (_, place) => place * step);
  }

  function scores() {
    const able = runs.map((_, number) => number).filter((number) => runs[number].scores);
    if (!able.length) return;
    const run = runList("scores-run", able, () => draw());
    const slider = document.getElementById("scores-round"), output = document.getElementById("scores-at");
    let fitted;
    const refit = (number) => { // another run has other rounds
      if (fitted === number) return;
      fitted = number;
      const last = runs[number].scores.frames.length - 1;
      slider.max = last; slider.value = last;
      slider.parentElement.hidden = last < 1;
    };
    slider.addEventListener("input", () => draw());
    const place = host("scores");
    const draw = () => {
      const number = run();
      if (number === undefined) { output.textContent = ""; return empty(place, "No run that is switched on notes its scores."); }
      refit(number);
      const { frames, axis } = runs[number].scores, now = frames[+slider.value];
      const when = now.everybody ? `end of the run, all clients` : `round ${plain(now.round)}, its clients`;
      output.textContent = when;
      const kinds = [["right", "right labels", "var(--right)"], ["wrong", "wrong labels", "var(--wrong)"], ["given", "given labels", "var(--right)"]].filter(([key]) => now[key]);
      const bins = now[kinds[0][0]].length, span = (now.high - now.low) / bins, series = [];
      let below = new Array(bins).fill(0);
      for (const [key, name, fill] of kinds) {
        const base = below;
        series.push({ name, kind: "bars", color: fill, span, opacity: 0.55, base: (at) => base[at], data: now[key].map((count, at) => [now.low + at * span, count]), hover: false });
        below = below.map((each, at) => each + now[key][at]);
      }
      const total = below.reduce((a, b) => a + b, 0);
      const rules = [], grid = Array.from({ length: 161 }, (_, at) => now.low + (at * (now.high - now.low)) / 160);
      let top = Math.max(...below, 1);
      if (now.mixture) {
        const density = (part, x) => (now.mixture[4 + part] / Math.sqrt(2 * Math.PI * now.mixture[2 + part])) * Math.exp(-((x - now.mixture[part]) ** 2) / (2 * now.mixture[2 + part])) * total * span;
        [["filter: clean", "var(--blue)"], ["filter: noisy", "var(--wrong)"]].forEach(([name, stroke], part) => series.push({ name, color: stroke, width: 2.2, data: grid.map((x) => [x, density(part, x)]) }));
        const cross = grid.findIndex((x) => x > now.mixture[0] && density(1, x) > density(0, x));
        if (cross > 0) rules.push({ x: grid[cross], text: "even odds" });
      }
      Charts.xy(place, {
        label: `Scores of labels and the filter, ${when}`, hover: "x",
        x: { label: axis, min: now.low, max: now.high }, y: { label: "labels", min: 0, max: 1.05 * top },
        series, rules,
        tip: (x, found) => {
          const at = Math.min(bins - 1, Math.max(0, Math.floor((x - now.low) / span)));
          return [`score ${plain(x)}`, [...kinds.map(([key, name, fill]) => [fill, `${name}: ${plain(now[key][at])}`]), ...found.map((each) => [each.series.color, `${each.series.name}: ${plain(+each.point[1].toFixed(1))}`])]];
        },
      });
    };
    drawings.push(draw);
    draw();
  }

  function quality() {
    const able = [["f1", "F1"], ["accuracy", "accuracy"], ["precision", "precision"], ["recall", "recall"]].filter(([key]) => runs.some((run) => run.series[`filter.${key}`]));
    const measure = choice("quality", able, () => redraw());
    drawn("quality", (place) => {
      const series = lines(`filter.${measure()}`);
      if (!series.length) return empty(place, "No run that is switched on has this measure.");
      Charts.xy(place, { label: "Quality of the filter by round", hover: "x", x: { label: "communication round", min: 0, whole: true }, y: { max: 1, min: low(series), format: percent }, series, bands: warmups(), tip: tipOf(percent) });
    });
  }
  const low = (series) => Math.max(0, Math.floor(10 * Math.min(...series.flatMap((each) => each.data.map((point) => point[1]).filter(Number.isFinite)))) / 10);

  // Clients belong to a draw: runs on another one have others.
  const able = draws.map((draw, number) => [number, draw.name]).filter(([number]) => runs.some((run) => run.draw === number));
  const drawAt = list("draw", able, () => { people(); redraw(); });
  const people = () => ranked.forEach((each) => each.fill());
  const ofDraw = () => shown().filter((run) => run.draw === drawAt());
  const clientWords = ([, name, samples, wrong]) => `client ${name}` + (wrong === null ? "" : `, ${percent(wrong)} wrong`) + `, ${plain(samples)} labels`;

  function clients() {
    const truth = draws.some((draw) => draw.clients.some((client) => client[3] !== null));
    const options = truth ? [[1, "accuracy"], [2, "precision"], [3, "recall"], [0, "noise level found"]] : [[0, "noise level found"]];
    const measure = choice("clients", options, () => redraw());
    drawn("clients", (place) => {
      const draw = draws[drawAt()], key = measure(), order = draw.clients;
      const clean = order.filter((client) => client[3] === 0).length;
      const series = [];
      if (order.some((client) => client[3] !== null))
        series.push({ name: "true noise level", color: "var(--wrong)", dash: "1 4", width: 2, data: order.map((client, at) => [at, client[3] ?? NaN]), opacity: 0.9 });
      for (const run of ofDraw()) {
        const data = order.map((client, at) => [at, run.clients[client[0]]?.[key] ?? NaN]);
        if (!data.some((point) => Number.isFinite(point[1]))) continue;
        series.push({ name: run.label, color: color(run), dash: run.dash, width: 1.2, opacity: 0.55, data, hover: false });
        series.push({ name: run.label, color: color(run), kind: "dots", mark: run.mark, radius: order.length > 60 ? 2.4 : 3.8, data });
      }
      if (!ofDraw().some((run) => Object.keys(run.clients).length)) return empty(place, "No run that is switched on has an opinion on single labels.");
      const bands = clean ? [{ from: -0.5, to: clean - 0.5, text: `${clean} clean ${clean === 1 ? "client" : "clients"}` }] : [];
      Charts.xy(place, {
        label: "Filter quality by client", hover: "x", height: place.clientWidth < 460 ? 270 : 330,
        x: { label: order.some((client) => client[3] !== null) ? "clients, from the cleanest to the noisiest" : "clients", min: -0.5, max: order.length - 0.5, ticks: order.map((_, at) => at).filter((at) => at % Math.ceil(order.length / (place.clientWidth / 42)) === 0), format: (at) => String(order[at]?.[1] ?? "").slice(0, 9) },
        y: { min: 0, max: 1, format: percent }, series, bands,
        tip: (at, found) => [clientWords(order[at]), found.map((each) => [each.series.color, `${each.series.name}: ${percent(each.point[1])}`])],
      });
    });
  }

  const ranked = [];
  function ranking(panel, first) {
    const name = `ranking-${panel}`, holder = document.querySelector(`[data-list="${name}"]`);
    if (!holder) return;
    const select = element("select", "", holder);
    select.setAttribute("aria-label", "Client");
    const fill = () => {
      select.replaceChildren();
      const draw = draws[drawAt()];
      for (const client of draw.clients)
        if (runs.some((run) => run.draw === drawAt() && run.ranking[client[0]])) element("option", "", select, clientWords(client)).value = client[0];
      const hardest = first(draw);
      if (hardest !== null && hardest !== undefined) select.value = hardest;
    };
    fill();
    ranked.push({ fill });
    select.addEventListener("change", () => redraw());
    drawn(name, (place) => {
      const series = [], rug = [];
      let most = 1;
      for (const run of ofDraw()) {
        const each = run.ranking[select.value];
        if (!each) continue;
        most = Math.max(most, each.samples);
        const rank = each.rank || each.p.map((_, at) => at);
        const data = each.p.map((p, at) => [rank[at] + 1, p / 1000]);
        const right = each.wrong && [...each.wrong].filter((wrong, at) => (wrong === "1") === (each.p[at] < 500)).length / each.p.length;
        const words = each.wrong ? `${run.label} (${percent(right)} right)` : run.label;
        series.push({ name: words, color: color(run), dash: run.dash, data, wrong: each.wrong });
        if (each.wrong) rug.push({ name: "wrong labels", color: "var(--wrong)", kind: "dots", radius: 2.2, hover: false, data: data.filter((_, at) => each.wrong[at] === "1") });
      }
      if (!series.length) return empty(place, "No run that is switched on has an opinion on single labels.");
      Charts.xy(place, {
        label: "p(clean) by rank of the score", hover: "x", height: 270,
        x: { label: "labels, by their score: the least doubtful first", min: 1, max: most }, y: { label: "p(clean)", min: 0, max: 1, ticks: [0, 0.25, 0.5, 0.75, 1] },
        series: [...series, ...rug], rules: [{ y: 0.5 }],
        tip: (x, found) => [`label ${plain(x)} of ${plain(most)}`, found.map((each) => [each.series.color, `${each.series.name}: p(clean) ${each.point[1].toFixed(2)}` + (each.series.wrong ? (each.series.wrong[each.place] === "1" ? ", wrong" : ", right") : "")])],
      });
    });
  }

  function labels() {
    const place = host("labels");
    if (!place) return;
    const able = runs.map((_, number) => number).filter((number) => Object.keys(runs[number].labels).length);
    if (!able.length) return;
    const run = runList("labels-run", able, () => follow());
    const holder = document.querySelector('[data-list="labels-client"]'), select = element("select", "", holder);
    const fill = () => {
      select.replaceChildren();
      const chosen = runs[filled], draw = draws[chosen.draw];
      element("option", "", select, "five, from clean to noisy").value = "";
      for (const client of draw.clients) if (chosen.labels[client[0]]) element("option", "", select, clientWords(client)).value = client[0];
    };
    let filled;
    const follow = () => { // matrices are many: they are drawn anew where the run is another one
      const number = run();
      if (filled === number) return;
      filled = number;
      if (number === undefined) { select.replaceChildren(); return empty(place, "No run that is switched on notes labels."); }
      fill();
      draw();
    };
    select.addEventListener("change", () => draw());
    const stages = ["given", "after filter and relabelling", "after the sampler"];
    const draw = () => {
      place.replaceChildren();
      const chosen = runs[filled], scene = draws[chosen.draw];
      const outside = scene.classes.length; // images of none of the classes get a row of their own
      const ids = select.value === "" ? scene.representative.filter((id) => chosen.labels[id]) : [+select.value];
      place.style.setProperty("--columns", ids.length);
      for (const id of ids) {
        const client = scene.clients.find((each) => each[0] === id), [round, ...matrices] = chosen.labels[id];
        const column = element("div", "matrices", place);
        element("b", "", column, `client ${client[1]}`);
        element("span", "meaning", column, `${percent(client[3])} wrong, seen in round ${plain(round)}`);
        matrices.forEach((cells, stage) => {
          const box = element("figure", "", column), square = element("div", "chart", box);
          const caption = element("figcaption", "", box);
          if (!cells) return void (caption.textContent = `${stages[stage]}: not noted`);
          const total = cells.reduce((sum, cell) => sum + cell[2], 0), right = cells.reduce((sum, cell) => sum + (cell[0] === cell[1] ? cell[2] : 0), 0);
          caption.textContent = total ? `${stages[stage]}: ${plain(total)}, ${percent(right / total)} right` : `${stages[stage]}: nothing is left`;
          const rows = cells.map(([row, columnAt, count]) => [row < 0 ? outside : row, columnAt, count]);
          const size = Math.max(outside, ...rows.map((cell) => Math.max(cell[0], cell[1]) + 1));
          Charts.heat(square, { label: `True classes against labels, ${stages[stage]}`, size, cells: rows, color: "var(--blue)", wrong: "var(--wrong)", tip: (row, columnAt, count) => [`${plain(count)} ${count === 1 ? "label" : "labels"}`, [[null, `true: ${scene.classes[row] ?? "none of the classes"}`], [null, `label: ${scene.classes[columnAt] ?? columnAt}`]]] });
        });
      }
    };
    drawings.push(follow);
    follow();
  }

  function training() {
    drawn("stability", (place) => {
      const series = [];
      for (const run of withSeries("divergence")) {
        const values = run.series[run.measure];
        if (!values) continue;
        const data = run.series.divergence.map((x, at) => [x ?? NaN, values[at] ?? NaN, run.round[at]]).filter((point) => point[0] > 0 && Number.isFinite(point[1]));
        series.push({ name: run.label, color: color(run), width: 0.8, opacity: 0.35, data, hover: false });
        series.push({ name: run.label, color: color(run), kind: "dots", mark: run.mark, radius: 2.8, opacity: 0.8, data });
        if (data.length) series.push({ name: run.label, color: color(run), kind: "dots", mark: run.mark, radius: 6, data: data.slice(-1), hover: false });
      }
      if (!series.length) return empty(place, "No run that is switched on notes how far its clients' models move.");
      Charts.xy(place, { label: "Training stability against accuracy", hover: "nearest", x: { label: "squared distance of clients' models", log: true }, y: { label: "accuracy", format: percent, max: 1 }, series, tip: (_, [each]) => [each.series.name, [[each.series.color, `round ${plain(each.point[2])}`], [null, `distance ${plain(each.point[0])}`], [null, `accuracy ${percent(each.point[1])}`]]] });
    });
    const divided = runs.map((_, number) => number).filter((number) => runs[number].series.clean);
    const run = runList("sets-run", divided, () => redraw());
    drawn("sets", (place) => {
      const number = run();
      if (number === undefined) return empty(place, "No run that is switched on divides its labels.");
      const chosen = runs[number], { clean, noisy, relabelled, reselected } = chosen.series;
      const at = clean.map((value, place) => place).filter((place) => clean[place] !== null && noisy[place] !== null && clean[place] + noisy[place] > 0);
      const whole = (place) => clean[place] + noisy[place], x = (place) => chosen.round[place];
      const shares = (value) => { const means = smoothed(at.map((place) => value(place) / whole(place))); return at.map((place, order) => [x(place), means[order]]); };
      const floor = at.map((place) => [x(place), 0]), kept = shares((place) => clean[place]);
      const more = shares((place) => clean[place] + (relabelled?.[place] ?? 0)), roof = at.map((place) => [x(place), 1]);
      const series = [
        { name: "left out", kind: "area", color: "var(--soft)", opacity: 0.28, data: roof, base: more },
        ...(relabelled ? [{ name: "relabelled", kind: "area", color: "var(--orange)", opacity: 0.6, data: more, base: kept }] : []),
        { name: "clean", kind: "area", color: "var(--blue)", opacity: 0.6, data: kept, base: floor },
        ...(reselected ? [{ name: "trained on in the last epoch", color: "var(--ink)", width: 1.6, dash: "5 3", data: shares((place) => reselected[place] ?? NaN) }] : []),
      ];
      Charts.xy(place, { label: "Sizes of the sets by round", hover: "x", x: { label: "communication round", whole: true }, y: { label: "share of the round's labels", min: 0, max: 1, format: percent }, series, tip: (value) => {
        const here = at.reduce((best, place) => (Math.abs(x(place) - value) < Math.abs(x(best) - value) ? place : best), at[0]);
        const rows = [["var(--blue)", `clean: ${plain(clean[here])}`]];
        if (relabelled) rows.unshift(["var(--orange)", `relabelled: ${plain(relabelled[here] ?? 0)}`]);
        rows.unshift(["var(--soft)", `left out: ${plain(noisy[here] - (relabelled?.[here] ?? 0))}`]);
        if (reselected && reselected[here] !== null) rows.push(["var(--ink)", `trained on: ${plain(reselected[here])}`]);
        return [roundsOf(x(here)), rows];
      } });
    });
    drawn("memorisation", (place) => {
      const series = lines("memorisation");
      for (const each of shown())
        if (each.end.memorisation !== null && each.round.length) series.push({ name: `${each.label}, end`, color: color(each), kind: "dots", mark: each.mark, radius: 5, data: [[each.round.at(-1), each.end.memorisation]] });
      if (!series.length) return empty(place, "No run that is switched on has it.");
      Charts.xy(place, { label: "Memorisation by round", hover: "x", x: { label: "communication round", min: 0, whole: true }, y: { label: "wrong labels that the model predicts", min: 0, format: percent }, series, bands: warmups(), tip: tipOf(percent) });
    });
    drawn("classes", (place) => {
      const names = draws[drawAt()]?.classes || runs[0].end.per_class.map((_, at) => at), series = [];
      for (const each of shown())
        if (each.end.per_class.length) series.push({ name: each.label, color: color(each), kind: "dots", mark: each.mark, radius: names.length > 40 ? 2.5 : 4.5, opacity: 0.9, data: known(each.end.per_class) });
      if (!series.length) return empty(place, "No run that is switched on has ended.");
      const room = 18 + 7 * Math.min(8, Math.max(...names.map((name) => String(name).length)));
      Charts.xy(place, { label: "Accuracy by class", hover: "x", x: { label: "class", min: -0.5, max: names.length - 0.5, ticks: names.map((_, at) => at).filter((at) => at % Math.ceil(names.length / (place.clientWidth / room)) === 0), format: (at) => String(names[at] ?? at).slice(0, 8) }, y: { max: 1, min: low(series), format: percent }, series, tip: (at, found) => [String(names[at] ?? at), found.map((each) => [each.series.color, `${each.series.name}: ${percent(each.point[1])}`])] });
    });
  }

  function cost() {
    drawn("seconds", (place) => {
      const series = lines("seconds");
      if (!series.length) return empty(place, "No run that is switched on notes its time.");
      Charts.xy(place, { label: "Seconds by round", hover: "x", height: 240, x: { label: "communication round", min: 0, whole: true }, y: { label: "seconds of training", min: 0 }, series, bands: warmups(), tip: tipOf((value) => `${plain(value)} s`) });
    });
    drawn("traffic", (place) => {
      const series = shown().filter((run) => run.traffic.length).map((run) => ({ name: run.label, color: color(run), dash: run.dash, data: points(run.round, run.traffic) }));
      if (!series.length) return empty(place, "No run that is switched on notes its traffic.");
      Charts.xy(place, { label: "Traffic by round", hover: "x", height: 240, x: { label: "communication round", min: 0, whole: true }, y: { label: "MB so far, both ways", min: 0 }, series, bands: warmups(), tip: tipOf((value) => `${plain(value)} MB`) });
    });
  }

  legend();
  accuracy();
  scores();
  quality();
  clients();
  ranking("clean", (draw) => draw.hardest[0] ?? draw.clients[0]?.[0]);
  ranking("noisy", (draw) => draw.hardest[1] ?? draw.clients.at(-1)?.[0]);
  labels();
  training();
  cost();
})();
