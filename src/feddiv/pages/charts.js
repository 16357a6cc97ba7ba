// Charts as SVG: they take the page's colours, are sharp on paper, and are redrawn to any width.
//
// Charts.xy(host, spec) draws lines, dots, bars and areas over two axes; Charts.heat(host, spec)
// draws a matrix. Both may be called again on the same host. A spec of xy:
//   label              what one sees, for those who cannot
//   x, y               axes: {label, min, max, log, whole, format, ticks}; without min and max as wide as the data;
//                      whole: what is counted, so that no tick lies between two numbers
//   series             [{name, color, dash, kind, data: [[x, y], …], width, opacity, radius, mark, hover}]
//                      mark: the shape of dots, circle (default), square, triangle, diamond or down
//                      kind: line (default), dots, bars (of `span` along x, on `base`), area (down to `base`)
//   bands              [{from, to, text}] along x;  rules: [{x | y, text, dash, color}]
//   hover              "x" (all series at this place), "nearest" (one point), or nothing
//   tip(x, found)      [title, [[color, words], …]] for what is found under the pointer
//   height, left       in pixels, where the usual ones do not do
"use strict";
const Charts = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const redraws = new WeakMap();
  const watcher = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const known = redraws.get(target);
      if (known && Math.abs(known.width - contentRect.width) > 1) known.draw();
    }
  });

  function node(name, attributes = {}, parent = null, text = null) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === null || value === undefined) continue;
      if (key === "fill" || key === "stroke") made.style[key] = value; // may be a variable of the page
      else made.setAttribute(key, value);
    }
    if (text !== null) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }

  function element(name, className, parent, text = null) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== null) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }

  const percent = (value) => `${+(100 * value).toFixed(1)}%`;
  function plain(value) {
    const size = Math.abs(value);
    if (size >= 1e5) return value.toExponential(0).replace("e+", "e");
    if (size >= 1000) return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
    return String(+value.toPrecision(3));
  }

  function ticks(low, high, wanted, whole = false) {
    const rough = Math.max((high - low) / Math.max(wanted, 1), whole ? 1 : 0);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough) || rough;
    const found = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++)
      found.push(+(at * step).toPrecision(12));
    return found;
  }

  function logTicks(low, high, wanted) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const each of [1, 2, 5]) found.push(each * 10 ** power);
    const inside = found.filter((each) => each >= low && each <= high);
    const tens = inside.filter((each) => Math.abs(Math.log10(each) % 1) < 1e-9);
    if (inside.length <= wanted) return inside;
    return tens.length > 1 ? tens : inside.filter((_, place) => place % Math.ceil(inside.length / wanted) === 0);
  }

  function scale(axis, values, from, to, wanted) {
    const finite = values.filter((value) => Number.isFinite(value) && (!axis.log || value > 0));
    let low = axis.min ?? Math.min(...finite), high = axis.max ?? Math.max(...finite);
    if (!Number.isFinite(low) || !Number.isFinite(high)) [low, high] = axis.log ? [1, 10] : [0, 1];
    if (axis.log && low <= 0) low = high / 1000;
    if (high <= low) [low, high] = axis.log ? [low / 2, low * 2] : [low - 0.5, low + 0.5];
    if (axis.nice && !axis.log) { // up to the next line of the grid, where nobody has said otherwise
      const lines = ticks(low, high, wanted), step = lines.length > 1 ? lines[1] - lines[0] : 0;
      if (step && axis.max === undefined) high = Math.ceil(high / step - 1e-9) * step;
      if (step && axis.min === undefined) low = Math.floor(low / step + 1e-9) * step;
    }
    const bend = axis.log ? Math.log10 : (value) => value;
    const place = (value) => from + ((bend(value) - bend(low)) / (bend(high) - bend(low))) * (to - from);
    const found = axis.ticks || (axis.log ? logTicks(low, high, wanted) : ticks(low, high, wanted, axis.whole));
    return { place, low, high, ticks: found, format: axis.format || plain };
  }

  function path(points) {
    let said = "", open = false; // a missing value leaves a gap
    for (const [x, y] of points) {
      if (!Number.isFinite(x) || !Number.isFinite(y)) { open = false; continue; }
      said += `${open ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
      open = true;
    }
    return said;
  }

  function prepared(host, label, width, height, draw) {
    host.replaceChildren();
    const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, host);
    const tip = element("div", "tip", host);
    tip.hidden = true;
    redraws.set(host, { width: host.clientWidth, draw });
    watcher.observe(host);
    return { svg, tip };
  }

  function showTip(host, tip, at, [title, lines]) {
    tip.replaceChildren();
    element("b", "", tip, title);
    for (const [color, words] of lines) {
      const line = element("div", "", tip);
      if (color) element("i", "", line).style.background = color;
      line.append(words);
    }
    tip.hidden = false;
    const room = host.clientWidth - tip.offsetWidth - 4;
    const beside = at.x + 14 <= room ? at.x + 14 : at.x - tip.offsetWidth - 14;
    tip.style.left = `${Math.min(Math.max(beside, 0), Math.max(room, 0))}px`;
    tip.style.top = `${Math.max(at.y - tip.offsetHeight - 8, 0)}px`;
  }

  function xy(host, spec) {
    const narrow = host.clientWidth < 460;
    const height = spec.height || (narrow ? 250 : 300);
    const width = Math.max(host.clientWidth, 200);
    const { svg, tip } = prepared(host, spec.label || "", width, height, () => xy(host, spec));
    const all = spec.series.flatMap((each) => each.data);
    const yWanted = height < 200 ? 3 : 5;
    const top = spec.bands && spec.bands.some((band) => band.text) ? 22 : 12, bottom = height - 42;
    const y = scale({ nice: true, ...spec.y }, all.map((point) => point[1]), bottom, top, yWanted);
    const widest = Math.max(...y.ticks.map((each) => y.format(each).length), 1);
    const left = spec.left || (spec.y.label ? 32 : 14) + 7 * widest, right = width - 14;
    const x = scale(spec.x, all.map((point) => point[0]), left, right, Math.max(2, Math.floor((right - left) / 60)));

    const back = node("g", { class: "back" }, svg);
    for (const band of spec.bands || []) {
      const from = Math.max(x.place(band.from), left), to = Math.min(x.place(band.to), right);
      if (to <= from) continue;
      node("rect", { x: from, y: top, width: to - from, height: bottom - top, class: "band" }, back);
      const wide = 7 * (band.text || "").length - 10; // words may go on beside the band, which is above the curves
      if (band.text && to - from > wide) node("text", { x: (from + to) / 2, y: top - 8, class: "small middle" }, back, band.text);
      else if (band.text && from + wide < right) node("text", { x: from, y: top - 8, class: "small" }, back, band.text);
    }
    for (const each of y.ticks) {
      const at = y.place(each);
      node("line", { x1: left, x2: right, y1: at, y2: at, class: "grid" }, back);
      node("text", { x: left - 8, y: at + 4, class: "end" }, back, y.format(each));
    }
    for (const each of x.ticks)
      node("text", { x: x.place(each), y: bottom + 18, class: "middle" }, back, x.format(each));
    node("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" }, back);
    const name = (words, room, place) => { // a long one is written smaller
      const made = node("text", { ...place, class: "middle name" }, back, words);
      if (6.6 * words.length > room) made.style.fontSize = `${Math.max(8.5, (12.5 * room) / (6.6 * words.length))}px`;
    };
    name(spec.x.label || "", right - left, { x: (left + right) / 2, y: height - 5 });
    if (spec.y.label) name(spec.y.label, bottom - top, { transform: `translate(13 ${(top + bottom) / 2}) rotate(-90)` });

    const clip = `clip${Math.random().toString(36).slice(2)}`; // ids are the page's, not the chart's
    node("rect", { x: left - 7, y: top - 8, width: right - left + 14, height: bottom - top + 16 }, node("clipPath", { id: clip }, svg));
    const front = node("g", { "clip-path": `url(#${clip})` }, svg);
    for (const series of spec.series) drawSeries(front, series, x, y);
    for (const rule of spec.rules || []) {
      const flat = rule.y !== undefined, at = flat ? y.place(rule.y) : x.place(rule.x);
      const ends = flat ? { x1: left, x2: right, y1: at, y2: at } : { x1: at, x2: at, y1: top, y2: bottom };
      node("line", { ...ends, class: "rule", stroke: rule.color, "stroke-dasharray": rule.dash ?? "4 3" }, front);
      if (rule.text && flat) node("text", { x: right - 4, y: at - 5, class: "small end" }, svg, rule.text);
      if (rule.text && !flat) node("text", { x: at + 5, y: top + 10, class: "small" }, svg, rule.text);
    }
    if (spec.hover) follow(host, svg, tip, spec, x, y, { left, right, top, bottom });
  }

  // Corners of marks around their middle, as large to the eye as a circle of radius 1.
  const CORNERS = {
    square: [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]],
    triangle: [[0, -1.3], [1.2, 0.8], [-1.2, 0.8]],
    diamond: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]],
    down: [[0, 1.3], [1.2, -0.8], [-1.2, -0.8]],
  };
  function mark(parent, x, y, radius, shape) {
    const corners = CORNERS[shape];
    if (!corners) return node("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: radius }, parent);
    return node("path", { d: `${path(corners.map(([dx, dy]) => [x + radius * dx, y + radius * dy]))}Z` }, parent);
  }

  function drawSeries(front, series, x, y) {
    const color = series.color, points = series.data.map((point) => [x.place(point[0]), y.place(point[1])]);
    const shared = { opacity: series.opacity, "data-series": series.name };
    if (series.kind === "bars") {
      const base = series.base || (() => y.low);
      series.data.forEach(([at, value], place) => {
        const from = x.place(at), to = x.place(at + series.span), foot = y.place(base(place));
        const head = y.place(base(place) + value);
        if (foot - head > 0) node("rect", { x: from + 0.5, width: Math.max(to - from - 1, 1), y: head, height: foot - head, fill: color, ...shared }, front);
      });
    } else if (series.kind === "area") {
      const floor = series.base.map(([at, value]) => [x.place(at), y.place(value)]).reverse();
      node("path", { d: `${path([...points, ...floor])}Z`, fill: color, ...shared }, front);
    } else if (series.kind === "dots") {
      const group = node("g", { fill: color, ...shared }, front);
      for (const [cx, cy] of points)
        if (Number.isFinite(cx) && Number.isFinite(cy)) mark(group, cx, cy, series.radius || 3, series.mark);
    } else {
      const known = points.filter((point) => point.every(Number.isFinite));
      node("path", { d: path(points), class: "line", stroke: color, "stroke-width": series.width || 2, "stroke-dasharray": series.dash || null, ...shared }, front);
      if (known.length === 1) // a line of one point would not show
        node("circle", { cx: known[0][0], cy: known[0][1], r: 4, fill: color, ...shared }, front);
    }
  }

  function follow(host, svg, tip, spec, x, y, box) {
    const cross = node("line", { class: "cross", y1: box.top, y2: box.bottom }, svg), dots = node("g", {}, svg);
    cross.style.display = "none";
    const series = spec.series.filter((each) => each.hover !== false);
    const leave = () => { tip.hidden = true; cross.style.display = "none"; dots.replaceChildren(); };
    const move = (event) => {
      const area = svg.getBoundingClientRect(), zoom = area.width / svg.viewBox.baseVal.width;
      const at = { x: (event.clientX - area.left) / zoom, y: (event.clientY - area.top) / zoom };
      let found = [];
      for (const each of series) {
        let best = null, least = Infinity;
        each.data.forEach((point, place) => {
          const dx = x.place(point[0]) - at.x, dy = y.place(point[1]) - at.y;
          if (!Number.isFinite(dy)) return;
          const far = spec.hover === "x" ? Math.abs(dx) : Math.hypot(dx, dy);
          if (far < least) { least = far; best = { series: each, point, place, far }; }
        });
        if (best) found.push(best);
      }
      if (!found.length) return leave();
      found.sort((a, b) => a.far - b.far);
      const nearest = found[0];
      if (spec.hover === "nearest") found = nearest.far < 40 ? [nearest] : [];
      else found = found.filter((each) => Math.abs(x.place(each.point[0]) - x.place(nearest.point[0])) < 6);
      if (!found.length) return leave();
      const order = new Map(series.map((each, place) => [each, place]));
      found.sort((a, b) => order.get(a.series) - order.get(b.series));
      const px = x.place(nearest.point[0]);
      if (spec.hover === "x") { cross.setAttribute("x1", px); cross.setAttribute("x2", px); cross.style.display = ""; }
      dots.replaceChildren();
      for (const each of found)
        node("circle", { cx: x.place(each.point[0]), cy: y.place(each.point[1]), r: 4, class: "dot", fill: each.series.color }, dots);
      const said = spec.tip ? spec.tip(nearest.point[0], found) : [x.format(nearest.point[0]), found.map((each) => [each.series.color, `${each.series.name}: ${y.format(each.point[1])}`])];
      showTip(host, tip, { x: px * zoom, y: at.y * zoom }, said);
    };
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerdown", move);
    svg.addEventListener("pointerleave", leave);
  }

  // spec: {label, size, cells: [[row, column, count], …], rows, columns (names), color, wrong, title}
  function heat(host, spec) {
    const width = Math.max(host.clientWidth, 40);
    const { svg, tip } = prepared(host, spec.label || "", width, width, () => heat(host, spec));
    const side = width / Math.max(spec.size, 1), gap = side > 8 ? 1 : 0;
    node("rect", { x: 0, y: 0, width, height: width, class: "paper" }, svg);
    const most = Math.max(...spec.cells.map((cell) => cell[2]), 1);
    for (const [row, column, count] of spec.cells) {
      const cell = node("rect", {
        x: (column * side).toFixed(2), y: (row * side).toFixed(2), width: Math.max(side - gap, 0.8).toFixed(2), height: Math.max(side - gap, 0.8).toFixed(2),
        fill: row === column ? spec.color : spec.wrong, "fill-opacity": (0.18 + 0.82 * (count / most)).toFixed(2),
      }, svg);
      const say = () => showTip(host, tip, { x: (column + 0.5) * side, y: row * side }, spec.tip(row, column, count));
      cell.addEventListener("pointerenter", say);
      cell.addEventListener("pointerdown", say);
      cell.addEventListener("pointerleave", () => { tip.hidden = true; });
    }
  }

  return { xy, heat, element, mark, percent, plain };
})();
