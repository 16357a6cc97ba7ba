// Light or dark: as the system has it, until somebody presses the button.
"use strict";
(() => {
  const root = document.documentElement, key = "feddiv-theme";
  const remembered = { // pages from disk may be denied a memory
    get: () => { try { return localStorage.getItem(key); } catch { return null; } },
    set: (theme) => { try { localStorage.setItem(key, theme); } catch { /* not this time */ } },
  };
  const chosen = remembered.get();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    remembered.set(root.dataset.theme);
  });
})();
