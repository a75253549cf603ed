"""The real application (daphne and the engine command, a fresh SQLite) and a real Chromium that uses it."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.llm.rehearse.player import Player
from engine.llm.rehearse.server import Rehearsal

ROOT = Path(__file__).resolve().parents[2]
# Chromium without the machinery of a window takes a third of the processor time for the same pages.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or "/usr/bin/chromium"
PATIENCE = 90_000  # ms; the 5 s that are usual are few on a busy machine
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--process-per-site",  # of each context
]
ENGINE = ("manage.py", "engine", "--device", "modelled:h200")
# Issue 2's module with a sixteenth of its weights: filling and multiplying 8192 x 8192 of them takes seconds of a core.
MODULE = (ROOT / "engine/problems/linear_scale_leaky.py").read_text().replace("8192, 8192", "2048, 2048")

LINEAR = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(256, 256)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(128, 256)]
"""


def pytest_collection_modifyitems(items) -> None:
    """Everything in this folder drives a browser; the marker lets a person leave it out."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if not Path(CHROMIUM).exists():
                item.add_marker(pytest.mark.skip(reason="Chromium is not installed: apt-get install chromium"))


class App:
    """The running application. `url` without a slash at its end."""

    def __init__(self, var: Path):
        self.var = var
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("UCUTLASS_", "DATABASE_URL", "DJANGO_"))}
        self.env |= {
            "UCUTLASS_VAR": str(var),
            "DJANGO_SETTINGS_MODULE": "ucutlass_web.settings",
            "UCUTLASS_SESSIONS_PER_HOUR": "100000",
            "UCUTLASS_COMPILERS": "none",  # importing CuTe DSL takes the engine 9 s
            "UCUTLASS_CHECKS_PER_MINUTE": "100000",
        }
        self.running: dict[str, subprocess.Popen] = {}
        self.sessions: list[dict] = []

    def manage(self, *words: str) -> None:
        subprocess.run([sys.executable, "manage.py", *words], cwd=ROOT, env=self.env, check=True, timeout=300)

    def start(self, name: str, *words: str) -> None:
        log = (self.var / f"{name}.log").open("ab")
        self.running[name] = subprocess.Popen(
            [sys.executable, *words], cwd=ROOT, env=self.env, stdout=log, stderr=log, start_new_session=True
        )

    @contextlib.contextmanager
    def serving(self, *engine: str) -> Iterator[App]:
        """The app with an engine (the arguments of Python that start it) while the context lasts."""
        self.manage("migrate", "-v", "0", "--skip-checks")
        self.manage("collectstatic", "--noinput", "-v", "0")
        self.start_web()
        self.start("engine", *(engine or ENGINE))
        try:
            self.wait(lambda: self.get("/healthz")["engines"] >= 1, 180, "no engine")
            yield self
        finally:
            self.end("engine")
            self.end("web")

    def start_web(self) -> None:
        web = ("-m", "daphne", "-b", "127.0.0.1", "-p", str(self.port), "-v", "0", "ucutlass_web.asgi:application")
        self.start("web", *web)

    def start_engine(self) -> None:
        self.start("engine", *ENGINE)

    def end(self, name: str) -> None:
        process = self.running.pop(name, None)
        if process is None:
            return
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def log(self, name: str) -> str:
        return (self.var / f"{name}.log").read_text(errors="replace")[-4000:]

    def get(self, path: str):
        with urllib.request.urlopen(self.url + path, timeout=60) as reply:
            return json.load(reply)

    def post(self, path: str, body: dict, headers: dict[str, str] | None = None) -> dict:
        sent = {"Content-Type": "application/json", **(headers or {})}
        asked = urllib.request.Request(self.url + path, json.dumps(body).encode(), sent)
        with urllib.request.urlopen(asked, timeout=60) as reply:
            return json.load(reply)

    def submit(self, source: str = MODULE, **fields) -> dict:
        self.sessions.append(self.post("/api/sessions", {"source": source, "device": "modelled:h200", **fields}))
        return self.sessions[-1]

    def stop_all(self) -> None:
        """End what a test left running, so that the next finds the one engine free."""
        while self.sessions:
            session = self.sessions.pop()
            if self.get(f"/api/sessions/{session['id']}")["state"] == "ended":
                continue
            stop = {"kind": "stop", "control_token": session["control_token"]}
            self.post(f"/api/sessions/{session['id']}/commands", stop)
            self.wait_ended(session["id"], 180)

    def wait(self, what, seconds: float, why: str):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if value := what():
                    return value
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(0.2)
        raise AssertionError(f"{why} after {seconds} s\n{self.log('web')}\n{self.log('engine')}")

    def wait_ended(self, session_id: str, seconds: float = 300) -> dict:
        def ended():
            session = self.get(f"/api/sessions/{session_id}")
            return session if session["state"] == "ended" else None

        return self.wait(ended, seconds, "the session did not end")


@pytest.fixture(scope="package")
def rehearsal() -> Iterator[Rehearsal]:
    """A server that plays a model by rule."""
    server = Rehearsal(("127.0.0.1", 0), Player())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="package")
def app(tmp_path_factory, rehearsal) -> Iterator[App]:
    app = App(tmp_path_factory.mktemp("app"))
    app.env |= {"OPENAI_BASE_URL": rehearsal.url, "OPENAI_API_KEY": "none", "UCUTLASS_MODEL": "rehearsed"}
    with app.serving():
        yield app


@pytest.fixture(autouse=True)
def nothing_left_running(request):
    yield
    if "app" in request.fixturenames:
        request.getfixturevalue("app").stop_all()


@pytest.fixture(scope="package")
def chromium():
    """A real Chromium, without the application."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")
