// Before the first paint, so that nothing flashes: the theme that a person chose, or the system's. This is a classic
// script because a module would run after the page is drawn.
(function () {
  "use strict";
  var KEY = "ucutlass.theme";
  var root = document.documentElement;
  function read() {
    try {
      return localStorage.getItem(KEY);
    } catch (e) {
      return null;
    }
  }
  function isDark() {
    var chosen = root.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  var chosen = read();
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
  root.classList.add("js");
  addEventListener("DOMContentLoaded", function () {
    var button = document.getElementById("theme");
    if (!button) return; // an embedded pane follows the system
    function name() {
      button.setAttribute("aria-label", isDark() ? "Use the light theme" : "Use the dark theme");
      button.title = button.getAttribute("aria-label");
    }
    name();
    button.addEventListener("click", function () {
      root.dataset.theme = isDark() ? "light" : "dark";
      try {
        localStorage.setItem(KEY, root.dataset.theme);
      } catch (e) {
        /* private mode: for this page only */
      }
      name();
      dispatchEvent(new Event("themechange"));
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () {
      name();
      dispatchEvent(new Event("themechange"));
    });
  });
})();
