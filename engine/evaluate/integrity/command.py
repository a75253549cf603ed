"""`python -m engine verify` and `python -m engine measure`: the terminal commands.

A μCUTLASS program goes through the device that sessions use; raw CUDA C++ and Python go through the integrity checks,
and are timed only if they pass.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import Any

from dsl.ir import Program
from engine.classes import class_of, roof_of
from engine.devices import Binding, Candidate, Problem, SessionRefused, TrialError
from engine.evaluate.integrity import trial as integrity
from engine.evaluate.integrity.clocks import TOO_FAST
from engine.evaluate.integrity.findings import CHEAT, Finding, Report
from engine.evaluate.integrity.process.candidate import CandidateEnded
from engine.evaluate.integrity.process.judge import JudgeLost
from engine.evaluate.integrity.verify import KINDS, Verifier
from engine.evaluate.reference import baseline_cache
from engine.sandbox import Sandbox
from engine.session import events
from engine.signatures import changing_pack
from sol.bounds import pytorch_class, t_sol
from sol.budget import gap
from sol.graph import OpGraph
from sol.hardware import Hardware


class Refused(Exception):
    """The command cannot run: one sentence with the reason and the way out."""


def run(args: argparse.Namespace, module: str) -> bool:
    """Run the command (engine.evaluate.integrity.arguments), print the result, and return True if the candidate was
    accepted. `module`: the reference's text. Raises Refused."""
    path = Path(args.file)
    kind = kind_of(path)
    try:
        text = path.read_text(encoding="utf-8-sig")  # without an editor's byte order mark
    except (OSError, UnicodeDecodeError) as e:
        raise Refused(f"cannot read {path}: {getattr(e, 'strerror', None) or 'it is not UTF-8 text'}") from None
    weak = Sandbox.strength(args.device == "cuda")
    if weak != "full":  # the text is the local user's, who may run it but must know
        print(f"note: the sandbox is {weak}", file=sys.stderr)
    loose = args.nondeterministic
    if args.command == "verify":
        if kind == "program":
            raise Refused("a program is verified as it is measured: `python -m engine measure`")
        report = verify(text, kind, module, device=args.device, cls=args.cls or "f32", nondeterministic=loose).to_json()
    else:
        wanted = args.baseline or ([] if kind == "program" else ["eager"])
        for name in wanted:
            if name not in baseline_cache.NAMES:
                raise Refused(f"there is no baseline {name!r}; there are {', '.join(baseline_cache.NAMES)}")
        cls = args.cls or ("" if kind == "program" else "f32")  # of a program its own
        report = measure(text, kind, module, device=args.device, cls=cls, wanted=wanted, nondeterministic=loose)
    if args.json == "-":
        print(json.dumps(report, indent=1))
    else:
        print(report_text(report, path.name))
        if args.json:
            Path(args.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return report["accepted"]


def kind_of(path: Path) -> str:
    """program | python | cuda, by the file's name."""
    if path.suffix == ".ucutlass":
        return "program"
    if path.suffix not in KINDS:
        raise Refused(f"{path.name}: a candidate is a .py, a .cu or a .ucutlass file")
    return KINDS[path.suffix]


def verify(text: str, kind: str, module: str, *, device: str, cls: str, nondeterministic: bool = False) -> Report:
    """Verify one raw candidate against its module. Raises Refused."""
    _can_run(kind, device)
    try:
        with Verifier(module, device, local_user=True) as v:
            return v.verify(text, kind, cls, nondeterministic=nondeterministic)
    except SessionRefused as e:
        raise Refused(f"the module cannot be worked on: {e.reason}") from None
    except (TrialError, JudgeLost) as e:
        raise Refused(f"nothing was judged: {e}") from None


def _can_run(kind: str, device: str) -> None:
    if device not in ("cuda", "cpu"):
        raise Refused(f"there is no device {device!r} to run it on; write cuda or cpu")
    if device == "cuda" and not Path("/dev/nvidiactl").exists():
        raise Refused("there is no NVIDIA GPU here; `verify --device cpu` runs Python candidates on the CPU")
    if kind == "cuda" and device == "cpu":
        raise Refused("CUDA C++ needs a GPU; on the CPU only Python candidates can run")


def measure(
    text: str, kind: str, module: str, *, device: str, cls: str, wanted: list[str], nondeterministic: bool = False
) -> dict[str, Any]:
    """{verdict, ..., timed: [...]} for a raw candidate, or {validated, measured, ...} for a program. Raises Refused."""
    if kind == "program":
        return _program(text, module, device, cls, wanted)
    if device != "cuda":
        without = "`verify --device cpu` says whether it is right" if kind == "python" else "`verify` needs one too"
        raise Refused(f"raw code is measured on a GPU alone, with --device cuda; {without}, and a program is predicted")
    _can_run(kind, device)
    from engine.evaluate.integrity.measuring import measure as time_it

    try:
        with Verifier(module, "cuda", local_user=True) as v:
            report = v.verify(text, kind, cls, nondeterministic=nondeterministic)
            timed = []
            if report.accepted:
                for name in wanted:
                    one = time_it(v.examiner, text, kind, cls, name, builds=v.builds)
                    report.add(*one.findings)
                    timed.append(one.to_json())
                    _remember(v, one)
                report.conclude()
            # Findings during the timing make its times claims, which are not compared.
            times = {"timed": timed, "claims": []} if report.accepted else {"timed": [], "claims": timed}
            return {**report.to_json(), **times}
    except CandidateEnded as e:
        report.add(Finding(e.code, e.reason, e.line, dynamic=True))
        return {**report.conclude().to_json(), "timed": []}
    except SessionRefused as e:
        raise Refused(f"the module cannot be worked on: {e.reason}") from None
    except (TrialError, JudgeLost) as e:
        raise Refused(f"nothing was measured: {e}") from None


def _remember(v: Verifier, one: Any) -> None:
    """Store the baseline's time, so that torch.compile need not be timed again."""
    from engine.build.cache import Cache

    name, driver = one.device.get("name") or "", one.device.get("driver")
    key = baseline_cache.key(v.source, v.graph.to_json(), one.baseline, name, driver)
    entry = baseline_cache.Timed(
        one.baseline, one.baseline_cls, one.baseline_ms, one.baseline_ms, one.baseline_ms, 0.0, [], one.method,
        device=one.device, taken=time.time(),
    )  # fmt: skip
    baseline_cache.store(Cache(), key, entry)


# ---- a program ----


def _program(text: str, module: str, device: str, cls: str, wanted: list[str]) -> dict[str, Any]:
    from dsl.compile import compile as generate
    from engine.devices import registry
    from engine.session import trial
    from engine.trace import trace
    from sol.hardware import load

    try:
        program = trial.checked(text)
        cls = cls or class_of(program)
        graph = trace(module, local_user=True).graph
        on = registry.get(device, local_user=True)
        compiled = generate(program, load(on.hardware).sms)
        inputs, outputs = bind(compiled.resolved, graph)
        backend = next(iter(compiled.sources), None)
        if backend is None:
            raise Refused("; ".join(r.message for r in compiled.refused.values()))
        candidate = Candidate(
            1, compiled.resolved, compiled.text, cls, backend, compiled.sources, inputs, outputs, compiled.refused
        )
        on.open(Problem(module, "module", graph, time.time_ns() & 0xFFFFFF), lambda: False)
        try:
            built = on.build(candidate)
            right = on.validate(candidate)
            timed = []
            for baseline in _beside(on, pytorch_class(cls, graph), wanted):
                timed.append(on.measure(candidate, baseline))
        finally:
            on.close()
    except SessionRefused as e:
        raise Refused(e.reason) from None
    except TrialError as e:
        return {"verdict": "wrong", "accepted": False, "step": e.step, "code": e.code, "reason": e.reason, "timed": []}
    evidence = [c for t in timed for c in judged(t, program, cls, graph, load(on.hardware))]
    verdict = integrity.worst(evidence)
    accepted = verdict != "gaming"
    times = [asdict(t) for t in timed]
    report = {
        "verdict": verdict, "accepted": accepted, "backend": backend, "compiled": asdict(built), "error": right.error,
        "scope": right.scope, "timed": times if accepted else [],
    }  # fmt: skip
    if not accepted:
        why = next(c["said"] for c in evidence if c["verdict"] == verdict)
        report |= {"step": "measure", "code": "not_counted", "reason": why, "claims": [t | t["time"] for t in times]}
    return report


def judged(m: events.TrialMeasured, program: Program, cls: str, graph: OpGraph, hardware: Hardware) -> list[dict]:
    """The evidence of a program's run, with that of its class and its limit, as in a session."""
    roof = roof_of(program)
    limit = t_sol(graph, hardware, roof if program.guard else cls)
    return [
        *m.checks,
        integrity.of_precision(class_of(program), cls, roof),
        integrity.of_limit(gap(m.time.ms, limit), limit, TOO_FAST),
    ]


def _beside(on: Any, cls: str, wanted: list[str]) -> Iterator[events.Baseline]:
    """The requested baselines, or those of the class. Raises Refused for one that does not exist."""
    known = {b.name: b for b in on.baselines([cls])}
    if not wanted:
        yield from (b for b in known.values() if b.cls == cls and "compile" not in b.name)
    for name in wanted:
        if name not in known and on.kind == "predicted":
            raise Refused(f"{name} has no predicted time; on {on.name} there is {', '.join(known)}")
        yield known[name] if name in known else on.baseline(name)


def bind(program: Any, graph: OpGraph) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
    """Parameters of a program as the module's tensors, by their names (a weight `linear.weight` is `linear_weight`);
    results in order. Raises Refused with the names that exist."""
    tensors = {}
    for t in graph.tensors.values():
        if t.name in graph.inputs or t.kind in ("parameter", "buffer"):
            tensors[t.name.lower()] = t
            if t.path:
                tensors.setdefault(t.path.replace(".", "_").lower(), t)
    inputs = []
    for p in program.params:
        t = tensors.get(p.name.lower())
        if t is None or prod(t.shape) != prod(p.type.shape):
            there = ", ".join(f"{n} {list(t.shape)}" for n, t in tensors.items())
            raise Refused(f"the module has no tensor {p.name} of {list(p.type.shape)}; it has {there}")
        inputs.append(Binding(p.name, t.name, p.type.shape))
    if why := changing_pack(program, {b.name: b.tensor for b in inputs}, graph):
        raise Refused(why)
    types = program.result_types
    if len(types) != len(graph.outputs):
        raise Refused(f"the program returns {len(types)} tensors, the module {len(graph.outputs)}")
    pairs = zip(program.results, graph.outputs, types, strict=True)
    return tuple(inputs), tuple(Binding(n, o, t.shape) for n, o, t in pairs)


# ---- for people ----


def report_text(report: dict[str, Any], name: str) -> str:
    """The text that `verify` or `measure` prints."""
    lines = [f"{name}: {report['verdict']}" + (f" (class {report['cls']})" if report.get("cls") else "")]
    for f in report.get("findings", []):
        finding = Finding(**f)
        mark = {CHEAT: "!!", "wrong": " !"}.get(finding.severity, "  ")
        lines.append(f"{mark} {finding.code:18} {finding.sentence}")
    if report.get("reason"):
        lines.append(f" ! {report['code']:18} {report['reason']}")
    for r in report.get("rounds", []):
        own = f", PyTorch's own {r['pytorch_error']:.1e}" if r.get("pytorch_error") is not None else ""
        rows = f" on {r['rows']} rows" if r.get("rows") else ""
        lines.append(f"   {r['family'] + rows:24} error {r['error']:.1e}{own}{'' if r['right'] else '   WRONG'}")
    if report.get("library"):
        lines.append("   library: " + ", ".join(report["library"][:8]))
    if report.get("scope"):
        lines.append(f"   {report['scope']}")
    lines += [_time_line(t) for t in report.get("timed", [])]
    lines += [f"   not counted: {t['ms']:.4g} ms beside {t['baseline']}" for t in report.get("claims", [])]
    return "\n".join(lines)


def _time_line(t: dict[str, Any]) -> str:
    time_ = t.get("time") or t
    kind = "predicted" if time_.get("kind") == "predicted" else "measured"
    low, high = t.get("ratio_low"), t.get("ratio_high")
    between = f" ({low:.3f} to {high:.3f})" if low is not None and high is not None else ""
    mark = "~" if kind == "predicted" else ""
    theirs = f"{t['baseline']} {mark}{t['baseline_ms']:.4g} ms"
    if t.get("mode") == "calls":
        return f"   {t['ms']:.4g} ms a call from Python; {theirs}; ratio of call times {t['ratio']:.3f}{between}"
    return f"   {mark}{time_['ms']:.4g} ms {kind}; {theirs}; ratio {t['ratio']:.3f}{between}"