def checkout(chromium):
    """A page whose address serves the checkout's files, without the application, so that modules can be imported."""
    page = chromium.new_page()
    page.route("http://checkout/**", _serve)
    page.goto("http://checkout/index.html")
    yield page
    page.close()


def _serve(route) -> None:
    path = ROOT / route.request.url.removeprefix("http://checkout/")
    if path.suffix == ".js" and path.is_relative_to(ROOT / "static"):
        route.fulfill(body=path.read_text(encoding="utf-8"), content_type="text/javascript")
    else:
        route.fulfill(body="<!doctype html><title>checkout</title>", content_type="text/html")


@pytest.fixture(scope="package")
def browser(app, chromium):
    return chromium


class Watched(list):
    """What a page complained about: errors of its scripts, of the policy, and of requests."""

    def watch(self, page) -> None:
        page.on("pageerror", lambda e: self.append(f"script: {e}"))
        page.on("console", lambda m: self.append(f"console: {m.text}") if m.type in ("error", "warning") else None)


@pytest.fixture
def complaints() -> Watched:
    return Watched()


@pytest.fixture(scope="package")
def visited(app, browser):
    """A context whose pages one process draws: it has read the scripts of the application, and does not exit while the
    page that stays open is there."""
    context = browser.new_context(reduced_motion="reduce")
    stays = context.new_page()
    stays.goto(f"{app.url}/healthz")
    yield context, stays
    context.close()


@pytest.fixture
def open_page(app, browser, visited, complaints):
    """open_page(path, width=1440, height=900, **context options): a page that knows nothing of any other.

    The first one of a test is one of `visited`, unless that is None: all that pages keep there is deleted between two
    tests. Others have a context of their own."""
    pages, contexts = [], []

    def opened(path: str = "/", width: int = 1440, height: int = 900, **options):
        options.setdefault("reduced_motion", "reduce")  # what moves takes a third of a core where no GPU draws it
        if visited is not None and not pages and not contexts and options.keys() <= {"reduced_motion", "color_scheme"}:
            page = visited[0].new_page()
            pages.append(page)
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(**options)
        else:
            context = browser.new_context(viewport={"width": width, "height": height}, **options)
            contexts.append(context)
            page = context.new_page()
        page.set_default_timeout(PATIENCE)
        complaints.watch(page)
        page.goto(app.url + path if path.startswith("/") else path)
        if options.get("java_script_enabled", True) and page.locator("[data-late]").count():  # until it is laid out
            until(page, "!document.querySelector('[data-late]')")
        return page

    yield opened
    for each in (*contexts, *pages):
        each.close()
    if pages:
        context, stays = visited
        context.clear_cookies()
        stays.evaluate("localStorage.clear()")


@pytest.fixture(scope="package")
def finished(app) -> dict:
    """A session of the module of issue 2 that ran to its end: {id, view, control, events}."""
    session = app.submit(trials=6, eps=0.0, window=6)
    app.wait_ended(session["id"])
    return {
        "id": session["id"],
        "view": f"/s/{session['id']}",
        "control": re.sub(r"^https?://[^/]+", "", session["control_url"]),
        "events": app.get(f"/api/sessions/{session['id']}/events?limit=2000")["events"],
    }


@pytest.fixture(scope="module")
def recordings(app, tmp_path_factory):
    """The shipped recordings, as `manage.py up` loads them; none are left for the tests after these."""
    app.manage("load_recordings", "-v", "0")
    yield
    app.manage("load_recordings", str(tmp_path_factory.mktemp("none")), "-v", "0")


def recorded(name: str) -> str:
    """The id of a shipped recording's session, which is derived from its content (playground.recordings.load)."""
    raw = (ROOT / f"playground/recordings/{name}.jsonl").read_bytes()
    return base64.urlsafe_b64encode(hashlib.sha256(raw).digest()[:16]).decode().rstrip("=")


def paste(page, text: str) -> None:
    """Put a text into the focused page's editor as a paste does."""
    page.locator("#editor .cm-content").click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(text)


def timeline(page) -> list[int]:
    """The numbers of the trials on the page, in order."""
    return [int(n) for n in page.locator("#timeline .trial").evaluate_all("nodes => nodes.map(n => n.dataset.trial)")]


def until(page, expression: str, seconds: float = 90) -> None:
    """Wait for a JavaScript expression. Playwright's wait_for_function evaluates it in the page once it is false, which
    the policy of our pages forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"never true: {expression}"
        page.wait_for_timeout(50)


def no_sideways_scroll(page) -> None:
    """What draws itself anew for another width, as a plot does, gets a few seconds for it."""
    over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    end = time.monotonic() + 60
    while (wide := page.evaluate(over)) > 0:
        assert time.monotonic() < end, f"the page is {wide} px wider than its window"
        page.wait_for_timeout(50)
