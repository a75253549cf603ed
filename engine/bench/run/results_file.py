"""The results file of a bench: {about, problems: {module: {id, baselines, limits, trials, ..}}}, report and state.

A module in regions has its trials in its regions' rows, and itself `composed`: class -> what a trial has, of the module
as a whole with the regions' best programs in it (engine.bench.run.composing).

A baseline is keyed by the module's text (which fixes its shapes), PyTorch's and Triton's versions, the driver and the
GPU, as engine.evaluate.reference.baseline_cache does: one that was taken elsewhere is taken again, never mixed in.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

from engine import atomic_write
from engine.bench.run import shards
from engine.bench.run.judge import judge
from engine.evaluate.reference.baseline_cache import key
from engine.suite.cases import PROBLEMS


class Book:
    """Written whole after each change. Who changes a row beside the writer holds `lock`.

    `machine`: (the GPU's name, the driver), once known; without it every baseline counts as taken elsewhere.
    Raises shards.BadResults of a file that holds something else: going on would write over it.
    """

    def __init__(self, path: Path | None):
        self.path, self.about, self.problems = path, {}, {}
        self.lock = threading.Lock()
        self.machine: tuple[str, str | None] | None = None
        if path is not None and path.exists() and path.stat().st_size:
            held = shards.read(path)
            self.about, self.problems = held["about"], held["problems"]

    def problem(self, module: str, pid: str) -> dict:
        with self.lock:
            return self.problems.setdefault(
                module, {"id": pid, "baselines": {}, "limits": {}, "trials": [], "refused": ""}
            )

    def write(self) -> None:
        if self.path is None:
            return
        with self.lock:
            atomic_write.write_results(self.path, {"about": self.about, "problems": self.problems})

    def tried(self, row: dict, trial: dict) -> None:
        with self.lock:
            row["trials"].append(trial)
            judge(row)
            self._changed(row)

    def composed(self, module: str, told: dict) -> None:
        """A module in regions as a whole, in the class of `told`, in the place of an earlier composition."""
        with self.lock:
            row = self.problems[module]
            row.setdefault("composed", {})[told["class"]] = told
            judge(row)
            self._changed(row)

    def _changed(self, row: dict) -> None:
        """So that `merge` knows the newer of two accounts of a problem."""
        row["revision"] = row.get("revision", 0) + 1

    def spent(self, module: str, seconds: dict[str, float]) -> None:
        """Wall seconds of a step of a module, the last time that it was taken."""
        with self.lock:
            row = self.problems[module]
            row.setdefault("spent", {}).update({k: round(v, 2) for k, v in seconds.items()})
            self._changed(row)

    # ---- baselines ----

    def keep(self, module: str, found: dict[str, dict]) -> None:
        """Baselines as the child timed them, or their errors."""
        with self.lock:
            row = self.problems[module]
            for name, told in found.items():
                row["baselines"][name] = told | {"key": self._key(module, name)}
            judge(row)
            self._changed(row)

    def missing(self, module: str, names: Iterable[str]) -> list[str]:
        """Those of `names` that are still to be timed here. What failed here fails again, so it is not missing."""
        with self.lock:
            held = self.problems.get(module, {}).get("baselines", {})
            return [n for n in names if held.get(n, {}).get("key") != self._key(module, n)]

    def _key(self, module: str, name: str) -> str | None:
        if self.machine is None:
            return "unknown"
        file, _, _ = module.partition("#")
        region = self.problems.get(module, {}).get("region", {})
        text = (PROBLEMS / f"{file}.py").read_text(encoding="utf-8")
        return key(text, " ".join(region.get("ops", ())), name, *self.machine)
