// The page: one list, two views of it, and decisions that are saved as they are made.
import * as api from "./api.js";
import { at, counted, make } from "./elements.js";
import { Filters } from "./filters.js";
import { Grid } from "./grid.js";
import { keyList } from "./help.js";
import { classKeys, pressed } from "./keys.js";
import { Picker } from "./picker.js";
import { Single } from "./single.js";
import { Standing } from "./standing.js";
import { Store } from "./store.js";

const EVERY = 2000; // milliseconds between looks for what another page has decided
const MOST_DETAILS = 4000, MOST_ASKED = 400;
const PIXELS = 16; // of a side: below, a smooth picture would be a guess
const MEMORY = "feddiv-review";

class App {
  constructor() {
    this.store = null;
    this.details = new Map(); // place → name and what is read in the grid
    this.keys = [];
    this.mode = "grid";
    this.opening = null; // a site whose list is under way: until it is here nothing can be decided
    this.waiting = 0; // decisions that are not on the disk yet
    this.grid = new Grid(this);
    this.single = new Single(this);
    this.filters = new Filters(this);
    this.picker = new Picker(this);
    this.standing = new Standing(this);
    this.others = "BroadcastChannel" in window ? new BroadcastChannel(MEMORY) : null;
    this.#listen();
  }

  async start() {
    try {
      const { sites, reviewer } = await api.sites();
      this.reviewer = reviewer;
      at("site").replaceChildren(...sites.map(({ name, labels, wrong }, number) => make("option", { value: number },
        `${name} · ${counted(labels, "label")}${wrong === null ? "" : `, ~${wrong.toLocaleString("en")} wrong`}`)));
      at("site-choice").hidden = sites.length < 2;
      this.many = sites.length > 1;
      const worst = sites.reduce((best, { wrong }, number) => (wrong > sites[best].wrong ? number : best), 0);
      const number = Math.min(this.#remembered().site ?? worst, sites.length - 1);
      at("site").value = number;
      await this.open(number);
      setInterval(() => document.hidden || this.look(), EVERY);
    } catch (problem) {
      this.trouble(problem);
    }
  }

  async open(number) {
    const site = this.opening = new api.Site(number);
    try {
      const list = await site.list();
      if (this.opening === site) this.#show(site, list);
    } catch (problem) {
      if (this.opening !== site) return;
      if (this.site) at("site").value = this.site.number; // what is still shown
      throw problem;
    } finally {
      if (this.opening === site) this.opening = null;
    }
  }

  #show(site, list) {
    const { number } = site;
    this.site = site;
    this.details.clear();
    this.store = new Store(list);
    this.grid.clear();
    this.single.clear();
    this.keys = classKeys(list.classes);
    this.take(list.news);
    document.title = `Review: ${list.site}`;
    document.body.dataset.kind = list.kind;
    at("title").textContent = this.many ? "Labels of" : `Labels of ${list.site}`;
    at("progress").hidden = false;
    this.standing.classes();
    this.filters.fill();
    const kept = this.#remembered();
    const mine = kept.site === number;
    this.grid.active = 0;
    this.filters.show(mine && kept.filters ? kept.filters : this.store.filters);
    // A key that is pressed at once is not to replace what was decided before.
    const index = (mine ? this.store.index.get(kept.place) : null) ?? this.store.firstOpen();
    this.view(mine ? kept.mode ?? "grid" : this.mode, index);
    if (list.notes.length) this.note(list.notes.join(" "));
  }

