"""What a long session costs the tab that shows it, in real Chromium: opening, keys, scrubbing, memory.

    python -m tests.browser.long_session --json OUT                       # 500 trials, 20,000 events
    python -m tests.browser.long_session --streamed 72000 --rate 300      # an hour at 20 events a second, faster

The page is the real one, served by daphne from the log that tests/browser/long_log.py writes. Seconds are of the CPU of
the tab's process (Chromium's own figure), so another load of the machine changes them little. `key_cpu_ms` is the CPU
of its main thread until the list shows the selected trial, `key_all_cpu_ms` until the other panes show it too; `key_ms`
is what a person waits for the list, on these cores with their load. Memory is the private memory of that process
(RssAnon), as Chromium's task manager shows it. The limits are those of issue 17; the exit status is 0 if all hold.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.conftest import ARGS, CHROMIUM, ROOT, App, until

OPEN_S, KEY_MS, MOST_BYTES = 2.0, 30.0, 250e6
KEYS, SCRUBS = 60, 40
FOLLOWS = 250  # ms after a key until all panes have followed it
# Marks a key's event, and the end of the work of its frame: handlers, layout and paint.
WATCH_KEYS = """() => addEventListener("keydown", () => {
  performance.mark("key");
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => performance.mark("shown");
    channel.port2.postMessage(null);
  });
}, true)"""
SCRUB = """async (seq) => {
  const slider = document.getElementById("scrub"), began = performance.now();
  slider.value = seq;
  slider.dispatchEvent(new Event("input"));
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - began;
}"""
DRAWN = "document.querySelectorAll('#chart-roofline .main-svg, #chart-history .main-svg').length >= 2"


class Tab:
    """A page in a browser of its own, and the process that draws it."""

    def __init__(self, browser: Browser):
        self.browser = browser
        self.page: Page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        self.cdp = browser.new_browser_cdp_session()
        self.figures: list[str] = []
        self.page.on("request", lambda r: self.figures.append(r.url) if "/api/figures/" in r.url else None)

    def renderers(self) -> list[dict[str, Any]]:
        return [p for p in self.cdp.send("SystemInfo.getProcessInfo")["processInfo"] if p["type"] == "renderer"]

    @property
    def cpu(self) -> float:
        """CPU seconds of all renderers: the tab's, and one that waits for another."""
        return sum(p["cpuTime"] for p in self.renderers())

    @property
    def bytes(self) -> int:
        """Private memory of the largest renderer."""
        lines = [Path(f"/proc/{p['id']}/status").read_text() for p in self.renderers()]
        return max(int(re.search(r"RssAnon:\s+(\d+) kB", text)[1]) << 10 for text in lines)

    def collected(self) -> int:
        """Private memory after a garbage collection."""
        session = self.page.context.new_cdp_session(self.page)
        session.send("HeapProfiler.collectGarbage")
        session.detach()
        time.sleep(1.0)
        return self.bytes

    def whole(self, events: int, seconds: float) -> None:
        until(self.page, f"document.getElementById('loaded')?.textContent === '{events} events'", seconds)


@contextlib.contextmanager
def serving() -> Iterator[App]:
    """The app without an engine."""
    with tempfile.TemporaryDirectory(prefix="ucutlass-long-", ignore_cleanup_errors=True) as folder:
        app = App(Path(folder))
        app.manage("migrate", "-v", "0")
        app.manage("collectstatic", "--noinput", "-v", "0")
        app.start_web()
        try:
            app.wait(lambda: app.get("/healthz"), 60, "no answer")
            yield app
        finally:
            app.end("web")


