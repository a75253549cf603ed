"""100 random kills, hangs and corruptions over a session of 50 trials: every trial is proposed once and ends once,
with its result or the reason, an idle worker's death is not even noticed, and no process and no file is left behind.

The workers are real processes behind the engine's own ends of the pipes (CuteBuilder and its cache, Worker, Sandbox);
only their work is short. The faults are real: SIGKILL, SIGSTOP, os._exit, a reply cut off, no JSON, two replies, an
endless one, and the loss of the engine itself in mid-session, which another takes up.
"""

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter

from dsl.lower import Source
from engine.build import cute
from engine.build.cache import Cache
from engine.build.cute import CuteBuilder
from engine.build.nvcc import BuildError
from engine.devices import TrialError
from engine.evaluate.candidate.worker import Worker
from engine.sandbox import Sandbox, SandboxEnded, tree
from engine.session import events
from engine.session.runner import run
from tests.engine.counting import CountingDevice, spec

TRIALS, FAULTS, SEED = 50, 100, 4
PATIENCE = 3.0  # seconds in which a child must answer; a busy machine starts one in less
WORKER = """
import os, sys, time
from engine.jsonprocess import serve

def work(request):
    how = (request.get("how") or open(request["path"]).read()).split("#")[-1]
    if how == "exit": os._exit(7)
    if how == "abort": os.abort()
    if how == "hang": time.sleep(600)
    if how == "truncated": os.write(OUT, b'{"resources": ['); os._exit(0)
    if how == "no json": os.write(OUT, b"\\x00\\xff nonsense\\n")
    if how == "a list": os.write(OUT, b"[1, 2]\\n")
    if how == "endless": [os.write(OUT, b"x" * 65536) for _ in range(300)]
    if how == "twice": os.write(OUT, b'{"resources": [], "objects": [], "cached": false}\\n')
    if how == "daemon" and os.fork() == 0: time.sleep(600)
    if how == "daemon": os._exit(1)
    return {"resources": [], "objects": [], "cached": False}

OUT = os.dup(1)
serve({"warm": lambda r: {"pid": os.getpid()}, "build": work, "time": work})
"""
AT_WORK = ("exit", "abort", "hang", "truncated", "no json", "a list", "endless", "twice", "daemon")
IDLE = 9 * (signal.SIGKILL,) + (signal.SIGSTOP,)
ANY = {"entry": "engine.trace.load"}  # a module without `serve`: a child that lives answers with an internal error


def below() -> set[int]:
    return {p for p in tree.descendants(os.getpid()) if p != os.getpid() and tree.exists(p)}


