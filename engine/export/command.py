"""`python -m engine export WHAT --out DIR|x.zip|x.py|x.ipynb`: a program, a session's module or a module as a package.

This is the terminal's side: it reads files and, for a module, traces it and asks the planner for programs. The web
process uses the rest of this room and never imports this.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from dsl.printer import to_text
from engine.export import Exported, ExportError, forms, history, package, write
from engine.export.composition import Placed, Whole
from engine.session import recording

PROBLEMS = Path(__file__).resolve().parents[1] / "problems"
_MODULE = re.compile(r"\s*# module: (\w+)\s")


def run(
    what: str, out: Path, module: str | None = None, trial: int | None = None, classes: tuple[str, ...] = (),
    alone: bool = False,
) -> str:  # fmt: skip
    """Write the export and say what it holds, in one line. `alone`: a trial's program without the rest of its module.
    Raises ExportError for whatever cannot be."""
    path = Path(what)
    if path.suffix == ".jsonl":
        try:
            recorded = recording.read(path)
        except (OSError, UnicodeDecodeError, recording.RecordingError) as e:
            raise ExportError(f"cannot read {what}: {e}") from None
        of = history.of_trial if alone else history.of_session
        exported = of(((r.kind, r.data) for r in recorded.rows), recorded.blobs.get, trial)
    elif path.suffix == ".ucutlass":
        exported = of_program(_text(path), _text(Path(module)) if module else None)
    elif alone:
        raise ExportError("--alone takes the program of a trial, so it needs a recording (.jsonl)")
    else:
        source = path if path.exists() else PROBLEMS / f"{what}.py"
        exported = of_module(_text(source), classes, source.stem)
    if out.suffix in forms.SINGLE:
        out.write_text(forms.SINGLE[out.suffix](exported), encoding="utf-8")
        return f"{out}: {'a notebook' if out.suffix == '.ipynb' else 'class ModelNew'}, {_words(exported)}"
    files = forms.files(exported)
    write(files, out)
    return f"{out}: {len(files)} files, {_words(exported)}"


def _words(exported: Exported | Whole) -> str:
    if isinstance(exported, Whole):
        return f"the whole module: {forms.words(exported)}"
    with_ = "with its module" if exported.module is not None else "without a module"
    if not exported.region:
        return f"{with_}, class {exported.cls}"
    alone = f"{package.region_words(exported.region)} alone, without the rest of the module"
    return f"{alone}, class {exported.cls}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        raise ExportError(f"cannot read {path}: {getattr(e, 'strerror', None) or 'it is not UTF-8 text'}") from None


def of_program(text: str, module: str | None = None) -> Exported:
    """A program by itself. A text that begins with `# module: NAME` brings that problem's module."""
    header = _MODULE.match(text)
    if module is None and header and (PROBLEMS / f"{header[1]}.py").exists():
        module = _text(PROBLEMS / f"{header[1]}.py")
    return history.of_program(text, module)


def of_module(text: str, classes: tuple[str, ...] = (), title: str = "") -> Whole:
    """A module with the programs that the planner begins with, in the first of `classes` (tf32, f16) that has some."""
    from engine.devices import Problem, SessionRefused
    from engine.strategies.api import State
    from engine.strategies.planner.memory import Memory
    from engine.strategies.planner.planner import Planner
    from engine.strategies.problem import prepare
    from engine.trace import trace
    from sol import hardware

    hw = hardware.load("h200")
    try:
        traced = trace(text, local_user=True)
        problem = prepare(Problem(text, "module", traced.graph), classes or ("tf32", "f16"), hw)
        first = Planner(problem, Memory()).next(State())
    except SessionRefused as e:
        raise ExportError(e.words) from None
    if first is None:
        raise ExportError("the planner has no program for this module")
    placed = []
    for part in problem.of(first.cls):
        own = part.number == problem.region(first.text)
        candidate = first.candidate if own else problem.candidate(to_text(part.base))
        inputs, outputs = problem.bind(candidate.text)
        region = history.region_of(vars(problem.covered), part.number) if part.number else None
        program = Exported(candidate.text, candidate.cls, candidate.backend, region=region, sms=hw.sms)
        ops = problem.ops(part.number) or tuple(op.name for op in problem.graph.live)
        placed.append(Placed(program, ops, tuple(map(vars, inputs)), tuple(b.tensor for b in outputs), part.number))
    values = traced.has.get("values") or "null"
    return Whole(title or traced.title, first.cls, text, problem.graph, tuple(placed), _values(values))


def _values(text: str) -> tuple | None:
    """The arguments that are no tensors, as the tracer gives them; None if it does not."""
    try:
        values = json.loads(text)
    except ValueError:
        return None
    return tuple(values) if isinstance(values, list) else None
