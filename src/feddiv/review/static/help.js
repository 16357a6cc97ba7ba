// The list of keys.
import { at, make } from "./elements.js";

const ACTIONS = [
  ["S", "take the suggested label"],
  ["Y", "yes, the given label is right"],
  ["X", "can't tell"],
  ["N", "skip: later, perhaps"],
  ["/ or T", "set a label by typing its name"],
  ["U or Ctrl+Z", "undo, also after a reload"],
  ["R or Ctrl+Y", "redo"],
  ["← → ↑ ↓", "move; Home, End, Page up and down in the grid"],
  ["Enter", "grid: open the sample"],
  ["G, Esc", "grid or single; Esc selects none first"],
  ["Space", "grid: select or not; Shift with arrows or a click: all between"],
  ["Ctrl+A", "grid: select all that are shown"],
  ["+ − Z", "larger, smaller, as it was; the wheel and two fingers too"],
  [", .", "turn left, turn right"],
  ["F", "to the filters; Enter or Esc: back to the list"],
  ["?", "this list"],
];

export function keyList(app) {
  const rows = ACTIONS.map(([key, said]) => [key, said]);
  const named = app.store.list.classes.map((name, label) => [app.keys[label].toUpperCase(), name]).filter(([key]) => key);
  const table = (pairs) => make("table", {}, make("tbody", {}, ...pairs.map(([key, said]) =>
    make("tr", {}, make("td", {}, make("kbd", {}, key)), make("td", {}, said)))));
  at("key-list").replaceChildren(table(rows), make("div", {}, make("h3", {}, "Classes"), table(named)));
  at("keys").showModal();
}
