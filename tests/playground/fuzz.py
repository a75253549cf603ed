"""Random requests to a real daphne, valid ones, damaged ones and noise: no 500, and /healthz answers all the while.

    python -m tests.playground.fuzz --requests 20000 [--seed 7] [--json fuzz.json]

The requests come from the OpenAPI page and the resolver's routes, through hypothesis, with the seed that is printed. A
server failure that names its cause (503 with {error, fix} or the error page) is allowed; any other 5xx, and a
connection that ends without an answer, is a fault. The exit status is 0 if there is none and /healthz stayed under
200 ms.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import http.client
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.playground import request_table
from tests.playground.conftest import House

HEALTHY = 0.2  # seconds
EVERY = 0.1  # seconds between two looks at /healthz
METHODS = ("GET",) * 6 + ("POST",) * 6 + ("HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "FOO")


@dataclass
class Request:
    """One request as it goes over the wire."""

    method: str
    path: str
    headers: list[tuple[str, bytes]]
    body: bytes


@dataclass
class Report:
    """`statuses`: how many answers of each; `faults`: what must not happen; `healthz`: seconds of each look."""

    seed: int
    requests: int = 0
    statuses: Counter = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    healthz: list[float] = field(default_factory=list)
    sessions: int = 0

    def row(self) -> dict[str, Any]:
        ordered = sorted(self.healthz)
        return {
            "seed": self.seed, "requests": self.requests, "statuses": dict(sorted(self.statuses.items())),
            "faults": self.faults, "sessions": self.sessions, "healthz_looks": len(ordered),
            "healthz_median_ms": round(1e3 * ordered[len(ordered) // 2], 1) if ordered else None,
            "healthz_p99_ms": round(1e3 * ordered[int(len(ordered) * 0.99)], 1) if ordered else None,
            "healthz_over_limit": sum(s > HEALTHY for s in ordered),
            "healthz_worst_ms": round(1e3 * ordered[-1], 1) if ordered else None,
        }  # fmt: skip


# ---- the requests ----

ODD = (
    "",
    " ",
    "\0",
    "\ud800",
    "é",
    "\u202e",
    "\x1b[2J",
    "'; --",
    "<script>",
    "%00",
    "%s%n",
    "../../etc/passwd",
    "http://[",
    "9" * 400,
)
texts = st.one_of(
    st.sampled_from(ODD), st.text(max_size=40), st.sampled_from((request_table.PROGRAM, "class Model: ...")),
    st.builds(lambda unit, n: unit * n, st.sampled_from(("a", "(", "[", '"', " ", "\n", "program ", "{")),
              st.sampled_from((1, 300, 5000, 70_000))),
)  # fmt: skip
numbers = st.one_of(
    st.integers(-2, 100), st.sampled_from((2**31, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400, 1e308, 0.25)),
    st.floats(),
)  # fmt: skip
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)), max_leaves=8,
)  # fmt: skip


def deep(levels: int) -> bytes:
    return b'{"text": ' + b"[" * levels + b"]" * levels + b"}"


noise = st.one_of(
    st.binary(max_size=60),
    st.sampled_from((b"", b"{", b"null", b"[]", b"\xff\xfe", b'"\\ud800"', b"NaN", b"9" * 5000)),
    st.sampled_from((3, 17, 900, 100_000)).map(deep),
    st.sampled_from((100_000, 600_000, 3_000_000)).map(lambda n: b'{"text": "' + b"x" * n + b'"}'),
)  # fmt: skip
header_values = st.one_of(
    st.sampled_from((b"", b"null", b"http://[", b"http://evil.example", b"\xff", b"a" * 3000, b"cross-site", b"*/*",
    b"bytes=0-1", b"bytes=9-1", b"gzip", b"W/\"x\"", b'"' + b"0" * 64 + b'"', b"Thu, 99 Xxx 9999 99:99:99 GMT", b"-1")),
    st.binary(max_size=20).map(lambda b: bytes(c for c in b if c > 32 and c != 127)),
)  # fmt: skip
HEADERS = (
    "Origin", "Sec-Fetch-Site", "If-None-Match", "If-Modified-Since", "Range", "Accept-Encoding", "Accept-Language",
    "X-Control-Token", "X-Forwarded-Proto", "Cookie", "Referer", "X-HTTP-Method-Override", "Accept", "Authorization",
)  # fmt: skip
TYPES = (
    "application/json", "text/plain", "multipart/form-data", "multipart/form-data; boundary=x",
    "application/json; charset=é", "application/json; charset=utf-7", "application/x-www-form-urlencoded",
    "", "a" * 300,
)  # fmt: skip


# Values that are usually accepted, by the name of the field.
USUAL = {
    "text": [request_table.PROGRAM, "program p"], "source": ["class Model: ..."], "source_kind": ["module"],
    "title": ["a title"], "strategy": ["planner"], "device": ["auto", "modelled:h200"], "options": [{}],
    "classes": [["f16"]], "trials": [3], "eps": [0.1], "window": [2], "seed": [7], "line": [1, 3], "col": [1, 9],
    "kind": ["pause", "resume", "budget", "try"], "data": [{}, {"trials": 9}, {"program": request_table.PROGRAM}],
}  # fmt: skip


class Forms:
    """Strategies from the API's description. `names`: real names to fill into paths and bodies."""

    def __init__(self, schema: dict, names: list[dict[str, str]]):
        self.schema, self.names = schema, names
        html = (
            "/", "/s/ID", "/s/ID/fork", "/s/ID/export", "/c/TOKEN", "/gallery", "/language", "/language/E204",
            "/healthz", "/robots.txt", "/favicon.ico", "/static/js/page.js", "/api/docs", "/api/openapi.json",
        )  # fmt: skip
        self.pages = [(path, {}, None) for path in html]
        self.operations = []
        for path, methods in schema["paths"].items():
            for method, operation in methods.items():
                form = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
                known = {p["name"]: p["schema"] for p in operation.get("parameters", ()) if p["in"] == "query"}
                for parameter, word in (("session_id", "ID"), ("sha256", "BLOB")):
                    path = path.replace(f"{{{parameter}}}", word)
                self.operations.append((path, known, form, method.upper()))

    def value(self, form: dict) -> st.SearchStrategy:
        """A value that fits a schema."""
        if "$ref" in form:
            return self.value(self.schema["components"]["schemas"][form["$ref"].rpartition("/")[2]])
        for several in ("anyOf", "oneOf", "allOf"):
            if several in form:
                return st.one_of([self.value(f) for f in form[several]])
        if "enum" in form or "const" in form:
            return st.sampled_from(form.get("enum", [form.get("const")]))
        kind = form.get("type")
        if kind == "object" and form.get("properties"):
            needed = {n: self.value(f) for n, f in form["properties"].items() if n in form.get("required", ())}
            others = {n: self.value(f) for n, f in form["properties"].items() if n not in needed}
            return st.fixed_dictionaries(needed, optional=others)
        if kind == "integer":
            return st.integers(form.get("minimum", 0), form.get("maximum", 50))
        simple = {"string": texts, "number": st.floats(0, 1), "boolean": st.booleans(), "null": st.none()}
        if kind == "array":
            return st.lists(self.value(form["items"]) if isinstance(form.get("items"), dict) else anything, max_size=3)
        return simple.get(kind, anything)

    @st.composite
    @staticmethod
    def requests(draw, self) -> Request:
        random_path = st.text(max_size=60).map(lambda t: "/" + quote(t, safe="/%", errors="replace"))
        if draw(st.integers(0, 9)) == 0:
            path, known, form, method = draw(random_path), {}, None, draw(st.sampled_from(METHODS))
        elif draw(st.booleans()):
            path, known, form, method = draw(st.sampled_from(self.operations))
        else:
            path, known, form = draw(st.sampled_from(self.pages))
            method = "GET"
        if draw(st.integers(0, 7)) == 0:
            method = draw(st.sampled_from(METHODS))
        names = draw(st.sampled_from(self.names))
        for word in ("ID", "TOKEN", "BLOB"):
            odd = draw(st.integers(0, 5)) == 0
            name = quote(draw(texts)[:2000], safe="", errors="replace") if odd else names[word]
            path = path.replace(word, name)
        pairs = []
        for name in [*known, "trial", "x"]:
            if draw(st.integers(0, 2)) == 0:
                value = draw(st.one_of(texts, numbers.map(str)))
                pairs.append(f"{name}={quote(value[:6000], safe='', errors='replace')}")
        path += "?" + "&".join(pairs) if pairs else ""
        body = b""
        if form is not None or method == "POST":
            body = self._body(draw, form, names)
        kind = "application/json" if draw(st.integers(0, 7)) else draw(st.sampled_from(TYPES))
        headers = [("X-Forwarded-For", f"10.0.{draw(st.integers(0, 255))}.{draw(st.integers(1, 250))}".encode())]
        headers += [("Content-Type", kind.encode("latin-1", "replace"))] if body or kind else []
        for _ in range(draw(st.integers(0, 2))):
            headers.append((draw(st.sampled_from(HEADERS)), draw(header_values)))
        if draw(st.integers(0, 30)) == 0:
            headers.append(("Host", draw(header_values)))
        return Request(method, path, headers, body)

    def _body(self, draw, form: dict | None, names: dict[str, str]) -> bytes:
        """A body that is usual, one that fits the form, one with a damaged field, or noise."""
        which = draw(st.integers(0, 5))
        if form is None or which == 0:
            return draw(noise)
        value = draw(self.value(form))
        if which > 3:
            name = form.get("$ref", "").rpartition("/")[2]
            properties = self.schema["components"]["schemas"][name] if name else form
            needed = set(properties.get("required", ()))
            fields = [
                f for f in properties.get("properties", ()) if f in USUAL and (f in needed or draw(st.booleans()))
            ]
            value = {f: draw(st.sampled_from(USUAL[f])) for f in fields}
        if isinstance(value, dict):
            if "control_token" in value or value.get("kind") in USUAL["kind"]:
                value["control_token"] = names["TOKEN"]
            if which in (1, 2) and value:
                value[draw(st.sampled_from(sorted(value)))] = draw(anything)
            if which == 3:
                value[draw(texts)[:100]] = draw(anything)
        return json.dumps(value).encode()