class Faulty(CountingDevice):
    """Builds, validates and measures in three children, and is hit by a fault wherever the seed says."""

    def __init__(self, folder, rng, done):
        super().__init__()
        self.rng, self.done, self.hit, self.owed = rng, done, {}, set()
        command = [sys.executable, "-c", WORKER]
        self.builder = CuteBuilder(Cache(folder), command=command)
        self.worker = Worker(device="cpu", command=command)
        self.box = None

    def close(self):
        super().close()
        self.builder.close()
        self.worker.close()
        if self.box is not None:
            self.box.close()

    def _fault(self, trial, kind, deadly=True):
        self.done[kind] += 1
        if deadly:
            self.hit[trial] = kind

    def _idle(self, trial, process):
        """Before a step: a signal to a child that nobody asks anything just now."""
        if process is not None and tree.exists(process) and self.rng.random() < 0.9:
            number = self.rng.choice(IDLE)
            os.kill(process, number)
            self._fault(trial, f"idle {number.name}", deadly=number == signal.SIGSTOP)
            if number == signal.SIGKILL:
                while tree.exists(process):
                    time.sleep(0.002)

    def _how(self, trial, pid):
        how = ""
        if self.rng.random() < 0.25:  # each in turn, so that none is left out
            how = AT_WORK[sum(self.done[h] for h in AT_WORK) % len(AT_WORK)]
        if how:
            self._fault(trial, how, deadly=how != "twice")
        elif pid in self.owed:  # the second of two replies is met by the next request, and is not taken for its answer
            self.hit[trial] = "twice"
        return how

    def _owes(self, how, pid):
        if how == "twice":
            self.owed.add(pid)

    def build(self, candidate):
        self._ask("compile", candidate)
        if self.worker.alive and self.rng.random() < 0.8:
            os.kill(self.worker._process.pid, signal.SIGKILL)
            self._fault(candidate.trial, "idle worker", deadly=False)
            self.worker._process._process.wait()
            self.worker.start()
        if self.builder.pid:
            self._idle(candidate.trial, self.builder.pid)
        how = self._how(candidate.trial, self.builder.pid)
        text = f"# {candidate.trial} #{how}"
        try:
            built = self.builder.build(Source("cute", "python", text, text, "uc_0", ()), seconds=PATIENCE)
        except BuildError as e:
            raise TrialError("compile", e.code, e.reason) from None
        assert built.path.read_text() == text
        self._owes(how, self.builder.pid)  # known only now: the child may have been started for this build
        return events.TrialCompiled(candidate.trial, candidate.backend, "built", built.seconds)

    def validate(self, candidate):
        if self.box is not None and self.box.alive and self.rng.random() < 0.35:
            os.kill(self.box._process.pid, signal.SIGKILL)
            self._fault(candidate.trial, "idle sandbox", deadly=False)
            self.box._process.wait()
        if self.box is None or not self.box.alive:
            if self.box is not None:
                self.box.close()
            self.box = Sandbox(preload=(), local_user=True).start()
        try:
            self.box.fork(timeout=PATIENCE)
            inner = {tree.inner_pid(p): p for p in tree.descendants(self.box._process.pid, self.box._uid)}
            if self.rng.random() < 0.3:
                number = self.rng.choice(IDLE)
                self._fault(candidate.trial, f"sandbox {number.name}")
                os.kill(inner[self.box._inner], number)
            answer = self.box.request(ANY, timeout=PATIENCE)
            self.box.reap()  # the first process goes on, also where its copy was killed
        except SandboxEnded as e:
            self.box.close()
            raise TrialError("validate", e.code, e.reason) from None
        if "ended" in answer:
            raise TrialError("validate", "crashed", f"it ended with status {answer['ended']}")
        assert answer["error"]["code"] == "internal"
        return super().validate(candidate)

    def measure(self, candidate, baseline):
        if not self.worker.alive:
            self.worker.start()
        else:
            self._idle(candidate.trial, self.worker._process.pid)
            self.worker.start()
        pid = self.worker._process.pid
        how = self._how(candidate.trial, pid)
        self.worker.ask("measure", "time", timeout=PATIENCE, how="#" + how)
        self._owes(how, pid)
        return super().measure(candidate, baseline)


def test_no_trial_is_lost_none_is_repeated_and_nothing_is_left_behind(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(cute.toolchain.Toolchain, "missing", lambda self, *names: [])
    rng, done, hit = random.Random(SEED), Counter(), {}
    before, open_before = below(), len(os.listdir("/proc/self/fd"))
    log, blobs = [], {}
    losses = sorted(rng.sample(range(60, 250), 3))  # of the engine: after so many events
    ended = False
    while not ended:
        device = Faulty(tmp_path / "cache", rng, done)
        history = [(i + 1, e) for i, e in enumerate(log)]
        session = run(spec(trials=TRIALS, window=10 * TRIALS), device=device, history=history,
                      read_blob=blobs.__getitem__)  # fmt: skip
        for emitted in session:
            log.append(emitted.event)
            blobs |= emitted.blobs
            if losses and len(log) >= losses[0]:
                losses.pop(0)
                done["the engine"] += 1
                session.close()
                break
        hit |= device.hit
        ended = isinstance(log[-1], events.SessionEnded)

    assert log[-1].state == "done" and sum(done.values()) >= FAULTS, done
    assert set(AT_WORK) < set(done)
    proposed = [e.trial for e in log if isinstance(e, events.TrialProposed)]
    assert proposed == list(range(1, TRIALS + 1))
    ends = {e.trial: e for e in log if isinstance(e, events.TrialJudged | events.TrialFailed)}
    assert list(ends) == proposed and log[-1].trials == TRIALS
    for kind in (events.TrialCompiled, events.TrialValidated, events.TrialMeasured, events.TrialJudged):
        of_kind = [e.trial for e in log if isinstance(e, kind)]
        assert len(of_kind) == len(set(of_kind))
    failed = {n: e for n, e in ends.items() if isinstance(e, events.TrialFailed)}
    assert not [e for e in failed.values() if e.code == "engine_error"]
    unhit = [e for n, e in failed.items() if n not in hit]
    assert not unhit, f"trials that nothing hit have failed: {unhit}"
    assert len(failed) >= 15 and len(ends) - len(failed) >= 8

    end = time.monotonic() + 60
    while time.monotonic() < end and below() - before:
        time.sleep(0.05)
    assert not below() - before
    assert not list((tmp_path / "tmp").iterdir())
    assert not [p for p in (tmp_path / "cache").rglob("*") if ".part" in p.name or p.parent.name == "modules"]
    assert len(os.listdir("/proc/self/fd")) <= open_before + 2
