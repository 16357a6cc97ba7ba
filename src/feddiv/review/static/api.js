// What the page asks its server. Writes go one after the other, in the order they were made.
export class Problem extends Error {
  constructor(message, lost) {
    super(message);
    this.lost = lost; // whether the server is not there any more
  }
}

const GONE = "The review is not running any more: nothing is saved until you start it again and open the address that it prints.";
const OTHER = "The review was started anew: open the address that it printed last.";

async function ask(path, body) {
  const request = body === undefined ? {} : {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(path, request);
  } catch {
    throw new Problem(GONE, true);
  }
  if (answer.status === 403) throw new Problem(OTHER, true);
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Problem(said.problem || `The server failed (${answer.status}).`, false);
  return said;
}

export const sites = () => ask("api/sites");

export class Site {
  #queue = Promise.resolve();

  constructor(number) {
    this.number = number;
    this.version = 0;
    this.epoch = "";
  }

  list() { return ask(`api/${this.number}/list`); }

  image(place, side) { return `api/${this.number}/image/${place}?side=${side}`; }

  samples(places, whole = false) {
    return ask(`api/${this.number}/samples?places=${places.join(",")}${whole ? "&whole=1" : ""}`);
  }

  news() {
    return ask(`api/${this.number}/news?since=${this.version}&epoch=${this.epoch}`);
  }

  // "decide", "undo" or "redo"; the answer is what is new, and comes when it is on the disk.
  change(verb, body = {}) {
    const turn = this.#queue.then(() =>
      ask(`api/${this.number}/${verb}`, { ...body, since: this.version, epoch: this.epoch }));
    this.#queue = turn.catch(() => undefined);
    return turn;
  }
}
