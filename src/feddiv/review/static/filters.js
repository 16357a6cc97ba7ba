// Which labels are shown: by state, class, pair and quality.
import { at, make } from "./elements.js";

const PAIRS = 200; // the commonest

export class Filters {
  constructor(app) {
    this.app = app;
    this.form = at("filters");
    this.form.addEventListener("input", () => this.#apply());
    this.form.addEventListener("reset", () => setTimeout(() => this.#apply()));
    this.form.addEventListener("submit", (event) => event.preventDefault());
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
