"""`python -m engine export WHAT --out DIR|x.zip`: a program, a recording's trial or a module as a package.

This is the terminal's side: it reads files and, for a module, traces it and asks the planner for a program. The web
process uses the rest of this room and never imports this.
"""

from __future__ import annotations

import re
from pathlib import Path

from engine.export import Exported, ExportError, history, model_new, notebook, package, write
from engine.session import recording

PROBLEMS = Path(__file__).resolve().parents[1] / "problems"
SINGLE = {".py": model_new.text, ".ipynb": notebook.text}  # exports of one file
_MODULE = re.compile(r"\s*# module: (\w+)\s")


def run(
    what: str, out: Path, module: str | None = None, trial: int | None = None, classes: tuple[str, ...] = ()
) -> str:
    """Write the package and say what it holds, in one line. Raises ExportError for whatever cannot be."""
    path = Path(what)
    if path.suffix == ".jsonl":
        try:
            recorded = recording.read(path)
        except (OSError, UnicodeDecodeError, recording.RecordingError) as e:
            raise ExportError(f"cannot read {what}: {e}") from None
        exported = history.of_trial(((r.kind, r.data) for r in recorded.rows), recorded.blobs.get, trial)
    elif path.suffix == ".ucutlass":
        exported = of_program(_text(path), _text(Path(module)) if module else None)
    else:
        exported = of_module(_text(path if path.exists() else PROBLEMS / f"{what}.py"), classes)
    if out.suffix in SINGLE:
        out.write_text(SINGLE[out.suffix](exported), encoding="utf-8")
        return f"{out}: class {exported.cls}, {'a notebook' if out.suffix == '.ipynb' else 'class ModelNew'}"
    files = package.files(exported)
    write(files, out)
    with_ = "with its module" if exported.module is not None else "without a module"
    part = f", {package.region_words(exported.region)}" if exported.region else ""
    return f"{out}: {len(files)} files, {with_}, class {exported.cls}{part}"


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


def of_module(text: str, classes: tuple[str, ...] = ()) -> Exported:
    """A module's first program: what the planner would try first in the first of `classes` (tf32) that it can."""
    from engine.devices import Problem, SessionRefused
    from engine.strategies.api import State
    from engine.strategies.planner.memory import Memory
    from engine.strategies.planner.planner import Planner
    from engine.strategies.problem import prepare
    from engine.trace import trace
    from sol import hardware

    hw = hardware.load("h200")
    try:
        graph = trace(text, local_user=True).graph
        problem = prepare(Problem(text, "module", graph), classes or ("tf32", "f16"), hw)
        first = Planner(problem, Memory()).next(State())
    except SessionRefused as e:
        raise ExportError(e.words) from None
    if first is None:
        raise ExportError("the planner has no program for this module")
    inputs, _ = problem.bind(first.text)
    region = None
    if problem.covered is not None:
        region = history.region_of(vars(problem.covered), problem.region(first.text))
    return Exported(
        first.text,
        first.cls,
        first.backend,
        text,
        **history.places(map(vars, inputs), graph),
        region=region,
        sms=hw.sms,
    )
