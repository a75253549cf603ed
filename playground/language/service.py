"""The language as a service of the page: check as one types, generate on request. Pure and cached by text.

Everything here runs in the web process: parsing, checking, resolving and generating are milliseconds of pure Python
on texts whose size and depth the parser bounds. What a program would run is compiled and run by an engine alone.
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
from dsl.ir import Collective, Program
from dsl.printer import to_text
from dsl.resolve import resolve as resolved_of
from sol import attainable, hardware
from sol.figures import roofline, stages

HARDWARE = "h200"


@functools.lru_cache(maxsize=512)
def check(text: str, device: str = HARDWARE) -> dict[str, Any]:
    """{ok, diagnostics, text, resolved, prediction}: the canonical text, and the same with every choice made.

    A diagnostic has code, message, line, col, end_line, end_col (1-based, end exclusive), notes, help, `rendered`,
    the message with its caret as a terminal would show it, and `fix`: an edit that was tried and ends the mistake,
    {title, line, col, end_line, end_col, text}, or None.
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
    found = []
    for d, fix in zip(diagnostics, repairs(text, diagnostics), strict=True):
        found.append(d.to_json() | {"rendered": d.render(text), "fix": fix and fix.to_json()})
    return {"ok": False, "diagnostics": found}


@functools.lru_cache(maxsize=64)
def format_(text: str) -> dict[str, Any]:
    """{ok, diagnostics, text}: the program laid out with its comments kept; None where it is rejected."""
    checked = dsl.check.check(text)
    if checked.program is None:
        return {**_rejected(text), "text": None}
    return {"ok": True, "diagnostics": [], "text": formatted(text, checked.program)}


def resolve(text: str, device: str = HARDWARE) -> dict[str, Any]:
    """{ok, diagnostics, text}: the program with every choice made; None where it is rejected."""
    told = check(text, device)
    return {"ok": told["ok"], "diagnostics": told["diagnostics"], "text": told["resolved"]}


def explain(word: str) -> dict[str, Any] | None:
    """The page of an error code, {code, title, why, example, fix}, or of a word, {word, kind, use, doc, values}."""
    page = dsl.codes.page(word) or vocabulary.entry(word)
    return page.to_json() if page else None


def complete(text: str, line: int, col: int) -> dict[str, Any]:
    """{start, options: [{label, kind, doc}]}: what may stand at a place, from column `start` on."""
    return completion.complete(text, line, col).to_json()


def hover(text: str, line: int, col: int) -> dict[str, Any] | None:
    """{word, kind, use, doc, values, line, col, end_line, end_col}, or None where there is nothing to say."""
    found = hover_help.hover(text, line, col)
    return found and found.to_json()


@functools.lru_cache(maxsize=128)
def compile_(text: str, device: str = HARDWARE) -> dict[str, Any]:
    """What check says, and digest, sources: {back end: {text, binding, language, lines, line_map}}, refused, figures.

    `figures`: {roofline, breakdown} of the prediction, as playground.figures gives them for a session.
    `line_map`: [line of the resolved text, first and last line of the generated text], 1-based and inclusive.
    """
    told = check(text, device)
    if not told["ok"]:
        return told | {"digest": None, "sources": {}, "refused": {}, "figures": {}}
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
    drawn = _figures(out.resolved, hardware.load(device))
    return told | {"resolved": out.text, "digest": out.digest, "sources": sources, "refused": refused, "figures": drawn}


def _figures(program: Program, hw: hardware.Hardware) -> dict[str, Any]:
    """Each stage that computes on the device's roofline, with the traffic that the model expects, and all stages.

    A stage that is no product of matrices computes on the FP32 pipes.
    """
    try:
        told = attainable.predict(program, hw)
    except hardware.HardwareError:
        return {}
    cls = {s.name: attainable.product_of(program, s).cls for s in program.stages if isinstance(s, Collective)}
    points = [
        roofline.Point(s.name, "predicted", s.flops / s.bytes, s.flops / (s.ms * 1e-3), cls.get(s.name, "f32"), ms=s.ms)
        for s in told.stages
        if s.flops and s.bytes
    ]
    roofs = roofline.roofs_of_hardware(hw, list(dict.fromkeys([*cls.values(), "f32"])))
    drawn = {
        "roofline": roofline.roofline(roofs, points, hw.title) if roofs else None,
        "breakdown": stages.stages(told.stages),
    }
    return {k: f.to_json() for k, f in drawn.items() if f is not None}


def _prediction(program: Program, hw: hardware.Hardware) -> dict[str, Any] | None:
    """t_attainable of a resolved program, stage by stage; None where the device has no such units."""
    try:
        told = attainable.predict(program, hw)
    except hardware.HardwareError:
        return None
    return {
        "kind": "predicted",
        "ms": told.ms,
        "device": hw.name,
        "bound_by": told.bound_by,
        "stages": [dataclasses.asdict(s) for s in told.stages],
        "notes": list(told.notes),
    }
