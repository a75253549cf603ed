"""`python -m engine`: optimise, trace and report from a terminal, without a web server or a database.

    python -m engine optimize FILE [--device cuda|modelled:h200] [--strategy planner|sweep] [--option NAME=VALUE]
                                   [--class tf32 --class f16] [--trials N] [--eps E] [--window W] [--seed S]
                                   [--json OUT] [--record OUT.jsonl]
    python -m engine trace FILE
    python -m engine report FILE [--gpu h200] [--class CLASS] [--json]
    python -m engine ceilings [--device cuda|cpu] [--again]
    python -m engine problems
    python -m engine verify FILE.py|FILE.cu --reference MODULE [--device cpu|cuda] [--class f32] [--json OUT]
    python -m engine measure PROGRAM|FILE.py|FILE.cu --reference MODULE [--class C] [--baseline eager] [--json OUT]
    python -m engine export FILE --out DIR|X.zip|X.py|X.ipynb [--module MODULE] [--trial N [--alone]]
                                   [--class CLASS]
    python -m engine reproduce LINK|FILE [--device D] [--trial N] [--check] [--json OUT]
    python -m engine rehearse [--port N] [--skill X] [--seed N] [--pace S]
    python -m engine replay SESSIONS [--eps E] [--window W] [--keep SHARE] [--cost KIND] [--prices FILE] [--json]
    python -m engine suite [--device cuda|modelled:h200] [--only ID,..] [--seconds S] [--every] --json OUT
    python -m engine bench suite59|outside|heldout|FOLDER [--device cuda|modelled:h200] [--strategy planner]
                                   [--class tf32] [--trials N] [--compile] [--only ID,..] [--gpus all|N] [--seconds S]
                                   [--at-once N] [--session-seconds S] [--compile-ways compile,compile_tf32] --json OUT
    python -m engine compare --strategies A,B [--skills 0.5,1] [--seeds 0,1] [--order each|in_turn|sol] [PROBLEM ..]
                                   [--device modelled:h200|cuda] [--class f16] [--trials N] [--tokens N] --json OUT
    python -m engine bench merge FILE.json FILE.json .. --json OUT
    python -m engine mcp [--url http://127.0.0.1:8000] [--token-file FILE]
    python -m engine submit FILE --to http://127.0.0.1:8000 [--token-file FILE] [the options of optimize]
    python -m engine watch http://127.0.0.1:8000/s/ID | http://127.0.0.1:8000/w/CODE [--token-file FILE]
    python -m engine lessons check|pack --out FOLDER [--wheels]

FILE: a PyTorch module, a μCUTLASS program (`.ucutlass`), an example's name, a recording (`.jsonl`), - (standard input).
Exit status: 0 done, 1 failed, 2 the input was refused.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from engine.arguments import parser
from engine.session import recording

OK, FAILED, BAD_INPUT = 0, 1, 2
ANY_SIZE = 1 << 60  # a graph and its report need no memory for the module's tensors
PROBLEMS = Path(__file__).parent / "problems"


class BadInput(Exception):
    """A mistake on the command line or in the file, in one sentence."""


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
    """(text, kind, title) of a file, an example, what a recording optimises, or standard input."""
    if name == "-":
        text, stem = sys.stdin.read().removeprefix("\ufeff"), "standard input"
    else:
        path = Path(name)
        if not path.exists() and (PROBLEMS / f"{name}.py").exists():
            path = PROBLEMS / f"{name}.py"
        try:
            text, stem = path.read_text(encoding="utf-8-sig"), path.stem  # without an editor's byte order mark
            if path.suffix == ".jsonl":
                return recording.read(path).optimised
        except recording.RecordingError as e:
            raise BadInput(f"{name}: {e}") from None
        except (OSError, UnicodeDecodeError) as e:
            why = getattr(e, "strerror", None) or "it is not UTF-8 text"
            raise BadInput(f"cannot read {name}: {why}; `python -m engine problems` lists the examples") from None
        if path.suffix == ".ucutlass":
            return text, "program", stem
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    kind = "program" if next(lines, "").startswith("program ") else "module"
    return text, kind, stem


def _graph(name: str, **limits: int):
    """The op graph of a file. Raises BadInput with the refusal's text. `limits`: of `engine.trace.trace`."""
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
    from sol.report import Garbled, of_a_trace, report

    try:
        hw, graph = known(load(args.gpu)), _graph(args.file, tensor_bytes=ANY_SIZE)
        with of_a_trace():
            limits = report(graph, hw, args.classes)
            text = limits.to_json() if args.json else limits.to_html() if args.html else limits.to_markdown()
    except (HardwareError, Garbled) as e:
        raise BadInput(str(e)) from None
    print(text)
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
        print(command.run(args.file, Path(args.out), args.module, args.trial, tuple(args.classes or ()), args.alone))
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


