"""A page looked at as a machine can: axe-core's findings, its layout shift, its weight, and what it complains about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page

from tests.browser.conftest import ROOT, Watched, no_sideways_scroll, until

AXE = (ROOT / "tests/browser/vendor/axe-core-4.12.1/axe.min.js").read_text(encoding="utf-8")
GRAVE = ("serious", "critical")
LIGHTEST = 300 * 1024  # bytes of the bodies of the first view, compressed, before Plotly
STEADY = 0.05  # cumulative layout shift
# Runs before the page's own scripts.
WATCH = """
window.walked = { shifts: [], policy: [] };
new PerformanceObserver((list) => {
  for (const { value, startTime, hadRecentInput, sources } of list.getEntries())
    if (!hadRecentInput) window.walked.shifts.push({ value, at: startTime, of: sources.map(({ node }) =>
      node?.id || node?.className || node?.parentNode?.className || node?.nodeName || "gone") });
}).observe({ type: "layout-shift", buffered: true });
addEventListener("securitypolicyviolation", (e) => window.walked.policy.push(`${e.violatedDirective} ${e.blockedURI}`));
"""
RUN = """axe.run(document, { resultTypes: ["violations"], %s }).then(({ violations }) => violations.map(
  ({ id, impact, help, nodes }) => ({ id, impact, help, nodes: nodes.map((n) => `${n.target.join(" ")}: ${n.html}`) })))
"""
# Contrast takes axe-core most of its time, and is the same for all elements that look alike: it measures the first of
# each look. Whatever may lie over something else (a drawing's parts, what is positioned) is looked at one by one.
ALIKE = """(() => {
  const seen = new Map(), first = new WeakSet(), none = Symbol();
  const look = (node, above) => {
    const css = getComputedStyle(node);
    let own = none;
    if (above !== none && !(node instanceof SVGElement) && !["absolute", "fixed"].includes(css.position)) {
      const at = [above, node.tagName, node.className, node.getAttribute("style"), css.color, css.backgroundColor,
        css.backgroundImage, css.fontSize, css.fontWeight, css.opacity, css.textShadow, css.visibility, css.display,
        css.filter, css.mixBlendMode, node.matches(":disabled, [aria-disabled=true]"),
        [...node.childNodes].some((each) => each.nodeType === 3 && each.data.trim())].join("|");
      own = seen.get(at);
      if (own === undefined) {
        seen.set(at, own = seen.size);
        first.add(node);
      }
    } else first.add(node);
    for (const each of node.children) look(each, own);
  };
  look(document.documentElement, 0);
  const rule = axe._audit.rules.find(({ id }) => id === "color-contrast");
  const matches = rule.everyMatch ??= rule.matches;
  rule.matches = (node, ...more) => first.has(node) && matches.call(rule, node, ...more);
})()"""
# A category alone would also run the rules of level AAA, which axe-core leaves out by default.
ONLY = "runOnly: ['cat.%s'], rules: { 'color-contrast-enhanced': { enabled: false } }"


class Walk(Watched):
    """A page in a context of its own. As a list: what it complained about."""

    def __init__(self, page: Page):
        super().__init__()
        self.page = page
        self.bytes: dict[str, int] = {}  # address -> bytes of its body over the wire
        self.order: list[str] = []  # of the requests
        self.watch(page)
        page.add_init_script(WATCH)
        self.cdp = page.context.new_cdp_session(page)
        addresses: dict[str, str] = {}

        def asked(event: dict[str, Any]) -> None:
            addresses[event["requestId"]] = event["request"]["url"]
            self.order.append(event["request"]["url"])

        def done(event: dict[str, Any]) -> None:
            url = addresses.get(event["requestId"], "")
            self.bytes[url] = self.bytes.get(url, 0) + int(event["encodedDataLength"])

        self.cdp.on("Network.requestWillBeSent", asked)
        self.cdp.on("Network.dataReceived", done)
        self.cdp.send("Network.enable")

    def axe(self, kind: str = "") -> list[str]:
        """The serious and critical findings, one line each; `kind`: of one of axe-core's categories alone. The policy
        forbids pages a script of another place, so axe-core comes through the debugger, as does its call."""
        self._evaluate("typeof axe === 'undefined' ? 0 : 1") or self._evaluate(AXE)
        self._evaluate(ALIKE)
        violations = self._evaluate(RUN % (ONLY % kind if kind else ""))
        return [
            f"{v['impact']}: {v['id']} ({v['help']}): {len(v['nodes'])} nodes, {' | '.join(v['nodes'][:3])[:700]}"
            for v in violations
            if v["impact"] in GRAVE
        ]

    def _evaluate(self, expression: str) -> Any:
        asked = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        reply = self.cdp.send("Runtime.evaluate", asked)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def shifts(self) -> tuple[float, list[Any]]:
        """The cumulative layout shift so far (of the worst window: one ends after a second without a shift, or after
        five seconds, as https://web.dev/articles/cls has it), and the shifts."""
        shifts = self.page.evaluate("window.walked.shifts")
        worst, window = 0.0, []
        for shift in shifts:
            if window and (shift["at"] - window[-1]["at"] > 1000 or shift["at"] - window[0]["at"] > 5000):
                window = []
            window.append(shift)
            worst = max(worst, sum(s["value"] for s in window))
        return worst, shifts

    def weight(self) -> int:
        """Bytes over the wire of all that was requested before Plotly."""
        plotly = next((i for i, url in enumerate(self.order) if "plotly" in url), len(self.order))
        return sum(self.bytes.get(url, 0) for url in set(self.order[:plotly]))

    def settled(self) -> None:
        """Wait until nothing is requested any more and nothing changes its colour."""
        self.page.wait_for_load_state("networkidle")
        self.page.wait_for_timeout(700)
        until(self.page, "!document.querySelector('[data-late]') && document.getAnimations().length === 0")

    def fits(self) -> None:
        """Fail where the page scrolls sideways or axe-core finds something, in both themes at 1440 and 360 px."""
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme)
            for width in (1440, 360):
                self.page.set_viewport_size({"width": width, "height": 800})
                no_sideways_scroll(self.page)
                until(self.page, "document.getAnimations().length === 0")
                assert self.axe() == [], (scheme, width)

    def moved(self) -> list[str]:
        """The layout shift so far, if it is too much. What moves because of a person is not counted."""
        shift, sources = self.shifts()
        return [f"layout shift {shift:.3f}: {sources}"[:900]] if shift >= STEADY else []

    def heavy(self) -> list[str]:
        """The weight of the first view, if it is too much."""
        weight = self.weight()
        return [f"the first view weighs {weight / 1024:.0f} KiB"] if weight >= LIGHTEST else []

    def complained(self) -> list[str]:
        """Reports of the policy, errors of scripts and lines on the console."""
        return [f"policy: {each}" for each in self.page.evaluate("window.walked.policy")] + list(self)


@contextmanager
def walking(browser: Browser, width: int = 1440, height: int = 900, **options: Any) -> Iterator[Walk]:
    options.setdefault("reduced_motion", "reduce")
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    try:
        yield Walk(context.new_page())
    finally:
        context.close()
