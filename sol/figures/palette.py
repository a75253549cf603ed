"""How every figure looks: Okabe and Ito's colours, a marker shape beside each, an ink that reads on white and black."""

from __future__ import annotations

from math import log10
from typing import Any

INK = "#767676"
GRID = "rgba(118,118,118,0.25)"
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
    "f64": "pentagon", "f32": "square", "tf32": "circle", "f16": "diamond", "bf16": "triangle-up", "fp8": "cross",
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


def axis(title: str, **more: Any) -> dict[str, Any]:
    return {
        "title": {"text": title},
        "gridcolor": GRID,
        "linecolor": INK,
        "tickcolor": INK,
        "zeroline": False,
        "automargin": True,
        **more,
    }


def plot_layout(name: str, x: dict[str, Any], y: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": INK, "size": 12},
        "margin": {"l": 56, "r": 12, "t": 12, "b": 44},
        "xaxis": x,
        "yaxis": y,
        "legend": {"orientation": "h", "y": -0.25},
        "hovermode": "closest",
        "uirevision": name,
        **more,
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