def _reproduce(args: argparse.Namespace) -> int:
    from engine.record import BadRecord, command

    if args.json:
        _writable(args.json)
    try:
        return command.reproduce(args, args.device or _default_device())
    except BadRecord as e:
        raise BadInput(str(e)) from None


def _rehearse(args: argparse.Namespace) -> int:
    from engine.llm.rehearse.server import serve

    if not 0 <= args.skill <= 1:
        raise BadInput(f"--skill {args.skill:g} is no share; write a number from 0 to 1")
    if not 0 <= args.pace <= 60:
        raise BadInput(f"--pace {args.pace:g} is no pause; write a number of seconds from 0 to 60")
    try:
        serve(args.port, args.skill, args.seed, args.pace)
    except OSError as e:
        raise BadInput(f"port {args.port} cannot be used: {e.strerror}; choose another with --port") from None
    except OverflowError:
        raise BadInput(f"port {args.port} is no port; write a number from 1 to 65535") from None
    return OK


def _replay(args: argparse.Namespace) -> int:
    from engine import replay

    try:
        print(replay.run(args))
    except OSError as e:
        raise BadInput(f"cannot read {e.filename}: {e.strerror}") from None
    except ValueError as e:
        raise BadInput(str(e)) from None
    return OK


def _rows(command: str) -> Callable[[argparse.Namespace], int]:
    """A command that writes rows to --json. `command`: its module, which has `run(args)` and `Refused`."""

    def run(args: argparse.Namespace) -> int:
        module = import_module(command)
        if args.json:
            _writable(args.json)
        try:
            return OK if module.run(args) else FAILED
        except module.Refused as e:
            raise BadInput(str(e)) from None

    return run


def _mcp(args: argparse.Namespace) -> int:
    from engine import bridge

    try:
        bridge.run(args.url, bridge.token_of(args.token_file))
    except bridge.BadBridge as e:
        raise BadInput(str(e)) from None
    return OK


def _optimize(args: argparse.Namespace) -> int:
    from engine import progress
    from engine.llm import handler
    from engine.llm.settings import BadSettings
    from engine.session import recording, spec_arguments
    from engine.session.runner import BadSpec, run

    text, kind, title = _read(args.file)
    try:
        models = handler.of_environment()
        spec = spec_arguments.spec_of(args, title, text, kind, _default_device())
        handlers = _handlers(models, spec)
    except (BadSpec, BadSettings) as e:
        raise BadInput(str(e)) from None
    for out in {args.json, args.record} - {None, "-"}:
        _writable(out)
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(recording.Writer(args.record)) if args.record else None
        collected = progress.Collected(writer, spec_arguments.command_of(spec, title))
        stop = stack.enter_context(_Interrupt())
        display = stack.enter_context(progress.Display(sys.stderr if args.json == "-" else sys.stdout))
        for emitted in run(spec, control=stop, local_user=True, handlers=handlers):
            collected.add(emitted)
            display.show(emitted.event)
    if args.json:
        json_text = collected.to_json()
        if args.json == "-":
            print(json_text)
        else:
            Path(args.json).write_text(json_text + "\n", encoding="utf-8")
    if collected.state == "refused" and spec.device == "cuda":
        predicted = "--device modelled:h200 predicts the times of an H200 without a GPU"
        print(f"error: nothing was measured; {predicted}", file=sys.stderr)
    return {"done": OK, "stopped": OK, "refused": BAD_INPUT}.get(collected.state, FAILED)


