// How things stand, in words and numbers: progress, what the buttons would do, what was done.
import { at, counted, make } from "./elements.js";

const said = (number) => number.toLocaleString("en");

export class Standing {
  constructor(app) { this.app = app; }

  show() {
    const { store, grid, filters } = this.app, empty = store.shown.length === 0;
    at("nothing").hidden = !empty;
    at("nothing").textContent = empty ? "No label passes these filters." : "";
    at("main").classList.toggle("empty", empty);
    this.#progress();
    at("shown").textContent = `${said(store.shown.length)} shown`;
    at("filtering").classList.toggle("on", filters.narrowed);
    at("clear").hidden = !filters.narrowed;
    at("select-none").hidden = !grid.selected.size;
    for (const verb of ["undo", "redo"]) {
      const pile = store[verb];
      at(verb).disabled = !pile;
      at(verb).title = `${verb === "undo" ? "Undo" : "Redo"} (${verb[0].toUpperCase()})${pile ? `: ${counted(pile.count, "label")}` : ""}`;
    }
    this.#offer(empty);
  }

  #progress() {
    const { store } = this.app, { list } = store, found = store.counts();
    const [about, low, high] = list.expected ?? [];
    const range = low < high ? ` (${said(low)}–${said(high)})` : "";
    const done = list.issues
      ? `${said(found.issues)} of ${said(list.issues)} doubtful decided`
      : `${said(found.decided)} of ${counted(store.count, "label")} decided`;
    at("counts").replaceChildren(
      make("b", {}, `Found ${said(found.wrong)} wrong`),
      list.expected ? ` of about ${said(about)}${range} expected · ` : " · ",
      make("span", {}, done),
      found.conflict ? make("span", { class: "conflicts" }, ` · ${counted(found.conflict, "conflict")}`) : "");
    const total = Math.max(list.issues || store.count, found.decided, 1);
    for (const kind of ["wrong", "right", "unsure"]) {
      at("bar").querySelector(`.${kind}`).style.width = `${(100 * found[kind]) / total}%`;
    }
    at("bar").setAttribute("aria-valuemax", total);
    at("bar").setAttribute("aria-valuenow", found.decided);
  }

  // What the buttons would do, and to what.
  #offer(empty) {
    const { store, grid, mode } = this.app, { place } = grid;
    const many = mode === "grid" && grid.selected.size > 0, other = store.suggested(place);
    const words = (id, line) => { at(id).querySelector("span").textContent = line; };
    at("about").textContent = many ? `${counted(grid.selected.size, "label")} selected` : "";
    words("suggested", many || empty || other < 0 ? "Suggestion" : `Suggested: ${store.name(other)}`);
    words("confirm", many || empty ? "Given is right" : `Given: ${store.name(store.given(place))}`);
    at("suggested").disabled = empty || !store.list.predicted;
    for (const id of ["confirm", "cannot", "skip"]) at(id).disabled = empty;
    for (const button of at("classes").querySelectorAll("button")) button.disabled = empty;
  }

  // A button for each class that has a key; the others are found by name.
  classes() {
    const { keys, store } = this.app, { classes } = store.list;
    const chip = (name, label) => make("button", { type: "button", "data-label": label, title: name },
      make("kbd", {}, keys[label].toUpperCase()), make("span", {}, name));
    const chips = classes.map((name, label) => (keys[label] ? chip(name, label) : null)).filter(Boolean);
    const left = classes.length - chips.length;
    at("classes").replaceChildren(...chips, make("button", { type: "button", id: "more", title: "By name (/)" },
      make("kbd", {}, "/"), make("span", {}, left > 0 ? `${said(left)} more…` : "By name…")));
  }

  // A decision in words, for who does not see it.
  said(places, choice) {
    const { store, details } = this.app, [first] = places;
    const given = store.name(store.given(first)), verdict = store.verdict(first);
    const what = {
      wrong: `corrected from ${given} to ${store.name(store.state(first)?.[1])}`,
      right: `${given} confirmed`, unsure: "can't tell", skip: "skipped",
    }[verdict] ?? choice;
    if (places.length === 1) return `${details.get(first)?.name ?? `sample ${first + 1}`}: ${what}.`;
    const all = { suggested: "suggestions taken", confirm: "confirmed" }[choice];
    return `${counted(places.length, "label")}: ${all ?? what.replace(`corrected from ${given}`, "set")}.`;
  }
}