# ---- the server's answers ----


def send(port: int, request: Request, timeout: float = 60) -> tuple[int, bytes, dict[str, str]]:
    """(status, body, headers). Raises OSError or HTTPException for a connection without an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        own_host = any(name == "Host" for name, _ in request.headers)
        connection.putrequest(request.method, request.path, skip_host=own_host, skip_accept_encoding=True)
        for name, value in request.headers:
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(request.body)))
        connection.putheader("Connection", "close")
        connection.endheaders()
        with contextlib.suppress(OSError):  # the server may answer before it has read all
            connection.send(request.body)
        reply = connection.getresponse()
        return reply.status, reply.read(), dict(reply.getheaders())
    finally:
        connection.close()


def fault_of(request: Request, status: int, body: bytes) -> str | None:
    """What is wrong with an answer; None if nothing."""
    if status < 500:
        return None
    shown = f"{request.method} {request.path[:120]} {request.headers} {request.body[:200]!r} -> {status} {body[:300]!r}"
    if status != 503:
        return shown
    if request.method == "HEAD" or (b'"error"' in body and b'"fix"' in body) or b"Not now" in body:
        return None
    return f"without a cause: {shown}"


class Looks:
    """Looks at /healthz until it is stopped; `seconds`: of each look. It does so from a process of its own: here it
    would wait for what draws the requests."""

    def __init__(self, port: int):
        spawn = multiprocessing.get_context("spawn")
        self.seconds, self.faults = [], []
        self._way, theirs = spawn.Pipe()
        self._process = spawn.Process(target=look, args=(port, theirs), daemon=True)

    def start(self) -> None:
        self._process.start()

    def stop(self) -> None:
        self._way.send("end")
        self.seconds, self.faults = self._way.recv()
        self._process.join()


def look(port: int, way: Connection) -> None:
    """Look at /healthz until something comes; then answer (seconds of each look, faults)."""
    gc.freeze()
    seconds, faults = [], []
    while not way.poll(EVERY):
        began = time.monotonic()
        try:
            status, _, _ = send(port, Request("GET", "/healthz", [], b""))
            if status != 200:
                faults.append(f"/healthz -> {status}")
        except (OSError, http.client.HTTPException) as e:
            faults.append(f"/healthz: {type(e).__name__}: {e}")
        seconds.append(time.monotonic() - began)
    way.recv()
    way.send((seconds, faults))


def fuzz(house: House, requests: int, number: int) -> Report:
    """So many requests to a running server. `number`: the seed."""
    report = Report(number)
    names = [{"ID": "x" * 22, "TOKEN": "Yx" * 16, "BLOB": "0" * 64}]
    for n in range(4):
        session = house.submit(f"pace {n}")
        names.append({"ID": session["id"], "TOKEN": session["control_token"], "BLOB": "0" * 64})
    forms = Forms(house.get("/api/openapi.json"), names)
    looks = Looks(house.port)
    looks.start()

    @seed(number)
    @settings(max_examples=requests, database=None, phases=[Phase.generate], deadline=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(Forms.requests(forms))
    def one(request: Request) -> None:
        if report.requests >= requests:
            return
        report.requests += 1
        try:
            status, body, _ = send(house.port, request)
        except (OSError, http.client.HTTPException) as e:
            report.faults.append(f"{request.method} {request.path[:120]} {request.headers}: {type(e).__name__}: {e}")
            return
        report.statuses[status] += 1
        if wrong := fault_of(request, status, body):
            report.faults.append(wrong)

    round_ = 0
    while report.requests < requests and round_ < 50:  # hypothesis may end a run before it has drawn so many
        one()
        round_ += 1
        one = seed(number + round_)(one)
    looks.stop()
    report.healthz, report.faults = looks.seconds, report.faults + looks.faults
    report.sessions = house.get("/healthz")["queued"]
    return report


def server(folder: Path) -> House:
    """A server as `make run` starts it, which believes X-Forwarded-For, with room for many sessions."""
    many = {"UCUTLASS_QUEUE": "1000000", "UCUTLASS_QUEUE_PER_ADDRESS": "1000"}
    house = House(folder, UCUTLASS_TRUST_PROXY="1", UCUTLASS_DEBUG="0", **many)
    house.manage("collectstatic", "--no-input", "-v", "0")
    house.web()
    return house


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.playground.fuzz")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=None, help="drawn at random if omitted; printed")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    number = random.SystemRandom().randrange(2**32) if args.seed is None else args.seed
    print(f"seed {number}", flush=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        house = server(Path(folder))
        try:
            row = fuzz(house, args.requests, number).row()
        finally:
            house.close()
    if args.json:
        args.json.write_text(json.dumps(row, indent=1) + "\n")
    print(json.dumps(row, indent=1))
    return 1 if row["faults"] or row["healthz_worst_ms"] > 1e3 * HEALTHY else 0


if __name__ == "__main__":
    sys.exit(main())
