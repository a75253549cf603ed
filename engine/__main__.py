"""`python -m engine`: optimise, trace and report from a terminal, without a web server or a database.

    python -m engine optimize FILE [--device cuda|modelled:h200] [--class tf32 --class f16] [--trials N]
                                   [--eps E] [--window W] [--seed S] [--json OUT] [--record OUT.jsonl]
    python -m engine trace FILE
    python -m engine report FILE [--gpu h200] [--class CLASS] [--json]
    python -m engine ceilings [--device cuda|cpu] [--again]
    python -m engine problems
    python -m engine verify FILE.py|FILE.cu --reference MODULE [--device cpu|cuda] [--class f32] [--json OUT]
    python -m engine measure PROGRAM|FILE.py|FILE.cu --reference MODULE [--class C] [--baseline eager] [--json OUT]
    python -m engine export FILE --out DIR|X.zip [--module MODULE] [--trial N] [--class CLASS]
    python -m engine replay SESSIONS [--eps E] [--window W] [--keep SHARE] [--json]
    python -m engine suite [--device cuda|cpu] [--only ID,..] [--jobs 12] [--seconds S] [--every] --json OUT
    python -m engine bench suite59 [--device cuda|cpu] [--class tf32 --class f16] [--trials 3] [--seconds S] --json OUT
    python -m engine bench merge FILE.json FILE.json .. --json OUT

FILE is a PyTorch module, a μCUTLASS program (`.ucutlass`), the name of an example, or - for standard input.
Exit status: 0 done, 1 failed, 2 the input was refused.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from pathlib import Path

from engine.arguments import parser

OK, FAILED, BAD_INPUT = 0, 1, 2
ANY_SIZE = 1 << 60  # a graph and its report need no memory for the module's tensors
PROBLEMS = Path(__file__).parent / "problems"


class BadInput(Exception):
    """Something about the command line or the file, in one sentence."""


def main(argv: list[str] | None = None) -> int:
    args = parser(RUN).parse_args(argv)
    logging.basicConfig(level=logging.DEBUG if args.verbose else logging.CRITICAL, format="%(name)s: %(message)s")
    try:
        return args.run(args)
    except BadInput as e:
        print(f"error: {e}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        return OK


def _read(name: str) -> tuple[str, str, str]:
    """(text, kind, title) of a file, an example or standard input."""
    if name == "-":
        text, stem = sys.stdin.read().removeprefix("\ufeff"), "standard input"
    else:
        path = Path(name)
        if not path.exists() and (PROBLEMS / f"{name}.py").exists():
            path = PROBLEMS / f"{name}.py"
        try:
            text, stem = path.read_text(encoding="utf-8-sig"), path.stem  # an editor's byte order mark is no part of it
        except (OSError, UnicodeDecodeError) as e:
            why = getattr(e, "strerror", None) or "it is not UTF-8 text"
            raise BadInput(f"cannot read {name}: {why}; `python -m engine problems` lists the examples") from None
        if path.suffix == ".ucutlass":
            return text, "program", stem
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    kind = "program" if next(lines, "").startswith("program ") else "module"
    return text, kind, stem


def _graph(name: str, **limits: int):
    """The op graph of a file. Raises BadInput with the refusal's words. `limits`: of `engine.trace.trace`."""
    from dsl.check.program import check
    from engine.devices import SessionRefused
    from engine.strategies.planner.lowering.program_graph import graph_of
    from engine.trace import trace

    text, kind, _ = _read(name)
    if kind == "program":
        checked = check(text)
        if not checked.ok:
            raise BadInput("\n".join(d.render(text) for d in checked.diagnostics))
        return graph_of(checked.program)
    try:
        return trace(text, local_user=True, **limits).graph
    except SessionRefused as e:
        raise BadInput(e.words) from None


def _trace(args: argparse.Namespace) -> int:
    print(_graph(args.file, tensor_bytes=ANY_SIZE).to_json())
    return OK


def _report(args: argparse.Namespace) -> int:
    from engine.devices.ceilings import known
    from sol.hardware import HardwareError, load
    from sol.report import report

    try:
        hw = known(load(args.gpu))
        made = report(_graph(args.file, tensor_bytes=ANY_SIZE), hw, args.classes)
    except HardwareError as e:
        raise BadInput(str(e)) from None
    print(made.to_json() if args.json else made.to_html() if args.html else made.to_markdown())
    return OK


def _ceilings(args: argparse.Namespace) -> int:
    from engine.devices.ceilings import ProbeError, command

    try:
        print(command(args.device, args.again))
    except ProbeError as e:
        raise BadInput(str(e)) from None
    return OK


