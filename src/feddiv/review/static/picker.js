// A class by typing its name.
import { at, make } from "./elements.js";

export class Picker {
  #matches = [];
  #active = 0;

  constructor(app) {
    this.app = app;
    this.dialog = at("picker");
    this.typed = at("typed");
    this.found = at("found");
    this.typed.addEventListener("input", () => this.#search());
    this.typed.addEventListener("keydown", (event) => this.#key(event));
    this.found.addEventListener("click", (event) => {
      const item = event.target.closest("li");
      if (item) this.#take(Number(item.dataset.label));
    });
    this.dialog.addEventListener("click", (event) => { if (event.target === this.dialog) this.dialog.close(); });
    this.dialog.addEventListener("close", () => this.app.focus());
  }

  open() {
    this.typed.value = "";
    this.#search();
    this.dialog.showModal();
    this.typed.focus();
  }

  // Names that begin so, then those that hold it.
  #search() {
    const text = this.typed.value.trim().toLowerCase();
    const named = this.app.store.list.classes.map((name, label) => ({ name, label, at: name.toLowerCase().indexOf(text) }));
    this.#matches = named.filter((each) => each.at >= 0)
      .sort((one, other) => (one.at > 0) - (other.at > 0) || one.label - other.label).slice(0, 200);
    this.#active = 0;
    this.#draw();
  }

  #draw() {
    this.found.replaceChildren(...this.#matches.map(({ name, label }, place) => make("li", {
      id: `class-${label}`, role: "option", "data-label": label, "aria-selected": String(place === this.#active),
    }, name, this.app.keys[label] ? make("kbd", {}, this.app.keys[label].toUpperCase()) : null)));
    const active = this.found.children[this.#active];
    if (active) {
      this.typed.setAttribute("aria-activedescendant", active.id);
      active.scrollIntoView({ block: "nearest" });
    } else this.typed.removeAttribute("aria-activedescendant");
  }

  #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.#matches.length) {
      this.#active = (this.#active + step + this.#matches.length) % this.#matches.length;
      this.#draw();
      event.preventDefault();
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (this.#matches.length) this.#take(this.#matches[this.#active].label);
    }
  }

  #take(label) {
    this.dialog.close();
    this.app.decide("label", label);
  }
}
