// One label at a time: the sample as large as there is room, and all that is known of it.
import { at, facts, make, percent, vector } from "./elements.js";

const LARGEST = 40; // times
const SMALL = 64, WIDE = 512; // pixels up to which an image is enlarged, and to what
const BAR = 60; // pixels that the buttons below take

export class Single {
  constructor(app) {
    this.app = app;
    this.root = at("single");
    this.stage = at("stage");
    this.look = at("look");
    this.image = null;
    this.#reset();
    at("smaller").addEventListener("click", () => this.zoom(1 / 1.4));
    at("larger").addEventListener("click", () => this.zoom(1.4));
    at("left").addEventListener("click", () => this.turn(-90));
    at("right").addEventListener("click", () => this.turn(90));
    at("fit").addEventListener("click", () => this.fit());
    this.stage.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    this.stage.addEventListener("dblclick", () => (this.scale > 1 ? this.fit() : this.zoom(2.5)));
    at("facts").addEventListener("click", (event) => {
      const button = event.target.closest("[data-step]");
      if (button) this.app.step(Number(button.dataset.step));
    });
    this.#pointers();
    new ResizeObserver(() => this.#place()).observe(this.stage);
  }

  #reset() {
    this.scale = 1;
    this.angle = this.x = this.y = 0;
  }

  // Another site: its samples have the same numbers.
  clear() { this.place = null; }

  // Show the label at a place; -1 for none.
  async show(place) {
    const kept = this.place === place;
    this.place = place;
    if (place < 0) return;
    if (!kept) {
      this.#reset();
      const image = this.app.store.list.kind === "image";
      at("turning").hidden = !image;
      this.stage.classList.toggle("reading", !image);
      this.image = image ? this.app.picture(place, 1600) : null;
      this.image?.addEventListener("load", () => this.#place());
      this.look.replaceChildren(...(image ? [this.image] : []));
      this.stage.scrollTop = 0;
    }
    this.describe(null);
    const [sample] = await this.app.whole(place);
    if (this.place !== place || !sample) return;
    if (sample.text !== undefined) this.look.replaceChildren(make("p", { class: "words" }, sample.text));
    if (sample.numbers) this.look.replaceChildren(vector(sample, false));
    if (this.app.store.list.kind === "nothing") {
      this.look.replaceChildren(make("p", { class: "absent" }, "The sample itself is not here."));
    }
    this.describe(sample);
    this.#ahead();
  }

  describe(sample) {
    const { store } = this.app, { place } = this;
    const given = store.given(place), other = store.suggested(place), verdict = store.verdict(place);
    const quality = store.quality(place), sure = store.confidence(place);
    const name = sample?.name ?? this.app.details.get(place)?.name ?? "…";
    const shown = store.shown, index = store.index.get(place);
    const parts = [
      make("p", { class: "where" },
        make("span", {}, index === undefined ? "" : `${(index + 1).toLocaleString("en")} of ${shown.length.toLocaleString("en")}`),
        make("button", { type: "button", "data-step": "-1", "aria-label": "Before", title: "Before (←)" }, "‹"),
        make("button", { type: "button", "data-step": "1", "aria-label": "Next", title: "Next (→)" }, "›")),
      make("h2", {}, name),
      make("div", { class: "opinions" },
        make("div", { class: `opinion ${store.doubted(place) ? "doubted" : ""}` }, make("span", {}, "given"), make("b", { class: "given" }, store.name(given)),
          quality === null ? null : make("em", {}, `${percent(1 - quality)} likely wrong`)),
        other < 0 ? null : make("div", { class: "opinion" }, make("span", {}, "model says"), make("b", { class: "to" }, store.name(other)),
          sure === null ? null : make("em", {}, `${percent(sure)} sure`))),
      make("p", { class: `decided ${verdict}` }, this.#verdict(verdict)),
    ];
    const said = sample?.said ?? [];
    if (verdict === "conflict" || said.length > 1) {
      const words = { confirm: "right", correct: "", cannot_tell: "can't tell", skip: "skipped", settle: "settled" };
      parts.push(make("h3", {}, verdict === "conflict" ? "Reviewers disagree: what you choose now counts" : "Reviewers"),
        facts(said.map(([who, kind, label]) => [who, [label, words[kind]].filter(Boolean).join(", ") || kind])));
    }
    if (sample?.facts?.length) parts.push(make("h3", {}, "From the table"), facts(sample.facts));
    at("facts").replaceChildren(...parts);
    if (this.image) this.image.alt = `${name}, given label ${store.name(given)}`;
  }

  #verdict(verdict) {
    const { store } = this.app, state = store.state(this.place);
    if (verdict === "wrong") return `Corrected to ${store.name(state[1])}`;
    return { right: "Confirmed", unsure: "Can't tell", skip: "Skipped", conflict: "Conflict" }[verdict] ?? "Not decided yet";
  }

  // The next one is loaded before somebody asks for it.
  #ahead() {
    const { store } = this.app, index = store.index.get(this.place) ?? 0;
    const next = store.shown[store.nextOpen(index)];
    if (next === undefined || next === this.place) return;
    if (store.list.kind === "image") new Image().src = this.app.site.image(next, 1600);
  }

