"""The report on the text of a raw kernel: the rules about Python and CUDA texts, and a second opinion.

`read` parses untrusted text. Python's parser can be made to crash, and a rule can be made slow, so the engine lets a
confined process do it (`TextReader`), which parses the text and never runs it.
"""

from __future__ import annotations

from collections.abc import Callable

from engine import sandbox
from engine.evaluate.integrity.findings import Finding, Report
from engine.evaluate.integrity.texts import opinion, static_cuda, static_python
from engine.sandbox import Sandbox, SandboxEnded
from engine.session.kernel_text import has_entry, no_entry

ENTRY = "engine.evaluate.integrity.texts.reading_main"
SECONDS = 20.0
MEMORY = 2 << 30


def read(source: str, kind: str, cls: str, entry: str = "") -> Report:
    """The report of a text that declares class `cls`, before anything ran. `kind`: python | cuda; `entry`: the name of
    the called class or function, if it is not a usual one."""
    report = Report(declared=cls)
    if kind == "cuda":
        report.add(*static_cuda.check(source))
        if not has_entry(source, "cuda", entry):
            report.add(Finding("no_entry", no_entry(source, "cuda", entry).evidence))
        if not static_cuda.has_kernel(source):
            report.library.append("no __global__ function in the text")
        report.named = static_cuda.kernel_names(source)
        return report
    findings, facts = static_python.check(source, cls, entry)
    report.add(*findings)
    report.library = list(dict.fromkeys(f"{n} (line {at})" for n, at in facts.contractions))[:12]
    report.named = facts.kernels[:20]
    report.kernels = [{"name": n, "where": "text", "gpu": n in facts.gpu} for n in facts.kernels[:20]]
    if facts.native and not facts.kernels:
        report.kernels.append({"name": "a native library", "where": "text", "gpu": False})
    return report


class TextReader:
    """A confined process that reads texts of one person; started with the first one. Not for several threads."""

    def __init__(self, *, local_user: bool = False, cancelled: Callable[[], bool] | None = None):
        self.local_user, self.cancelled = local_user, cancelled
        self._box: Sandbox | None = None

    def read(self, source: str, kind: str, cls: str, entry: str = "") -> Report:
        """As `read`, with the second opinion. A text that cannot be read is a finding. Raises SessionRefused if the
        sandbox is missing, and SandboxEnded("cancelled")."""
        try:
            if self._box is None or not self._box.alive:
                self.close()
                self._box = sandbox.take(preload=(ENTRY,), local_user=self.local_user, memory_bytes=MEMORY)
            message = {"entry": ENTRY, "source": source, "kind": kind, "cls": cls, "name": entry}
            answer = self._box.request(message, timeout=SECONDS, cancelled=self.cancelled)
            report = Report.from_json(answer["ok"])
        except KeyError:
            report = Report(declared=cls)
            report.add(Finding("hidden_code", "the text cannot be checked: reading it failed"))
        except SandboxEnded as e:
            if e.code == "cancelled":
                raise
            report = Report(declared=cls)
            code = "slow_start" if e.code in ("slow_start", "lost") else "hidden_code"
            report.add(Finding(code, f"the text cannot be checked: {e.reason}"))
        report.add(*opinion.ask(source))
        return report

    def close(self) -> None:
        if self._box is not None:
            self._box.close()
        self._box = None
