// Which labels are shown: by state, class, pair and quality.
import { at, make } from "./elements.js";
import { EVERYTHING } from "./store.js";

const PAIRS = 200; // the commonest

export class Filters {
  constructor(app) {
    this.app = app;
    this.form = at("filters");
    this.form.addEventListener("input", () => this.#apply());
    this.form.addEventListener("reset", (event) => this.#clear(event));
    this.form.addEventListener("submit", (event) => event.preventDefault());
    // Who chose with the mouse goes on with the list: its keys would else be typed into the choice.
    this.form.addEventListener("pointerdown", () => { this.pointed = true; });
    this.form.addEventListener("keydown", () => { this.pointed = false; });
    this.form.addEventListener("change", (event) => {
      if (this.pointed && event.target instanceof HTMLSelectElement) this.app.focus();
    });
    at("filtering").addEventListener("click", () => this.toggle());
  }

  toggle(open = !this.form.classList.contains("open")) {
    this.form.classList.toggle("open", open);
    at("filtering").setAttribute("aria-expanded", open);
  }

  enter() {
    this.toggle(true);
    at("by-state").focus();
  }

  // The choices that a list offers.
  fill() {
    const { store } = this.app, { classes } = store.list;
    const option = (value, text) => make("option", { value }, text);
    at("by-given").replaceChildren(option(-1, "any class"), ...classes.map((name, label) => option(label, name)));
    const pairs = store.pairs().slice(0, PAIRS).map(([key, count]) => {
      const [given, other] = key.split(">").map(Number);
      return option(key, `${store.name(given)} → ${store.name(other)} (${count.toLocaleString("en")})`);
    });
    at("by-pair").replaceChildren(option("", "any pair"), ...pairs);
    this.form.querySelector(".range").hidden = !store.list.quality;
  }

  show(filters) {
    at("by-state").value = filters.state;
    at("by-given").value = filters.given;
    at("by-pair").value = filters.pair;
    at("by-low").value = filters.low;
    at("by-high").value = filters.high;
    this.#apply();
  }

  // At once, and the list has the keys: the button goes away, and Enter is not to clear what is
  // chosen next.
  #clear(event) {
    event.preventDefault();
    this.show(EVERYTHING);
    this.app.focus();
  }

  #apply() {
    const share = (id, otherwise) => {
      const value = at(id).valueAsNumber;
      return Number.isFinite(value) ? value : otherwise;
    };
    this.app.store.filters = {
      state: at("by-state").value,
      given: Number(at("by-given").value),
      pair: at("by-pair").value,
      low: share("by-low", 0),
      high: share("by-high", 1),
    };
    this.app.filtered();
  }

  get narrowed() {
    const { state, given, pair, low, high } = this.app.store.filters;
    return state !== "all" || given >= 0 || pair !== "" || low > 0 || high < 1;
  }
}