def _handlers(models: Any, spec: Any) -> dict[str, Any]:
    """What answers a session's turns. The key of the spec's own endpoint is typed in the terminal, or read from the
    standard input where there is none."""
    import getpass

    from engine.llm import handler
    from engine.llm.endpoint import Forbidden, visitors
    from engine.llm.keys import BadKey, checked

    if not spec.endpoint:
        return handler.handlers(models)
    try:
        visitors(spec.endpoint, "", models)  # before anybody types a key
        ask = f"Key for {spec.endpoint}: "
        key = checked(getpass.getpass(ask) if sys.stdin.isatty() else sys.stdin.readline())
        return handler.handlers(models.for_visitor(spec.model), visitors(spec.endpoint, key, models))
    except (Forbidden, BadKey) as e:
        raise BadInput(str(e)) from None


def _writable(name: str) -> None:
    """Raise BadInput if a result cannot be written there, before the search, which may take hours."""
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
    """Ctrl-C as the owner's `stop`: the session ends in order, with its results. A second one ends it at once."""

    def __init__(self) -> None:
        self.pressed = 0

    def __enter__(self) -> _Interrupt:
        self._before = signal.signal(signal.SIGINT, self._on)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _on(self, number: int, frame: object) -> None:
        self.pressed += 1
        if self.pressed > 1:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            raise KeyboardInterrupt

    def __call__(self) -> list[tuple[str, dict]]:
        if self.pressed == 1:
            self.pressed = 2  # reported once
            return [("stop", {})]
        return []


def _watch(args: argparse.Namespace) -> int:
    from engine import bridge
    from engine.remote import client, follow

    try:
        state = follow.watch(args.url, bridge.token_of(args.token_file))
    except (bridge.BadBridge, client.RemoteError) as e:
        raise BadInput(str(e)) from None
    except KeyboardInterrupt:
        return OK
    return OK if state in ("", *follow.DONE) else FAILED


def _submit(args: argparse.Namespace) -> int:
    from engine import bridge
    from engine.remote import client, follow
    from engine.session import spec_arguments
    from engine.session.spec import BadSpec

    text, kind, title = _read(args.file)
    try:
        spec = spec_arguments.spec_of(args, title, text, kind, "auto").to_dict()
        state = follow.submit(args.to, spec, bridge.token_of(args.token_file), started=_links)
    except (bridge.BadBridge, client.RemoteError, BadSpec) as e:
        raise BadInput(str(e)) from None
    except KeyboardInterrupt:
        return OK
    return {"refused": BAD_INPUT}.get(state, OK if state in follow.DONE else FAILED)


def _links(session: dict[str, str]) -> None:
    print(f"watch it at {session['view_url']}", flush=True)


def _lessons(args: argparse.Namespace) -> int:
    """The lessons belong to the app, whose command does the work in a process of its own: no Django here."""
    import subprocess

    manage = Path(__file__).resolve().parents[1] / "manage.py"
    return subprocess.run([sys.executable, str(manage), "lessons", *args.rest]).returncode


def _default_device() -> str:
    return "cuda" if Path("/dev/nvidiactl").exists() else "modelled:h200"


RUN = {
    "optimize": _optimize, "trace": _trace, "report": _report, "ceilings": _ceilings, "problems": _problems,
    "raw": _raw, "export": _export, "replay": _replay, "rehearse": _rehearse,
    "suite": _rows("engine.suite.command"), "bench": _rows("engine.bench.command"),
    "compare": _rows("engine.bench.compare.command"), "mcp": _mcp, "watch": _watch, "submit": _submit,
    "lessons": _lessons, "reproduce": _reproduce,
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