  zoom(factor) {
    if (!this.image) return;
    this.scale = Math.max(0.5, Math.min(this.scale * factor, LARGEST));
    if (this.scale <= 1) this.x = this.y = 0;
    this.#place();
    this.app.say(`${Math.round(100 * this.scale)} % of its fitting size`);
  }

  turn(degrees) {
    if (!this.image) return;
    this.angle += degrees;
    this.#place();
    this.app.say(`turned by ${((this.angle % 360) + 360) % 360} degrees`);
  }

  fit() {
    this.#reset();
    this.#place();
  }

  #place() {
    const { image, stage } = this;
    if (!image || !image.naturalWidth || !stage.clientWidth) return;
    const { naturalWidth: wide, naturalHeight: high } = image;
    const turned = this.angle % 180 !== 0, room = [stage.clientWidth - 24, stage.clientHeight - 24 - BAR];
    const fits = Math.min(room[0] / (turned ? high : wide), room[1] / (turned ? wide : high));
    const side = Math.max(wide, high);
    const scale = Math.min(fits, side <= SMALL ? WIDE / side : 3);
    image.style.width = `${wide * scale}px`;
    image.style.height = `${high * scale}px`;
    image.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.scale}) rotate(${this.angle}deg)`;
    stage.classList.toggle("movable", this.scale > 1);
  }

  #wheel(event) {
    if (!this.image) return;
    event.preventDefault();
    this.zoom(event.deltaY < 0 ? 1.12 : 1 / 1.12);
  }

  // One finger or the mouse moves what is enlarged, two fingers enlarge.
  #pointers() {
    const down = new Map();
    const spread = () => {
      const [one, other] = [...down.values()];
      return Math.hypot(one.x - other.x, one.y - other.y);
    };
    this.stage.addEventListener("pointerdown", (event) => {
      if (!this.image || event.target.closest("button")) return;
      down.set(event.pointerId, { x: event.clientX, y: event.clientY });
      this.stage.setPointerCapture(event.pointerId);
    });
    this.stage.addEventListener("pointermove", (event) => {
      const before = down.get(event.pointerId);
      if (!before) return;
      const wide = down.size === 2 ? spread() : 0;
      down.set(event.pointerId, { x: event.clientX, y: event.clientY });
      if (down.size === 2 && wide > 0) this.zoom(spread() / wide);
      else if (this.scale > 1) {
        this.x += event.clientX - before.x;
        this.y += event.clientY - before.y;
        this.#place();
      }
    });
    for (const kind of ["pointerup", "pointercancel"]) {
      this.stage.addEventListener(kind, (event) => down.delete(event.pointerId));
    }
  }

  // True where the key was for this view.
  key(event) {
    const { key, shiftKey } = event, { grid, store } = this.app;
    const moves = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (shiftKey && key in moves && this.scale > 1) {
      this.x += moves[key][0];
      this.y += moves[key][1];
      this.#place();
    } else if (key === "ArrowLeft" || key === "ArrowRight") {
      this.app.step(key === "ArrowLeft" ? -1 : 1);
    } else if (key === "Home") this.app.step(-grid.active);
    else if (key === "End") this.app.step(store.shown.length);
    else if (key === "+" || key === "=") this.zoom(1.4);
    else if (key === "-" || key === "−") this.zoom(1 / 1.4);
    else if (key === ",") this.turn(-90);
    else if (key === ".") this.turn(90);
    else if (key === "z") this.fit();
    else if (key === "Escape") this.app.view("grid");
    else return false;
    return true;
  }
}
