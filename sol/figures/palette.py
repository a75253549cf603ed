"""How every figure looks: Okabe and Ito's colours, a marker shape beside each, inks that read on white and on black.

The page draws in its own theme: static/js/chart_theme.js gives each colour of this module a token of css/base.css
(tests/browser/test_figures.py holds the two lists equal). INK and MUTED look alike here, and are two there.
"""

from __future__ import annotations

from math import log10
from typing import Any

INK = "#757575"  # of PyTorch's marks and lines, and of text
MUTED = "#767676"  # of axes and labels
GRID = "rgba(118,118,118,0.25)"
FAINT = "#8C8C8C"  # of bars that stand for a bound
LIMIT = "#009E74"  # of a limit that belongs to no class
BAD = "#D45E00"  # of a trial that failed
CLEAR = "rgba(0,0,0,0)"
COLOUR = {
    "f64": "#CC79A7",
    "f32": "#0072B2",
    "tf32": "#E69F00",
    "f16": "#009E73",
    "bf16": "#56B4E9",
    "fp8": "#D55E00",
    "i8": "#999933",  # Tol's olive: Okabe and Ito have none left that reads on white and on black
}
WORDS = {
    "f64": "float64", "f32": "float32", "tf32": "TF32", "f16": "float16", "bf16": "bfloat16", "fp8": "FP8",
    "i8": "int8",
}  # fmt: skip
SHAPE = {
    "f64": "pentagon", "f32": "square", "tf32": "circle", "f16": "diamond", "bf16": "triangle-up", "fp8": "star",
    "i8": "hexagon",
}  # fmt: skip
PARTS = {  # colour and pattern of a slice of a stage's time
    "launch": ("#CC79A7", "x"),
    "fill": ("#0072B2", "\\"),
    "main": ("#56B4E9", ""),
    "epilogue": ("#E69F00", "/"),
    "reduction": ("#D55E00", "+"),
    "layout": ("#009E73", "."),
    "bias": ("#E69F00", "-"),
}


def class_name(cls: str) -> str:
    """A precision class in words, as the pages write it."""
    return WORDS.get(cls, cls)


def colour(cls: str) -> str:
    return COLOUR.get(cls, INK)


def symbol(cls: str, kind: str) -> str:
    """A class's marker: filled when measured, hollow when predicted."""
    return SHAPE.get(cls, "hexagon") + ("" if kind == "measured" else "-open")


def rounded_log10(v: float) -> float:
    return round(log10(v), 4)


def marker(cls: str, kind: str, size: float = 9) -> dict[str, Any]:
    """The mark of a run in a class: filled when measured, hollow when predicted."""
    ink = colour(cls)
    return {"color": ink, "symbol": symbol(cls, kind), "size": size, "line": {"width": 1.6, "color": ink}}


def filling(ink: str, kind: str) -> dict[str, Any]:
    """A bar of a time: pale with an outline when predicted."""
    return {"color": ink, "opacity": 0.45 if kind == "predicted" else 1.0, "line": {"color": ink, "width": 1.5}}
