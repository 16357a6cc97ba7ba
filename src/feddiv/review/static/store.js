// The list of a site, what was decided about it, and which of it is shown.
const DECIDED = new Set(["confirm", "correct", "cannot_tell", "settle"]);

export const EVERYTHING = { state: "all", given: -1, pair: "", low: 0, high: 1 }; // no filter

export class Store {
  constructor(list) {
    this.list = list;
    this.count = list.given.length;
    this.states = new Map(); // place → [kind, class or -1]
    this.filters = EVERYTHING;
    this.undo = this.redo = null;
    this.select();
  }

  name(label) { return this.list.classes[label] ?? ""; }

  given(place) { return this.list.given[place]; }

  // The class that the model would give; -1 where there is none.
  suggested(place) { return this.list.predicted ? this.list.predicted[place] : -1; }

  quality(place) { return this.list.quality ? this.list.quality[place] : null; }

  confidence(place) { return this.list.confidence ? this.list.confidence[place] : null; }

  // Whether it is one of those that look wrong: they come first.
  doubted(place) { return place < this.list.issues; }

  state(place) { return this.states.get(place) ?? null; }

  decided(place) {
    const state = this.states.get(place);
    return state !== undefined && DECIDED.has(state[0]);
  }

  // "wrong", "right", "unsure", "skip", "conflict" or "": what a decision says of the given label.
  verdict(place) {
    const state = this.states.get(place);
    if (!state) return "";
    const [kind, label] = state;
    if (kind === "conflict" || kind === "skip") return kind;
    if (label < 0) return "unsure";
    return label === this.given(place) ? "right" : "wrong";
  }

  take(news) {
    if (news.whole) this.states.clear();
    for (const [place, state] of Object.entries(news.states)) {
      if (state === null) this.states.delete(Number(place));
      else this.states.set(Number(place), state);
    }
    this.undo = news.undo;
    this.redo = news.redo;
  }

  // What a choice would make of a sample, to be shown before the server has answered.
  expect(place, choice, label) {
    const old = this.state(place), given = this.given(place);
    const settles = old !== null && (old[0] === "conflict" || old[0] === "settle");
    if (choice === "skip") {
      if (old === null) this.states.set(place, ["skip", -1]);
      return;
    }
    let to = -1;
    if (choice === "confirm") to = given;
    else if (choice === "label") to = label;
    else if (choice === "suggested") to = this.suggested(place) < 0 ? given : this.suggested(place);
    const kind = to < 0 ? "cannot_tell" : to === given ? "confirm" : "correct";
    this.states.set(place, [settles ? "settle" : kind, to]);
  }

  // Places that pass the filters, the worst first.
  select() {
    const { state, given, pair, low, high } = this.filters;
    const { list } = this, shown = [];
    for (let place = 0; place < this.count; place += 1) {
      if (given >= 0 && list.given[place] !== given) continue;
      if (pair && `${list.given[place]}>${this.suggested(place)}` !== pair) continue;
      if (list.quality && (list.quality[place] < low || list.quality[place] > high)) continue;
      if (state !== "all" && !this.#passes(place, state)) continue;
      shown.push(place);
    }
    this.shown = shown;
    this.index = new Map(shown.map((place, at) => [place, at]));
  }

  #passes(place, state) {
    const verdict = this.verdict(place);
    if (state === "undecided") return verdict === "" || verdict === "skip" || verdict === "conflict";
    if (state === "decided") return verdict === "wrong" || verdict === "right" || verdict === "unsure";
    if (state === "unsure") return verdict === "unsure" || verdict === "skip";
    return verdict === state;
  }

  // The first place after `at` in what is shown that nobody has decided; the next one if all are.
  nextOpen(at) {
    const { shown } = this;
    for (let step = 1; step <= shown.length; step += 1) {
      const other = (at + step) % shown.length;
      if (this.states.get(shown[other]) === undefined) return other;
    }
    return Math.min(at + 1, shown.length - 1);
  }

  // Where to begin: the first of what is shown that nobody has decided, or has skipped at least.
  firstOpen() {
    const { shown } = this;
    const untouched = shown.findIndex((place) => !this.states.has(place));
    if (untouched >= 0) return untouched;
    return Math.max(0, shown.findIndex((place) => !this.decided(place)));
  }

  // (given, suggested) → how many of the doubtful labels, the commonest first.
  pairs() {
    const counts = new Map();
    if (!this.list.predicted) return [];
    for (let place = 0; place < this.count; place += 1) {
      if (this.given(place) === this.suggested(place)) continue;
      const key = `${this.given(place)}>${this.suggested(place)}`;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    return [...counts].sort((one, other) => other[1] - one[1]);
  }

  counts() {
    const found = { wrong: 0, right: 0, unsure: 0, skip: 0, conflict: 0, decided: 0, issues: 0 };
    for (const place of this.states.keys()) {
      const verdict = this.verdict(place);
      found[verdict] += 1;
      if (this.decided(place)) {
        found.decided += 1;
        if (place < this.list.issues) found.issues += 1;
      }
    }
    return found;
  }
}
