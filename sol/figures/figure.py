"""A figure as data, and the graph objects that it is made of: validated by plotly, kept as plain JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sol.figures.palette import GRID, INK, MUTED


@dataclass(frozen=True)
class Figure:
    """`figure`: {data, layout} for Plotly; `rows`: the same facts as a table, one dict a row, the same keys in each;
    `title`: what it shows; `caption`: what it says, in whole sentences."""

    figure: dict[str, Any]
    rows: list[dict[str, Any]]
    title: str = ""
    caption: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"figure": self.figure, "rows": self.rows, "title": self.title, "caption": self.caption}


def plain(value: Any) -> Any:
    """A graph object's property as JSON gives it back: lists for tuples."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value


def scatter(**properties: Any) -> dict[str, Any]:
    """plotly.graph_objects.Scatter as JSON. Raises ValueError on a property that Plotly does not have."""
    import plotly.graph_objects as go

    return plain(go.Scatter(**properties).to_plotly_json())


def bar(**properties: Any) -> dict[str, Any]:
    """plotly.graph_objects.Bar, lying, as JSON. Raises ValueError on a property that Plotly does not have."""
    import plotly.graph_objects as go

    return plain(go.Bar(orientation="h", **properties).to_plotly_json())


def layout(
    name: str,
    x: dict[str, Any],
    y: dict[str, Any],
    *,
    shapes: Iterable[dict[str, Any]] = (),
    annotations: Iterable[dict[str, Any]] = (),
    **more: Any,
) -> dict[str, Any]:
    """plotly.graph_objects.Layout as JSON: transparent, in the inks of the palette, the legend above the plot. (Each
    shape and annotation is validated by itself: as a list of a layout they take four times as long.)"""
    import plotly.graph_objects as go

    base = go.Layout(
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", font={"color": INK, "size": 12},
        margin={"l": 52, "r": 16, "t": 8, "b": 40} | more.pop("margin", {}), xaxis=x, yaxis=y, uirevision=name,
        hovermode="closest",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "font": {"size": 11, "color": MUTED},
                "itemclick": False, "itemdoubleclick": False, "bgcolor": "rgba(0,0,0,0)"},
        **more,
    ).to_plotly_json()  # fmt: skip
    drawn = [go.layout.Shape(**s).to_plotly_json() for s in shapes]
    notes = [go.layout.Annotation(**a).to_plotly_json() for a in annotations]
    return plain(base | {"shapes": drawn, "annotations": notes})


def axis(title: str, **more: Any) -> dict[str, Any]:
    return {
        "title": {"text": title, "standoff": 6, "font": {"size": 11.5, "color": MUTED}},
        "tickfont": {"size": 11, "color": MUTED}, "gridcolor": GRID, "linecolor": MUTED, "zeroline": False,
        "automargin": True, **more,
    }  # fmt: skip


def ticks(low: float, high: float, steps: Sequence[float] = (1, 2, 5)) -> dict[str, Any]:
    """Round numbers for a log axis, written out."""
    values, power = [], 1e-6
    while power <= high:
        values += [s * power for s in steps if low * 0.999 <= s * power <= high * 1.001]
        power *= 10
    return {"tickvals": [float(f"{v:.6g}") for v in values], "ticktext": [f"{v:,.6g}" for v in values]}


def across(y: float, colour: str, dash: str = "solid", width: float = 1.0) -> dict[str, Any]:
    """A line over the whole width at `y`."""
    return _line({"xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y}, colour, dash, width)


def down(x: float, colour: str, dash: str = "solid", width: float = 1.0) -> dict[str, Any]:
    """A line over the whole height at `x`."""
    return _line({"yref": "paper", "y0": 0, "y1": 1, "x0": x, "x1": x}, colour, dash, width)


def _line(place: dict[str, Any], colour: str, dash: str, width: float) -> dict[str, Any]:
    return {"type": "line", **place, "line": {"color": colour, "dash": dash, "width": width}}


def label(text: str, colour: str = MUTED, **place: Any) -> dict[str, Any]:
    """An annotation without an arrow."""
    return {"text": text, "showarrow": False, "font": {"size": 10.5, "color": colour}, **place}


def beside(y: float, text: str, colour: str = MUTED) -> dict[str, Any]:
    """A label in the right margin at the height of `y`."""
    return label(text, colour, xref="paper", x=1, xanchor="left", xshift=5, y=y, yanchor="middle")


PLOT = 210.0  # pixels between the axes of a chart on the page, near enough to keep labels apart
STEP = 13  # pixels from one label to the next


def apart(labels: list[dict[str, Any]], low: float, high: float) -> list[dict[str, Any]]:
    """Labels of the right margin moved apart where they would lie on each other; `y` stays what each names. `low`,
    `high`: the range of the axis, in its own unit (of a log axis the exponents)."""
    scale = PLOT / (high - low) if high > low else 0.0
    floor = float("-inf")
    for one in sorted(labels, key=lambda a: a["y"]):
        at = max((one["y"] - low) * scale, floor)
        one["yshift"] = round(at - (one["y"] - low) * scale)
        floor = at + STEP
    return labels
