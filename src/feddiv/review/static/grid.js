// Many labels at once. Only cards that can be seen exist, and only they load anything.
import { at, make, percent, vector } from "./elements.js";

const GAP = 10, AHEAD = 1; // pixels between cards; rows that are ready before they are seen
const PAUSE = 90; // milliseconds: cards that pass by faster load nothing
const SIZES = { image: [150, 150], text: [250, 150], vector: [220, 164], nothing: [170, 34] };
const CAPTION = 52;

export class Grid {
  #cards = new Map(); // place → card
  #spare = [];
  #drawing = 0;
  #filling = 0;

  constructor(app) {
    this.app = app;
    this.root = at("grid");
    this.sheet = at("sheet");
    this.active = 0; // which of what is shown
    this.anchor = 0; // where a range of selected ones begins
    this.selected = new Set(); // places
    this.root.addEventListener("scroll", () => this.#soon(), { passive: true });
    new ResizeObserver(() => this.layout()).observe(this.root);
    this.sheet.addEventListener("click", (event) => this.#clicked(event));
    this.sheet.addEventListener("dblclick", (event) => this.#opened(event));
  }

  get place() { return this.app.store.shown[this.active] ?? -1; }

  // What a decision is about: the selected ones, else the active one.
  get subject() {
    if (this.selected.size) return [...this.selected].sort((one, other) => one - other);
    return this.place < 0 ? [] : [this.place];
  }

  // After the list, the filters or the window have changed.
  layout() {
    if (!this.app.store || this.root.hidden) return;
    const width = this.sheet.clientWidth, phone = width < 560;
    const [least, look] = SIZES[this.app.store.list.kind];
    const wanted = phone && least < 200 ? 104 : least;
    this.columns = Math.max(1, Math.floor((width + GAP) / (wanted + GAP)));
    this.width = (width - GAP * (this.columns - 1)) / this.columns;
    this.look = phone && least < 200 ? Math.min(look, Math.round(this.width)) : look;
    this.height = this.look + CAPTION;
    const rows = Math.ceil(this.app.store.shown.length / this.columns);
    this.sheet.style.height = `${Math.max(0, rows * (this.height + GAP) - GAP)}px`;
    this.active = Math.max(0, Math.min(this.active, this.app.store.shown.length - 1));
    this.draw();
  }

  // Another site: its samples have the same numbers.
  clear() {
    this.selected.clear();
    for (const place of [...this.#cards.keys()]) this.#drop(place);
  }

  #soon() {
    this.#drawing ||= requestAnimationFrame(() => { this.#drawing = 0; this.draw(); });
  }

  draw() {
    const { shown } = this.app.store, step = this.height + GAP;
    const top = this.root.scrollTop - this.sheet.offsetTop;
    const first = Math.max(0, Math.floor(top / step) - AHEAD) * this.columns;
    const last = (Math.ceil((top + this.root.clientHeight) / step) + AHEAD) * this.columns;
    const wanted = shown.slice(first, last), keep = new Set(wanted);
    for (const place of [...this.#cards.keys()]) if (!keep.has(place)) this.#drop(place);
    wanted.forEach((place, step) => this.#put(place, first + step));
    const active = this.#cards.has(this.place) ? `card-${this.place}` : null;
    if (active) this.root.setAttribute("aria-activedescendant", active);
    else this.root.removeAttribute("aria-activedescendant");
    this.#filling ||= setTimeout(() => { this.#filling = 0; this.#fill(); }, PAUSE);
  }

  #put(place, index) {
    let card = this.#cards.get(place);
    if (!card) {
      card = this.#spare.pop() ?? blank();
      card.element.id = `card-${place}`;
      card.element.dataset.place = place;
      card.place = place;
      card.full = false;
      card.look.replaceChildren();
      card.name.textContent = "";
      this.#cards.set(place, card);
      this.sheet.append(card.element);
    }
    const { style } = card.element;
    const across = index % this.columns, down = Math.floor(index / this.columns);
    style.width = `${this.width}px`;
    style.height = `${this.height}px`;
    style.transform = `translate(${across * (this.width + GAP)}px, ${down * (this.height + GAP)}px)`;
    card.look.style.height = `${this.look}px`;
    card.element.setAttribute("aria-posinset", index + 1);
    card.element.setAttribute("aria-setsize", this.app.store.shown.length);
    this.#dress(card);
  }

  #drop(place) {
    const card = this.#cards.get(place);
    card.look.querySelector("img")?.removeAttribute("src"); // what is under way is not needed
    card.element.remove();
    this.#cards.delete(place);
    if (this.#spare.length < 60) this.#spare.push(card);
  }

  // Load what stays in sight.
  #fill() {
    const empty = [...this.#cards.values()].filter((card) => !card.full);
    const images = this.app.store.list.kind === "image";
    for (const card of empty) {
      card.full = true;
      if (images) card.look.replaceChildren(this.app.picture(card.place, devicePixelRatio > 1 ? 384 : 192));
    }
    const unknown = empty.map((card) => card.place).filter((place) => !this.app.details.has(place));
    const fill = () => empty.forEach((card) => this.#tell(card));
    if (unknown.length) this.app.learn(unknown).then(fill);
    else fill();
  }

  #tell(card) {
    const sample = this.app.details.get(card.place);
    if (!sample || this.#cards.get(card.place) !== card) return;
    card.name.textContent = sample.name;
    card.name.title = sample.name;
    if (sample.text !== undefined) card.look.replaceChildren(make("p", { class: "words" }, sample.text));
    if (sample.numbers) {
      const known = (sample.facts ?? []).slice(0, 2).map(([name, value]) => `${name}: ${value}`).join(" · ");
      card.look.replaceChildren(vector(sample, true));
      if (known) card.name.textContent = known;
    }
    this.#dress(card);
  }

  #dress(card) {
    const { store } = this.app, { place, element } = card;
    const verdict = store.verdict(place), state = store.state(place);
    const given = store.name(store.given(place)), other = store.suggested(place);
    const chosen = this.selected.has(place), active = place === this.place;
    const doubted = store.doubted(place) ? " doubted" : "";
    element.className = `card ${verdict}${doubted}${chosen ? " chosen" : ""}${active ? " active" : ""}`;
    element.setAttribute("aria-selected", chosen);
    card.given.textContent = given;
    const to = verdict === "wrong" ? store.name(state[1])
      : verdict === "right" ? "" : other >= 0 && other !== store.given(place) ? store.name(other) : "";
    card.to.textContent = to;
    card.given.title = given; // where there is no room for all of it
    card.to.title = to;
    card.arrow.hidden = !to;
    card.badge.textContent = { wrong: "wrong", right: "right", unsure: "can't tell", skip: "skipped", conflict: "conflict" }[verdict] ?? "";
    const quality = store.quality(place);
    card.score.textContent = quality === null ? "" : percent(1 - quality);
    card.score.title = "how likely the given label is wrong";
    const name = this.app.details.get(place)?.name ?? "";
    element.setAttribute("aria-label",
      `${name} given ${given}${to ? `, ${verdict === "wrong" ? "corrected to" : "suggested"} ${to}` : ""}${card.badge.textContent ? `, ${card.badge.textContent}` : ""}`);
  }

  refresh() { for (const card of this.#cards.values()) this.#dress(card); }

  // Make one of what is shown the active one, and bring it into sight.
  go(index, { extend = false, keep = false } = {}) {
    const { shown } = this.app.store;
    if (!shown.length) {
      this.app.changed();
      return;
    }
    this.active = Math.max(0, Math.min(index, shown.length - 1));
    if (extend) this.#range();
    else if (!keep) this.anchor = this.active;
    const step = this.height + GAP, offset = this.sheet.offsetTop;
    const top = Math.floor(this.active / this.columns) * step + offset;
    if (top < this.root.scrollTop + offset) this.root.scrollTop = top - offset;
    else if (top + this.height + GAP > this.root.scrollTop + this.root.clientHeight) {
      this.root.scrollTop = top + this.height + GAP - this.root.clientHeight;
    }
    this.draw();
    this.app.changed();
  }

  #range() {
    const [first, last] = [this.anchor, this.active].sort((one, other) => one - other);
    this.selected = new Set(this.app.store.shown.slice(first, last + 1));
  }

  toggle() {
    const { place } = this;
    if (place < 0) return;
    if (!this.selected.delete(place)) this.selected.add(place);
    this.anchor = this.active;
    this.refresh();
    this.app.changed();
  }

  choose(places) {
    this.selected = new Set(places);
    this.refresh();
    this.app.changed();
  }

  #clicked(event) {
    const place = placeOf(event);
    if (place < 0) return;
    this.active = this.app.store.index.get(place) ?? 0;
    if (event.target.closest(".open")) {
      this.app.view("single");
      return;
    }
    if (event.shiftKey) {
      getSelection()?.removeAllRanges();
      this.#range();
      this.draw();
      this.app.changed();
    } else this.toggle();
    this.root.focus({ preventScroll: true });
  }

  #opened(event) {
    if (placeOf(event) >= 0 && !event.shiftKey) this.app.view("single");
  }

  // True where the key was for the grid.
  key(event) {
    const { key, shiftKey: extend } = event, page = Math.max(1, Math.floor(this.root.clientHeight / (this.height + GAP)));
    const steps = {
      ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns,
      PageDown: page * this.columns, PageUp: -page * this.columns,
    };
    if (key in steps) this.go(this.active + steps[key], { extend });
    else if (key === "Home") this.go(0, { extend });
    else if (key === "End") this.go(this.app.store.shown.length - 1, { extend });
    else if (key === " ") this.toggle();
    else if (key === "Enter") this.app.view("single");
    else if (key === "Escape" && this.selected.size) this.choose([]);
    else return false;
    return true;
  }
}

function blank() {
  const card = {
    look: make("div", { class: "look" }),
    given: make("b", { class: "given" }),
    arrow: make("span", { class: "arrow", "aria-hidden": "true" }, "→"),
    to: make("b", { class: "to" }),
    score: make("span", { class: "score" }),
    badge: make("span", { class: "badge" }),
    name: make("span", { class: "name" }),
  };
  const open = make("button", { class: "open", type: "button", tabindex: "-1", "aria-hidden": "true", title: "Open (Enter)" }, "⤢");
  const tick = make("span", { class: "tick", "aria-hidden": "true" }, "✓");
  card.element = make("div", { class: "card", role: "option" }, card.look, tick, open, card.badge,
    make("div", { class: "caption" }, make("span", { class: "labels" }, card.given, card.arrow, card.to),
      make("span", { class: "line" }, card.name, card.score)));
  return card;
}

function placeOf(event) {
  const card = event.target.closest(".card");
  return card ? Number(card.dataset.place) : -1;
}
