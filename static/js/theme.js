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
  /** The menu of pages on a narrow screen: marks the page shown, and closes at Escape and where the focus goes on. */
  function pages() {
    var menu = document.querySelector(".more-pages");
    if (!menu) return;
    menu.querySelectorAll("a").forEach(function (link) {
      if ((location.pathname + "/").indexOf(link.pathname + "/") === 0) link.setAttribute("aria-current", "page");
    });
    menu.addEventListener("keydown", function (e) {
      if (e.key !== "Escape" || !menu.open) return;
      menu.open = false;
      menu.querySelector("summary").focus();
    });
    document.addEventListener("click", function (e) {
      if (!menu.contains(e.target)) menu.open = false;
    });
    menu.addEventListener("focusout", function (e) {
      if (e.relatedTarget && !menu.contains(e.relatedTarget)) menu.open = false;
    });
  }
  var chosen = read();
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
  root.classList.add("js");
  addEventListener("DOMContentLoaded", function () {
    pages();
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
