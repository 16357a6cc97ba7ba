// Keys: fixed ones for actions, the rest for classes.
import { at } from "./elements.js";
import { keyList } from "./help.js";

const RESERVED = new Set("ysxnurgftz");
const LETTERS = [..."abcdefghijklmnopqrstuvwxyz"].filter((letter) => !RESERVED.has(letter));

// A key for each class: digits, then letters, of its own name if they are free; "" for the rest.
export function classKeys(classes) {
  const taken = new Set();
  const digits = classes.length <= 10 && classes.every((name) => /^[0-9]$/.test(name));
  return classes.map((name, number) => {
    const free = LETTERS.filter((letter) => !taken.has(letter));
    const key = digits ? name
      : number < 10 ? String((number + 1) % 10)
      : [...name.toLowerCase()].find((letter) => free.includes(letter)) ?? free[0] ?? "";
    taken.add(key);
    return key;
  });
}

// Whether somebody is typing, or a button is to be pressed by this key.
function elsewhere(event) {
  const { target, key } = event;
  if (document.querySelector("dialog[open]")) return true;
  if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement) return true;
  return target instanceof HTMLButtonElement && (key === "Enter" || key === " ");
}

// Do what a key stands for; true where it stands for something.
export function pressed(app, event) {
  const { key, ctrlKey, metaKey, altKey, shiftKey } = event, low = key.toLowerCase();
  if (elsewhere(event) || altKey) {
    const leaves = key === "Escape" || (key === "Enter" && !(event.target instanceof HTMLButtonElement));
    if (!leaves || !event.target.closest?.("#filters")) return false;
    app.focus();
    return true;
  }
  if (key === "Escape" && !at("banner").hidden) {
    at("banner").hidden = true;
    return true;
  }
  if (ctrlKey || metaKey) {
    if (low === "z") app.turnBack(shiftKey ? "redo" : "undo");
    else if (low === "y") app.turnBack("redo");
    else if (low === "a" && app.mode === "grid") app.grid.choose(app.store.shown);
    else return false;
    return true;
  }
  const actions = {
    s: () => app.decide("suggested"),
    y: () => app.decide("confirm"),
    x: () => app.decide("cannot_tell"),
    n: () => app.decide("skip"),
    u: () => app.turnBack("undo"),
    r: () => app.turnBack("redo"),
    g: () => app.view(app.mode === "grid" ? "single" : "grid"),
    "/": () => app.picker.open(),
    t: () => app.picker.open(),
    f: () => app.filters.enter(),
    "?": () => keyList(app),
  };
  const label = app.keys.indexOf(low);
  if (low in actions) actions[low]();
  else if (label >= 0) app.decide("label", label);
  else return (app.mode === "grid" ? app.grid : app.single).key(event);
  return true;
}
