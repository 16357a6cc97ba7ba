// Elements made by hand: whatever others wrote becomes text, never markup.
export const at = (id) => document.getElementById(id);

export function make(name, options = {}, ...content) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") element.className = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...content.filter((each) => each !== null && each !== undefined));
  return element;
}

export const percent = (share) => {
  const hundred = 100 * share;
  return hundred > 0 && hundred < 1 ? "<1 %" : hundred > 99 && hundred < 100 ? ">99 %" : `${Math.round(hundred)} %`;
};

export const counted = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

// The numbers of a vector: name, value, and where it lies among all samples.
export function vector(sample, small) {
  const rows = (sample.numbers ?? []).map(([name, value, z]) => {
    const far = z !== null && Math.abs(z) >= 2;
    const mark = make("i", { class: far ? "far" : null });
    if (z !== null) mark.style.left = `${50 + 50 * Math.max(-1, Math.min(1, z / 3.5))}%`;
    const scale = make("span", { class: "scale", "aria-hidden": "true" }, z === null ? "" : mark);
    const said = z === null ? "" : `${z > 0 ? "+" : "−"}${Math.abs(z).toFixed(1)} σ`;
    return make("tr", {},
      make("th", { scope: "row" }, name || ""),
      make("td", { class: "number" }, value === null ? "–" : String(value)),
      z === null ? null : make("td", { class: "where" }, scale),
      small || z === null ? null : make("td", { class: far ? "number far" : "number" }, said));
  });
  const left = (sample.count ?? 0) - rows.length;
  return make("div", { class: small ? "vector small" : "vector" },
    make("table", {}, make("tbody", {}, ...rows)),
    left > 0 ? make("p", {}, `and ${counted(left, "more number")}`) : null);
}

export function facts(pairs) {
  return make("dl", {}, ...pairs.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}