def _problems(args: argparse.Namespace) -> int:
    import ast

    paths = sorted(p for p in PROBLEMS.glob("*.py") if not p.name.startswith("_"))
    width = max((len(p.stem) for p in paths), default=0)
    for path in paths:
        about = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]
        print(f"{path.stem:{width}}  {about}")
    return OK


def _export(args: argparse.Namespace) -> int:
    from engine.export import ExportError, command

    try:
        print(command.run(args.file, Path(args.out), args.module, args.trial, tuple(args.classes or ())))
    except ExportError as e:
        raise BadInput(str(e)) from None
    except OSError as e:
        raise BadInput(f"cannot write {args.out}: {e.strerror}") from None
    return OK


def _raw(args: argparse.Namespace) -> int:
    from engine.evaluate.integrity import command

    if args.json and args.json != "-":
        _writable(args.json)
    module, kind, _ = _read(args.reference)
    if kind != "module":
        raise BadInput("--reference must be a PyTorch module; a program is no reference")
    if args.device is None:
        args.device = "cpu" if args.command == "verify" and _default_device() != "cuda" else _default_device()
    try:
        return OK if command.run(args, module) else FAILED
    except command.Refused as e:
        raise BadInput(str(e)) from None


def _replay(args: argparse.Namespace) -> int:
    from engine import replay

    try:
        print(replay.run(args))
    except OSError as e:
        raise BadInput(f"cannot read {e.filename}: {e.strerror}") from None
    except ValueError as e:
        raise BadInput(str(e)) from None
    return OK


def _suite(args: argparse.Namespace) -> int:
    import secrets

    from engine.suite.cases import cases
    from engine.suite.runner import generate, run
    from engine.suite.table import line, table

    try:
        chosen = cases(tuple(filter(None, args.only.split(","))))
    except ValueError as e:
        raise BadInput(str(e)) from None
    if args.generate:
        said = [generate(case) for case in chosen]
        print("\n".join(said))
        return OK
    if args.device == "cuda" and not Path("/dev/nvidiactl").exists():
        raise BadInput("there is no NVIDIA GPU here; `--device cpu` holds the programs' meanings against the modules")
    seed = secrets.randbits(31) if args.seed is None else args.seed
    out = Path(args.json) if args.json else None
    results = run(
        chosen, args.device, args.jobs, out, lambda row: print(line(row), flush=True),
        seconds=args.seconds, seed=seed, every=args.every, backends=tuple(args.backend or ("cute", "cpp")),
    )  # fmt: skip
    rows = list(results.rows.values())
    print("\n" + table(rows))
    return OK if all(row["ok"] for row in rows) else FAILED


def _bench(args: argparse.Namespace) -> int:
    import secrets

    from engine.bench.report import coverage
    from engine.bench.report.table import table
    from engine.bench.run import shards
    from engine.bench.run.request import Wanted
    from engine.bench.run.runner import run
    from engine.session.spec import CLASSES
    from engine.suite.cases import module_set
    from sol.hardware import HardwareError, load

    if args.set == "merge":
        return _merge(args)
    if args.files:
        raise BadInput(
            f"bench {args.set} takes no files; `bench merge {' '.join(args.files)} --json OUT` joins results"
        )
    if args.device == "cuda" and not Path("/dev/nvidiactl").exists():
        raise BadInput("there is no NVIDIA GPU here; `--device cpu` holds the programs' meanings against the modules")
    try:
        modules = module_set(args.set, tuple(filter(None, args.only.split(","))))
        if args.shard:
            modules = shards.deal(modules, shards.parse(args.shard))
        hw = load(args.gpu)
    except (ValueError, HardwareError) as e:
        raise BadInput(str(e)) from None
    if args.json:
        _writable(args.json)
    seed = secrets.randbits(31) if args.seed is None else args.seed
    classes = tuple(args.classes or ("tf32",))
    if unknown := set(classes) - set(CLASSES):
        raise BadInput(f"--class is one of {', '.join(CLASSES)}; it was given {', '.join(sorted(unknown))}")
    wanted = Wanted(
        modules, classes, args.trials, args.device, args.jobs, args.seconds, args.compile, seed, wave=args.wave,
        eps=args.eps, window=args.window,
    )  # fmt: skip
    try:
        book = run(wanted, hw, Path(args.json) if args.json else None, lambda text: print(text, flush=True))
    except shards.BadResults as e:
        raise BadInput(str(e)) from None
    except KeyboardInterrupt:
        print("stopped; " + (f"the same command goes on from {args.json}" if args.json else "nothing was written"))
        return FAILED
    chosen = {m: book.problem(m, pid) for m, pid in modules.items()}
    chosen |= {r: book.problems[r] for row in list(chosen.values()) for r in row.get("regions", ())}
    print(table(chosen, classes))
    if args.set != "suite59":
        print("\n".join(text for cls in classes for text in coverage.words(chosen, cls)))
    units = [row for row in chosen.values() if not row.get("regions")]
    right = [all(any(t["ok"] for t in r["trials"] if t["class"] == c) for c in classes) for r in units]
    return OK if right and all(right) else FAILED


