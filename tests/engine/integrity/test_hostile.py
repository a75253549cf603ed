"""Sixty and some texts that want out, or want the engine down: nothing of them is left outside of their sandbox, each
ends, and an honest candidate is verified again and again in the meantime, by the same engine.
"""

import os
import re
import threading
import time

import pytest

pytest.importorskip("torch")

from engine.evaluate.integrity import verify
from engine.sandbox import Sandbox, tree
from tests.engine.integrity import zoo

FILES = sorted((zoo.HERE / "hostile").glob("*.py"))
MARK = "ucutlass-was-here"
SECONDS = 2.0  # for loading, and for a call
PAUSE = 2.0  # seconds between two verifications of the honest candidate
LANES = 2
FOLDERS = ("/", "/tmp", "/var/tmp", "/dev/shm", "/run", os.getcwd(), os.path.expanduser("~"), str(zoo.HERE.parents[2]))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def below() -> set[int]:
    return {p for p in tree.descendants(os.getpid()) if p != os.getpid() and tree.exists(p)}


class Honest(threading.Thread):
    """Verifies an honest candidate until it is told to stop."""

    def __init__(self, graph):
        super().__init__(daemon=True)
        self.graph, self.stop, self.reports, self.error = graph, threading.Event(), [], None

    def run(self):
        text = (zoo.HERE / "honest" / "softmax_c.py").read_text()
        shared = verify.Shared(memory_bytes=2 << 30)
        try:
            with verify.Verifier(zoo.module("softmax"), graph=self.graph, shared=shared) as v:
                while not self.stop.wait(PAUSE):
                    self.reports.append(v.verify(text))
        except Exception as e:
            self.error = e
        finally:
            shared.close()


def judge(files, graph, reports, seconds=SECONDS):
    shared = verify.Shared(memory_bytes=3 << 29)
    limits = {"call_seconds": seconds, "open_seconds": seconds}
    try:
        with verify.Verifier(zoo.module("softmax"), graph=graph, shared=shared, **limits) as v:
            for path in files:
                reports[path.stem] = v.verify(path.read_text())
    finally:
        shared.close()


def problems(path, report):
    """What is not as it should be with one file's report."""
    findings = [f"{f.code}: {f.sentence}" for f in report.findings]
    expected = re.search(r"^# expect: (.+)$", path.read_text(), re.MULTILINE)
    if report.accepted:
        yield path.stem, "accepted", findings
    if any("LEAK" in t for t in findings):
        yield path.stem, "a leak", findings
    if not all(t.isprintable() and len(t) < 1500 for t in findings):
        yield path.stem, "a report that is no line of text", findings
    if expected and not set(expected[1].split()) & report.codes:
        yield path.stem, f"expected {expected[1]}", findings


def test_nothing_gets_out_everything_ends_and_the_engine_keeps_serving(monkeypatch):
    if Sandbox.strength() != "full":
        pytest.skip(Sandbox.strength())
    assert len(FILES) >= 60
    monkeypatch.setenv("UCUTLASS_TEST_SECRET", "sk-secret")
    with verify.Verifier(zoo.module("softmax")) as v:
        graph = v.graph
    before, open_before = below(), descriptors()
    honest, reports = Honest(graph), {}
    honest.start()
    lanes = [threading.Thread(target=judge, args=(FILES[i::LANES], graph, reports)) for i in range(LANES)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    assert set(reports) == {p.stem for p in FILES}, "a lane was lost"
    late = [p for p in FILES if "time_limit" in reports[p.stem].codes and list(problems(p, reports[p.stem]))]
    judge(late, graph, reports, seconds=10 * SECONDS)  # a busy machine is slow: each has its time once
    honest.stop.set()
    honest.join()

    assert not [problem for path in FILES for problem in problems(path, reports[path.stem])]
    assert honest.error is None
    assert len(honest.reports) >= 3
    assert not [(r.verdict, r.findings) for r in honest.reports if r.verdict != "clean"]

    end = time.monotonic() + 60
    while time.monotonic() < end and below() - before:
        time.sleep(0.05)
    assert not below() - before, "a process was left behind"
    assert not [f for f in FOLDERS if os.path.exists(os.path.join(f, MARK))]
    assert descriptors() <= open_before + 2
