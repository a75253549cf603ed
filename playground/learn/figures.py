"""Figures of a lesson as data: every number comes from `sol` or a recording, and the page only draws.

A block `figure NAME KIND` has lines `key: value`; KIND is one of:

    roofline   work: layer, ..    sweep rows: layer 1024 = 16 64 256 1024      class: f16      gpus: h200, l40s
    waves      product: 1024 8192 8192    tiles: 128x256x64, 128x128x64        splits: 1, 4    gpus: h200
    bars       measured PyTorch: baseline("mlp_gelu", "f16")    predicted NAME: EXPR    limit NAME: EXPR
    trials     session: linear_div_gelu    class: f16      pane: roofline
    stop       session: linear_div_gelu    class: f16
    session    module: gate (or program: NAME)    recording: kernels_by_hand    class: tf32    trials: 4
               eps: 25%    window: 3    pane: trials

`session` starts a real session of a module or program block of the lesson; `recording` stands in for it where no engine
runs. `pane` is the pane of the session's page that is shown in the step.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dsl import ir
from dsl.printer import to_text
from engine.session.spec import BadSpec, SessionSpec
from playground.learn import facts, recorded
from playground.learn.writing import work
from playground.learn.writing.expressions import ExpressionError, Scope, read
from sol import budget
from sol.graph import OpGraph

DIGITS = 9  # of a size
MOST_POINTS = 24
READING = 3  # calls that reading a work of a sweep counts as
EPSILONS = (0.05, 0.1, 0.25, 0.5, 1.0)
WINDOWS = (1, 2, 3, 4, 6, 12)
PANES = ("trials", "history", "roofline", "breakdown", "result")  # of playground.sharing.pages
MOST_TRIALS = 12  # of a session that a step starts: a lesson takes minutes
Rows = list[tuple[str, str, int]]


class FigureError(ValueError):
    """A line of a figure is wrong: its number in the lesson, the fault and the fix."""

    def __init__(self, line: int, text: str, fix: str = ""):
        super().__init__(text)
        self.line, self.text, self.fix = line, text, fix


@dataclass(frozen=True)
class Module:
    """A PyTorch module of a lesson: text for a session, never run here."""

    text: str


def build(kind: str, name: str, rows: Rows, scope: Scope, texts: dict[str, str], line: int) -> dict[str, Any]:
    """{kind: "figure", figure, name, title, caption, ...}. `texts`: the texts of the lesson's work blocks, for sweeps.
    Raises FigureError."""
    if kind not in _BUILDERS:
        raise FigureError(line, f"There is no figure {kind!r}.", f"Use one of {', '.join(_BUILDERS)}.")
    fields = _Fields(rows, line)
    figure = {"kind": "figure", "figure": kind, "name": name}
    figure |= {"title": fields.text("title", ""), "caption": fields.text("caption", "")}
    figure |= _BUILDERS[kind](fields, scope, texts)
    fields.all_read()
    return figure


class _Fields:
    """The lines of a figure, by key; those with a label as `bar LABEL`."""

    def __init__(self, rows: Rows, line: int):
        self.rows, self.line, self.used = rows, line, set[str]()

    def text(self, key: str, default: str | None = None) -> str:
        for name, value, _ in self.rows:
            if name == key:
                self.used.add(name)
                return value
        if default is None:
            raise FigureError(self.line, f"The figure has no line `{key}`.", f"Add `{key}: ...`.")
        return default

    def list(self, key: str, default: str | None = None) -> list[str]:
        return [part.strip() for part in self.text(key, default).split(",") if part.strip()]

    def line_of(self, key: str) -> int:
        return next((line for name, _, line in self.rows if name == key), self.line)

    def labelled(self, *words: str) -> Rows:
        """(word LABEL, value, line) of each line whose key begins with one of these words and has a label."""
        rows = [row for row in self.rows if row[0].split(" ", 1)[0] in words and " " in row[0]]
        self.used.update(row[0] for row in rows)
        return rows

    def all_read(self) -> None:
        for name, _, line in self.rows:
            if name not in self.used:
                raise FigureError(line, f"This figure has no line `{name[:40]}`.", "See playground/lessons/README.md.")


def _spend(fields: _Fields, scope: Scope, calls: int) -> None:
    """Count work, before it is done, as calls of functions: the lists of a figure multiply."""
    try:
        scope.spend(calls)
    except ExpressionError as e:
        raise FigureError(fields.line, str(e)) from None


def _devices(fields: _Fields, scope: Scope, classes: list[str]) -> list[dict[str, Any]]:
    devices, names = [], fields.list("gpus", "h200, h100-pcie, a100-80gb, l40s, rtx4090")
    _spend(fields, scope, len(names) * len(classes))
    for name in names:
        try:
            hw = facts.gpu(name)
        except facts.FactError as e:
            raise FigureError(fields.line_of("gpus"), str(e)) from None
        peaks = {cls: hw.peak(cls) for cls in classes if cls in hw.peaks}
        row = {"name": name, "title": hw.title, "bandwidth": hw.bandwidth, "sms": hw.sms, "peaks": peaks}
        devices.append(row | {"ridges": {cls: hw.ridge(cls) for cls in peaks}})
    return devices


def _graphs(fields: _Fields, scope: Scope, texts: dict[str, str]) -> list[tuple[str, OpGraph]]:
    works: list[tuple[str, OpGraph]] = []
    for name in fields.list("work", ""):
        graph = scope.objects.get(name)
        if not isinstance(graph, OpGraph):
            raise FigureError(
                fields.line_of("work"), f"There is no work block {name!r}.", "Write one above the figure."
            )
        works.append((name, graph))
    for key, value, line in fields.labelled("sweep"):
        match = re.fullmatch(r"(\w{1,64})\s{1,20}(\d{1,20})\s{0,20}=\s{0,20}(\d[\d\s,]*)", value)
        sizes = re.findall(r"\d+", match[3])[:MOST_POINTS] if match else []
        if not match or match[1] not in texts or max(map(len, sizes)) > DIGITS:
            fix = "Write `sweep rows: layer 1024 = 16 64 256`: a work block, the size to change, its values."
            raise FigureError(line, "This sweep cannot be read.", fix)
        _spend(fields, scope, READING * len(sizes))
        for size in sizes:
            text = re.sub(rf"(?<![\w.]){match[2]}(?![\w.])", size, texts[match[1]])
            try:
                works.append((_label(int(size), key.split(" ", 1)[1]), work.read(text)))
            except work.WorkError as e:
                raise FigureError(line, f"With {size}: {e.text}", e.fix) from None
    if not works:
        raise FigureError(fields.line, "The roofline has no point.", "Add `work: NAME` or a sweep.")
    return works


def _label(size: int, name: str) -> str:
    """A size with its name: 1 row, 1,024 rows."""
    plural = size == 1 and re.fullmatch(r"[a-z]+[a-rt-z]s", name)
    return f"{size:,} {name[:-1] if plural else name}"


def _roofline(fields: _Fields, scope: Scope, texts: dict[str, str]) -> dict[str, Any]:
    classes = fields.list("class", "f16")
    devices = _devices(fields, scope, classes)
    points = []
    for label, graph in _graphs(fields, scope, texts):
        _spend(fields, scope, len(classes) * len(devices))
        by_class: dict[str, Any] = {}
        for cls in classes:
            for device in devices:
                if cls not in device["peaks"]:
                    continue
                try:
                    bound = facts.bound(graph, cls, device["name"])
                except facts.FactError as e:
                    raise FigureError(fields.line_of("class"), str(e)) from None
                row = by_class.setdefault(
                    cls, {"flops": bound.flops, "bytes": bound.bytes, "intensity": bound.intensity, "on": {}}
                )
                row["on"][device["name"]] = {"ms": bound.ms, "by": bound.bound_by}
        points.append({"label": label, "classes": by_class})
    return {"classes": classes, "gpus": devices, "points": points}


def _waves(fields: _Fields, scope: Scope, texts: dict[str, str]) -> dict[str, Any]:
    sizes = re.findall(r"\d+", fields.text("product"))
    if len(sizes) != 3 or max(map(len, sizes)) > DIGITS:
        raise FigureError(fields.line_of("product"), "A product has three sizes.", "Write `product: 1024 8192 8192`.")
    m, n, k = map(int, sizes)
    splits = [int(s) if re.fullmatch(rf"\d{{1,{DIGITS}}}", s) else 0 for s in fields.list("splits", "1")]
    tiles, cls = fields.list("tiles", "128x256x64"), fields.text("class", "f16")
    devices = _devices(fields, scope, [cls])
    _spend(fields, scope, len(devices) * len(tiles) * len(splits))
    cases = []
    for device in devices:
        for tile in tiles:
            for split in splits:
                try:
                    time = facts.tiled(m, n, k, tile, cls, split, device["name"])
                except (facts.FactError, ValueError) as e:
                    raise FigureError(fields.line_of("tiles"), str(e)) from None
                cases.append({
                    "gpu": device["name"], "tile": tile, "split": split, "tiles": time.tiles,
                    "units": time.tiles * split,
                    "waves": time.waves, "busy": time.busy, "ms": time.ms, "sms": device["sms"],
                })  # fmt: skip
    return {"m": m, "n": n, "k": k, "class": cls, "gpus": devices, "tiles": tiles, "splits": splits, "cases": cases}


def _bars(fields: _Fields, scope: Scope, texts: dict[str, str]) -> dict[str, Any]:
    bars = []
    for key, value, line in fields.labelled("measured", "predicted", "limit", "value"):
        what, label = key.split(" ", 1)
        try:
            bars.append({"label": label, "what": what, "value": read(value, scope).number()})
        except ExpressionError as e:
            raise FigureError(line, str(e)) from None
    if not bars:
        raise FigureError(fields.line, "The figure has no bar.", "Add `measured PyTorch: EXPRESSION`.")
    return {"unit": fields.text("unit", "ms"), "bars": bars}


def _trials(fields: _Fields, scope: Scope, texts: dict[str, str]) -> dict[str, Any]:
    name, classes = fields.text("session"), fields.list("class", "")
    try:
        view = recorded.view(name)
        rows = []
        for number, t in view.trials.items():
            if classes and t.cls not in classes:
                continue
            judged = t.judged or t.untimed
            row = {"number": number, "class": t.cls, "change": t.change, "by": t.by}
            row |= {"verdict": judged.verdict if judged else "failed", "text": judged.text if judged else ""}
            row |= {"ms": getattr(judged, "ms", None), "measured": getattr(judged, "kind", "") == "measured"}
            rows.append(row | {"counts": view.counts(t), "reason": t.failed.reason if t.failed else ""})
        used = sorted({row["class"] for row in rows})
        return {
            "session": name, "id": recorded.session_id(name), "trials": rows, "device": _device(view),
            "pane": _pane(fields),
            "limits": {cls: recorded.sol_limit(name, cls) for cls in used},
            "baselines": {cls: recorded.baseline(name, cls) for cls in used},
        }  # fmt: skip
    except recorded.RecordError as e:
        raise FigureError(fields.line_of("session"), str(e)) from None


def _device(view: Any) -> str:
    device = view.device or {}
    return str(device.get("title", "")) if isinstance(device, dict) else ""


def _stop(fields: _Fields, scope: Scope, texts: dict[str, str]) -> dict[str, Any]:
    name, cls = fields.text("session"), fields.text("class")
    try:
        session = recorded.session(name, cls)
        runs = []
        for eps in EPSILONS:
            for window in WINDOWS:
                run = budget.replay(session, eps, window)
                runs.append({
                    "eps": eps, "window": window, "trials": run.trials_run, "kept": run.speedup_kept, "ms": run.best_ms,
                    "efficiency": run.efficiency, "reason": run.reason,
                })  # fmt: skip
        times = [t.ms for t in session.trials]
        shared = {"session": name, "id": recorded.session_id(name), "class": cls, "times": times}
        return shared | {
            "limit": session.t_sol_ms, "baseline": session.baseline_ms, "epsilons": EPSILONS, "windows": WINDOWS,
            "runs": runs,
        }  # fmt: skip
    except recorded.RecordError as e:
        raise FigureError(fields.line_of("session"), str(e)) from None


def _pane(fields: _Fields) -> str:
    pane = fields.text("pane", PANES[0])
    if pane not in PANES:
        raise FigureError(fields.line_of("pane"), f"There is no pane {pane!r}.", f"Use one of {', '.join(PANES)}.")
    return pane


def _session(fields: _Fields, scope: Scope, texts: dict[str, str]) -> dict[str, Any]:
    """{request: the fields of POST /api/sessions, program: the name of a program block or "", recording, pane}."""
    kind = "program" if fields.text("program", "") else "module"
    name = fields.text(kind)
    source = scope.objects.get(name)
    if not isinstance(source, ir.Program if kind == "program" else Module):
        raise FigureError(fields.line_of(kind), f"There is no {kind} block {name!r}.", "Write one above the figure.")
    request: dict[str, Any] = {
        "title": fields.text("title"), "source": to_text(source) if kind == "program" else source.text,
        "source_kind": kind, "classes": fields.list("class", "tf32, f16"), "trials": _whole(fields, "trials", "4"),
        "window": _whole(fields, "window", "6"), "eps": _share(fields, "eps", "25%"),
    }  # fmt: skip
    try:
        SessionSpec(**request)
    except BadSpec as e:
        line = fields.line_of("class" if e.field == "classes" else e.field)
        raise FigureError(line, f"{e.field}: {e.message}.", e.fix) from None
    if request["trials"] > MOST_TRIALS:
        text = f"A session of a lesson has at most {MOST_TRIALS} trials."
        raise FigureError(fields.line_of("trials"), text, "Write for example `trials: 4`.")
    stand_in = fields.text("recording")
    try:
        view, recording = recorded.view(stand_in), recorded.session_id(stand_in)
    except recorded.RecordError as e:
        raise FigureError(fields.line_of("recording"), str(e)) from None
    return {
        "request": request, "program": name if kind == "program" else "", "pane": _pane(fields),
        "recording": {"id": recording, "device": _device(view)},
    }  # fmt: skip


def _whole(fields: _Fields, key: str, default: str) -> int:
    text = fields.text(key, default)
    if not re.fullmatch(r"\d{1,4}", text):
        raise FigureError(fields.line_of(key), f"`{text[:20]}` is no whole number.", f"Write `{key}: {default}`.")
    return int(text)


def _share(fields: _Fields, key: str, default: str) -> float:
    text = fields.text(key, default)
    if not re.fullmatch(r"\d{1,4}(\.\d{1,3})?\s*%", text):
        raise FigureError(fields.line_of(key), f"`{text[:20]}` is no share.", f"Write `{key}: {default}`.")
    return float(text.rstrip("% ")) / 100


_BUILDERS: dict[str, Callable[[_Fields, Scope, dict[str, str]], dict[str, Any]]] = {
    "roofline": _roofline, "waves": _waves, "bars": _bars, "trials": _trials, "stop": _stop,
    "session": _session,
}  # fmt: skip