def write(app: App, trials: int, events: int, rate: float = 0.0) -> tuple[str, subprocess.Popen]:
    """A long log: the session's id, and its writer, which with a rate waits for a line on its stdin."""
    command = [sys.executable, "-m", "tests.browser.long_log", "--trials", str(trials), "--events", str(events)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writer = subprocess.Popen([*command, "--rate", str(rate)], cwd=ROOT, env=app.env, **pipes)
    return writer.stdout.readline().strip(), writer


@contextlib.contextmanager
def tab() -> Iterator[Tab]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield Tab(browser)
        browser.close()


def opened(app: App, session: str, events: int) -> dict[str, Any]:
    """Open a session that ended, step through its trials, scrub through its log."""
    with tab() as one:
        before, began = one.cpu, time.monotonic()
        one.page.goto(f"{app.url}/s/{session}", wait_until="commit")
        one.whole(events, 120)
        row: dict[str, Any] = {"open_cpu_s": round(one.cpu - before, 2), "open_s": round(time.monotonic() - began, 2)}
        until(one.page, DRAWN, 60)
        one.page.wait_for_timeout(1500)
        row |= {"drawn_cpu_s": round(one.cpu - before, 2), "requests_of_figures": len(one.figures)}
        row["rows"] = one.page.locator("#timeline .trial").count()
        row["nodes"] = one.page.evaluate("document.querySelectorAll('*').length")
        row["mb"] = round(one.bytes / 1e6, 1)
        row |= keys(one)
        steps = [events * (1 + n * 17 % SCRUBS) // SCRUBS for n in range(SCRUBS)]
        row |= spread("scrub_ms", [one.page.evaluate(SCRUB, seq) for seq in steps])
        row["scrubbed_mb"] = round(one.collected() / 1e6, 1)
        return row


def keys(one: Tab) -> dict[str, Any]:
    """Step through the trials: the CPU of the tab's main thread as Chromium traces it, and the time a person waits."""
    one.page.evaluate(WATCH_KEYS)
    categories = ["disabled-by-default-devtools.timeline", "blink.user_timing"]
    one.browser.start_tracing(page=one.page, categories=categories)
    for _ in range(KEYS):
        one.page.keyboard.press("k")
        one.page.wait_for_timeout(FOLLOWS)
    trace = json.loads(one.browser.stop_tracing())["traceEvents"]
    marks = [e for e in trace if e.get("cat") == "blink.user_timing" and e["name"] in ("key", "shown")]
    marks.sort(key=lambda e: e["ts"])
    thread = marks[0]["pid"], marks[0]["tid"]
    tasks = [e for e in trace if e["name"] == "RunTask" and e["ph"] == "X" and (e["pid"], e["tid"]) == thread]

    def busy(begin: float, end: float) -> float:
        """CPU ms of the tasks of the main thread that touch a span of the trace, in µs."""
        return sum(e.get("tdur", e["dur"]) for e in tasks if e["ts"] <= end and e["ts"] + e["dur"] >= begin) / 1000

    assert [m["name"] for m in marks] == ["key", "shown"] * KEYS, "a key without its frame"
    pairs = [(key["ts"], shown["ts"]) for key, shown in zip(marks[::2], marks[1::2], strict=True)]
    return (
        spread("key_cpu_ms", [busy(key, shown) for key, shown in pairs])
        | spread("key_all_cpu_ms", [busy(key, key + 1000 * FOLLOWS) for key, _ in pairs])
        | spread("key_ms", [(shown - key) / 1000 for key, shown in pairs])
    )


def spread(name: str, values: list[float]) -> dict[str, Any]:
    ordered = sorted(values)
    most = ordered[int(0.95 * (len(ordered) - 1))]
    return {name: round(statistics.median(ordered), 1), f"{name}_p95": round(most, 1), f"{name}_n": len(ordered)}


def streamed(app: App, trials: int, events: int, rate: float) -> dict[str, Any]:
    """Watch a session of so many events from its first to its last, as they come."""
    session, writer = write(app, trials, events, rate)
    with tab() as one:
        one.page.goto(f"{app.url}/s/{session}")
        writer.stdin.write("go\n")
        writer.stdin.flush()
        began, cpu, seen = time.monotonic(), one.cpu, []
        while writer.poll() is None:
            one.page.wait_for_timeout(5000)
            seen.append(round(one.bytes / 1e6, 1))
        assert writer.returncode == 0
        one.whole(events, 300)
        row: dict[str, Any] = {"events": events, "seconds": round(time.monotonic() - began, 1)}
        row |= {"cpu_s": round(one.cpu - cpu, 1), "mb": round(one.bytes / 1e6, 1), "most_mb": max(seen, default=0)}
        row |= {"collected_mb": round(one.collected() / 1e6, 1), "mb_every_5_s": seen}
        return row


def broken(row: dict[str, Any]) -> list[str]:
    """The limits that do not hold."""
    limits = [
        ("opened", "open_cpu_s", OPEN_S),
        ("opened", "key_cpu_ms_p95", KEY_MS),
        ("streamed", "most_mb", MOST_BYTES / 1e6),
    ]
    known = [(part, name, most) for part, name, most in limits if part in row]
    return [f"{part}: {name} {row[part][name]} > {most}" for part, name, most in known if row[part][name] > most]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--streamed", type=int, default=0, metavar="EVENTS", help="of a second session, watched live")
    parser.add_argument("--rate", type=float, default=300.0, help="events a second of it")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    about = f"--trials {options.trials} --events {options.events} --streamed {options.streamed} --rate {options.rate:g}"
    row: dict[str, Any] = {"command": f"python -m tests.browser.long_session {about}", "date": time.strftime("%F")}
    row |= {"what": "a synthetic log, no GPU", "gpu": None, "driver": None, "toolchain": None}
    row |= {"cores": os.cpu_count(), "load": os.getloadavg(), "trials": options.trials, "events": options.events}
    with serving() as app:
        session, writer = write(app, options.trials, options.events)
        assert writer.wait(300) == 0
        row["opened"] = opened(app, session, options.events)
        print(json.dumps(row["opened"], indent=1), flush=True)
        if options.streamed:
            row["streamed"] = streamed(app, options.trials, options.streamed, options.rate)
    row["broken"] = broken(row)
    print(json.dumps(row, indent=1))
    if options.json:
        options.json.write_text(json.dumps(row, indent=1) + "\n")
    return 1 if row["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
