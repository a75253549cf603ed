"""The language as a service for the page: check while typing, generate on request. Pure and cached by text.

Everything here runs in the web process: parsing, checking, resolving and generating take milliseconds of pure Python on
texts whose size and depth the parser bounds. Only an engine compiles and runs programs.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import dsl.check
import dsl.codes
import dsl.compile
from dsl.editor import completion, vocabulary
from dsl.editor import hover as hover_help
from dsl.editor.formatter import formatted
from dsl.editor.repair import repairs
from dsl.ir import Attention, Collective, Program, Recurrent
from dsl.printer import to_text
from dsl.resolve import resolve as resolved_of
from dsl.rules.recurrent.layout import compute_of
from engine.classes import class_of, roof_of
from sol import attainable, hardware
from sol.figures import roofline, stages

HARDWARE = "h200"


@functools.lru_cache(maxsize=512)
def check(text: str, device: str = HARDWARE) -> dict[str, Any]:
    """{ok, diagnostics, text, resolved, prediction}: the canonical text, and the same with every choice made.

    A diagnostic has code, message, line, col, end_line, end_col (1-based, end exclusive), notes, help, `rendered`, the
    message with its caret as in a terminal, and `fix`: a tested edit that removes the mistake, {title, line, col,
    end_line, end_col, text}, or None.
    """
    checked = dsl.check.check(text)
    if checked.program is None:
        return {**_rejected(text), "text": None, "resolved": None, "prediction": None}
    hw = hardware.load(device)
    resolved = resolved_of(checked.program, hw.sms)
    return {
        "ok": True,
        "diagnostics": [],
        "text": to_text(checked.program),
        "resolved": to_text(resolved),
        "prediction": _prediction(resolved, hw),
    }


def _rejected(text: str) -> dict[str, Any]:
    diagnostics = dsl.check.check(text).diagnostics
    rows = []
    for d, fix in zip(diagnostics, repairs(text, diagnostics), strict=True):
        rows.append(d.to_json() | {"rendered": d.render(text), "fix": fix and fix.to_json()})
    return {"ok": False, "diagnostics": rows}


@functools.lru_cache(maxsize=64)
def format_(text: str) -> dict[str, Any]:
    """{ok, diagnostics, text}: the formatted program with its comments; None if it is rejected."""
    checked = dsl.check.check(text)
    if checked.program is None:
        return {**_rejected(text), "text": None}
    return {"ok": True, "diagnostics": [], "text": formatted(text, checked.program)}


def resolve(text: str, device: str = HARDWARE) -> dict[str, Any]:
    """{ok, diagnostics, text}: the program with every choice made; None if it is rejected."""
    result = check(text, device)
    return {"ok": result["ok"], "diagnostics": result["diagnostics"], "text": result["resolved"]}


def explain(word: str) -> dict[str, Any] | None:
    """The page of a code, {code, title, why, example, fix, wrong, right}, or of a word, {word, kind, use, doc, ..}."""
    page = dsl.codes.page(word) or vocabulary.entry(word)
    return page.to_json() if page else None


def complete(text: str, line: int, col: int) -> dict[str, Any]:
    """{start, options: [{label, kind, doc}]}: what is valid at a place, from column `start` on."""
    return completion.complete(text, line, col).to_json()


def hover(text: str, line: int, col: int) -> dict[str, Any] | None:
    """{word, kind, use, doc, values, line, col, end_line, end_col}, or None if there is no help."""
    entry = hover_help.hover(text, line, col)
    return entry and entry.to_json()


@functools.lru_cache(maxsize=128)
def compile_(text: str, device: str = HARDWARE) -> dict[str, Any]:
    """The result of check, and digest, sources: {back end: {text, binding, language, lines, line_map}}, refused,
    figures, class, limit_class}. `class`: the precision class; `limit_class`: the class whose limit applies.

    `figures`: {roofline, breakdown} of the prediction, in the form of playground.figures.
    `line_map`: [line of the resolved text, first and last line of the generated text], 1-based and inclusive.
    """
    result = check(text, device)
    if not result["ok"]:
        return result | {"digest": None, "sources": {}, "refused": {}, "figures": {}, "class": "", "limit_class": ""}
    program = dsl.check.check(text).program
    out = dsl.compile.compile(program, hardware.load(device).sms)
    sources = {
        name: {
            "text": s.text,
            "binding": s.binding,
            "language": s.language,
            "lines": s.text.count("\n") + 1,
            "line_map": s.line_map,
        }
        for name, s in out.sources.items()
    }
    refused = {n: {"code": r.code, "message": r.message, "help": r.help} for n, r in out.refused.items()}
    built = _figures(out.resolved, hardware.load(device))
    return result | {
        "resolved": out.text,
        "digest": out.digest,
        "sources": sources,
        "refused": refused,
        "figures": built,
        "class": class_of(out.resolved),
        "limit_class": roof_of(out.resolved),
    }


def _figures(program: Program, hw: hardware.Hardware) -> dict[str, Any]:
    """Each stage with FLOPs on the device's roofline, with the traffic that the model predicts, and all stages.

    A stage that is not a matrix product computes on the FP32 pipes.
    """
    try:
        predicted = attainable.predict(program, hw)
    except hardware.HardwareError:
        return {}
    cls = {s.name: attainable.product_of(program, s).cls for s in program.stages if isinstance(s, Collective)}
    cls |= {s.name: s.type.dtype.value for s in program.stages if isinstance(s, Attention)}
    recurrent = [s for s in program.stages if isinstance(s, Recurrent)]
    kinds = {o.name: program.type_of(o.name) for s in recurrent for o in s.weights}
    cls |= {s.name: attainable.CLASS_OF_COMPUTE[compute_of(s, kinds)] for s in recurrent}
    points = [
        roofline.Point(s.name, "predicted", s.flops / s.bytes, s.flops / (s.ms * 1e-3), cls.get(s.name, "f32"), ms=s.ms)
        for s in predicted.stages
        if s.flops and s.bytes
    ]
    roofs = roofline.roofs_of_hardware(hw, list(dict.fromkeys([*cls.values(), "f32"])))
    built = {
        "roofline": roofline.roofline(roofs, points, hw.title) if roofs else None,
        "breakdown": stages.stages(predicted.stages),
    }
    return {k: f.to_json() for k, f in built.items() if f is not None}


def _prediction(program: Program, hw: hardware.Hardware) -> dict[str, Any] | None:
    """t_attainable of a resolved program, stage by stage; None if the device has no such units."""
    try:
        predicted = attainable.predict(program, hw)
    except hardware.HardwareError:
        return None
    return {
        "kind": "predicted",
        "ms": predicted.ms,
        "device": hw.name,
        "bound_by": predicted.bound_by,
        "stages": [dataclasses.asdict(s) for s in predicted.stages],
        "notes": list(predicted.notes),
    }