def _merge(args: argparse.Namespace) -> int:
    import json

    from engine.bench.report import coverage
    from engine.bench.report.table import table
    from engine.bench.run import shards
    from engine.suite.cases import set_of

    if not args.files or not args.json:
        raise BadInput("bench merge takes the files to join and where to: bench merge a.json b.json --json OUT")
    _writable(args.json)
    try:
        merged = shards.merge([Path(f) for f in args.files])
    except shards.BadResults as e:
        raise BadInput(str(e)) from None
    Path(args.json).write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")
    tried = {t["class"] for row in merged["problems"].values() for t in row["trials"]}
    classes = tuple(args.classes or sorted(tried, reverse=True))
    print(table(merged["problems"], classes))
    if set_of(row["id"] for row in merged["problems"].values()) != "suite59":
        print("\n".join(text for cls in classes for text in coverage.words(merged["problems"], cls)))
    return OK


def _optimize(args: argparse.Namespace) -> int:
    from engine import progress
    from engine.session.runner import BadSpec, SessionSpec, run

    text, kind, title = _read(args.file)
    try:
        spec = SessionSpec(
            title, text, kind, args.device or _default_device(), "planner", tuple(args.classes or ("tf32", "f16")),
            args.trials, args.eps, args.window, args.seed, args.compile, args.algebraic,
        )  # fmt: skip
    except BadSpec as e:
        raise BadInput(str(e)) from None
    for out in {args.json, args.record} - {None, "-"}:
        _writable(out)
    stop = _Interrupt()
    collected = progress.Collected()
    with progress.Display(sys.stderr if args.json == "-" else sys.stdout) as display:
        for emitted in run(spec, control=stop, local_user=True):
            collected.add(emitted)
            display.show(emitted.event)
    if args.record:
        told = (f"--class {c}" for c in args.classes or ())
        command = f"python -m engine optimize {title} --device {spec.device} --trials {args.trials}"
        command += f" --eps {args.eps:g} --window {args.window} --seed {args.seed}" + " --compile" * args.compile
        command += " --algebraic" * args.algebraic
        collected.record(args.record, " ".join([command, *told]))
    if args.json:
        made = collected.to_json()
        if args.json == "-":
            print(made)
        else:
            Path(args.json).write_text(made + "\n", encoding="utf-8")
    if collected.state == "refused" and spec.device == "cuda":
        predicted = "--device modelled:h200 predicts the times of an H200 without a GPU"
        print(f"error: nothing was measured; {predicted}", file=sys.stderr)
    return {"done": OK, "stopped": OK, "refused": BAD_INPUT}.get(collected.state, FAILED)


def _writable(name: str) -> None:
    """Raises BadInput when a result could not be written there: said before the search, which may take hours."""
    path = Path(name)
    new = not path.exists()
    try:
        with path.open("a", encoding="utf-8"):
            pass
        if new:
            path.unlink()
    except OSError as e:
        raise BadInput(f"cannot write {name}: {e.strerror}; name a file in a folder that exists") from None


class _Interrupt:
    """Ctrl-C as the owner's `stop`: the session ends in order, with what it found. A second one ends it at once."""

    def __init__(self) -> None:
        self.pressed = 0
        signal.signal(signal.SIGINT, self._on)

    def _on(self, number: int, frame: object) -> None:
        self.pressed += 1
        if self.pressed > 1:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            raise KeyboardInterrupt

    def __call__(self) -> list[tuple[str, dict]]:
        if self.pressed == 1:
            self.pressed = 2  # told once
            return [("stop", {})]
        return []


def _default_device() -> str:
    return "cuda" if Path("/dev/nvidiactl").exists() else "modelled:h200"


RUN = {
    "optimize": _optimize, "trace": _trace, "report": _report, "ceilings": _ceilings, "problems": _problems,
    "raw": _raw, "export": _export, "replay": _replay, "suite": _suite, "bench": _bench,
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