  // Where this tab was, so that a reload comes back to it.
  #remembered() {
    try { return JSON.parse(sessionStorage.getItem(MEMORY)) ?? {}; } catch { return {}; }
  }

  #remember() {
    const kept = { site: this.site.number, mode: this.mode, place: this.grid.place, filters: this.store.filters };
    try { sessionStorage.setItem(MEMORY, JSON.stringify(kept)); } catch { /* not this time */ }
  }

  picture(place, side) {
    const image = make("img", { alt: "", decoding: "async", draggable: "false" });
    image.addEventListener("load", () => image.classList.toggle("pixels", Math.max(image.naturalWidth, image.naturalHeight) <= PIXELS));
    image.src = this.site.image(place, side);
    return image;
  }

  // Names, and in the grid the beginnings of texts and vectors.
  async learn(places) {
    const { site } = this;
    try {
      for (let first = 0; first < places.length; first += MOST_ASKED) {
        const found = await site.samples(places.slice(first, first + MOST_ASKED));
        if (site !== this.site) return;
        if (this.details.size > MOST_DETAILS) this.details.clear();
        for (const sample of found) this.details.set(sample.place, sample);
      }
    } catch (problem) { this.trouble(problem); }
  }

  async whole(place) {
    const { site } = this;
    try {
      const found = await site.samples([place], true);
      return site === this.site ? found : [];
    } catch (problem) { this.trouble(problem); return []; }
  }

  // One action on what is selected or looked at; the next one is there before the disk has answered.
  async decide(choice, label = -1) {
    const places = this.mode === "grid" ? this.grid.subject : [this.grid.place].filter((place) => place >= 0);
    if (!places.length || this.opening) return;
    if (choice === "suggested" && !this.store.list.predicted) return;
    const { site, store } = this, index = store.index.get(places.at(-1)) ?? this.grid.active;
    const before = places.map((place) => [place, store.state(place)]);
    for (const place of places) store.expect(place, choice, label);
    this.grid.selected.clear();
    this.say(this.standing.said(places, choice));
    const next = store.shown[store.nextOpen(index)];
    this.#reselect(next);
    this.#wait(1);
    this.changed();
    try {
      const news = await site.change("decide", { places, choice, label });
      if (site === this.site) this.take(news);
      this.others?.postMessage(site.number);
    } catch (problem) {
      for (const [place, state] of before) state ? store.states.set(place, state) : store.states.delete(place);
      this.trouble(problem);
      this.say(`Not saved. ${problem.message}`);
      if (site === this.site) this.#reselect(places[0]);
    } finally {
      this.#wait(-1);
      if (site === this.site) this.changed();
    }
  }

  // Filter again, keep what can be kept, and go to a place.
  #reselect(place) {
    if (this.store.filters.state !== "all") this.store.select();
    const index = this.store.index.get(place) ?? Math.min(this.grid.active, this.store.shown.length - 1);
    if (this.store.filters.state !== "all") this.grid.layout();
    this.goto(Math.max(0, index));
  }

  goto(index) {
    if (this.mode === "grid") this.grid.go(index);
    else {
      this.grid.active = Math.max(0, Math.min(index, this.store.shown.length - 1));
      this.single.show(this.grid.place);
      this.changed();
    }
  }

  step(by) { this.goto(this.grid.active + by); }

  // Undo or redo; asked of the server in turn, so that quick fingers lose nothing.
  async turnBack(verb) {
    const { site } = this;
    if (this.opening) return;
    this.#wait(1);
    try {
      const news = await site.change(verb);
      if (site !== this.site) return;
      this.take(news);
      this.others?.postMessage(site.number);
      const { count, place } = news.turned;
      this.say(count ? `${verb === "undo" ? "Undone" : "Redone"}: ${counted(count, "label")}.` : `Nothing to ${verb}.`);
      if (count) this.#reselect(place);
    } catch (problem) {
      this.trouble(problem);
    } finally {
      this.#wait(-1);
    }
  }

  #wait(by) {
    this.waiting += by;
    document.body.setAttribute("aria-busy", this.waiting > 0);
  }

  take(news) {
    this.site.version = news.version;
    this.site.epoch = news.epoch;
    this.store.take(news);
    this.#well();
  }

  // What other tabs, or another program, have decided meanwhile.
  async look() {
    const { site } = this;
    if (!site || !this.store || this.waiting) return;
    try {
      const before = site.version, news = await site.news();
      if (site !== this.site || this.waiting || site.version !== before) return;
      const changed = news.whole || Object.keys(news.states).length > 0;
      const undo = JSON.stringify([this.store.undo, this.store.redo]) !== JSON.stringify([news.undo, news.redo]);
      this.take(news);
      if (!changed && !undo) return;
      if (this.store.filters.state !== "all") {
        const { place } = this.grid;
        this.store.select();
        this.grid.active = this.store.index.get(place) ?? this.grid.active;
        this.grid.layout();
      }
      if (this.mode === "single") this.single.show(this.grid.place);
      this.changed();
    } catch (problem) { this.trouble(problem, true); }
  }

  filtered() {
    const { place } = this.grid;
    this.store.select();
    this.grid.selected.clear();
    this.grid.active = this.store.index.get(place) ?? 0;
    this.grid.root.scrollTop = 0;
    this.grid.layout();
    this.goto(this.grid.active);
  }

  view(mode, index = this.grid.active) {
    this.mode = mode;
    document.body.dataset.view = mode;
    at("grid").hidden = mode !== "grid";
    at("single").hidden = mode !== "single";
    at("to-grid").setAttribute("aria-pressed", mode === "grid");
    at("to-single").setAttribute("aria-pressed", mode === "single");
    this.grid.selected.clear();
    if (mode === "grid") this.grid.layout();
    this.goto(index);
    this.focus();
  }

  focus() { (this.mode === "grid" ? at("grid") : at("stage")).focus({ preventScroll: true }); }

  // After anything has changed.
  changed() {
    this.standing.show();
    this.grid.refresh();
    this.#remember();
  }

  say(line) { at("live").textContent = line; }

  note(line) { this.#banner(line, false); }

  // `passing`: it is over when the server answers again.
  trouble(problem, passing = problem.lost) {
    if (!(problem instanceof api.Problem)) throw problem;
    this.#banner(problem.message, true);
    this.passing = passing;
  }

  #well() {
    if (this.passing) { this.passing = false; at("banner").hidden = true; }
  }

  #banner(line, bad) {
    at("banner").textContent = line;
    at("banner").className = bad ? "bad" : "";
    at("banner").hidden = false;
  }

  #listen() {
    const click = (id, act) => at(id).addEventListener("click", act);
    click("to-grid", () => this.view("grid"));
    click("to-single", () => this.view("single"));
    click("undo", () => this.turnBack("undo"));
    click("redo", () => this.turnBack("redo"));
    click("help", () => keyList(this));
    click("suggested", () => this.decide("suggested"));
    click("confirm", () => this.decide("confirm"));
    click("cannot", () => this.decide("cannot_tell"));
    click("skip", () => this.decide("skip"));
    click("select-all", () => { this.view("grid"); this.grid.choose(this.store.shown); });
    click("select-none", () => this.grid.choose([]));
    click("banner", () => { at("banner").hidden = true; });
    click("classes", (event) => {
      const button = event.target.closest("button");
      if (button?.id === "more") this.picker.open();
      else if (button) this.decide("label", Number(button.dataset.label));
    });
    at("site").addEventListener("change", () => this.open(Number(at("site").value)).catch((problem) => this.trouble(problem)));
    document.addEventListener("keydown", (event) => { if (this.store && pressed(this, event)) event.preventDefault(); });
    document.addEventListener("visibilitychange", () => document.hidden || this.look());
    if (this.others) this.others.onmessage = ({ data }) => { if (this.site && data === this.site.number) this.look(); };
  }
}

new App().start();
