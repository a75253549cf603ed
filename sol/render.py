"""A report's Markdown and HTML. It reads the report's plain data, so it needs neither graph nor device."""

from __future__ import annotations

from html import escape
from typing import Any

_BINDS = {"matrix": "matrix units", "vector": "arithmetic pipes", "special": "special functions", "memory": "memory"}
LEGEND = {
    "limit": "the least time at the published rates, with the whole module as one kernel (`fused`) or an operation at "
    "a time (`unfused`)",
    "ridge": "the FLOP/byte above which arithmetic sets the limit, and below which memory does",
    "gap": "time / limit; 1 is the limit",
    "score": "1 / (1 + (time - limit) / (PyTorch's time - limit)); 0.5 is PyTorch, 1 is the limit",
}


def ms(value: float) -> str:
    """A time with three significant digits in a unit that fits it."""
    if value == 0:
        return "0"
    if value < 0.9995e-6:
        return "less than 1 ns"
    if value < 0.9995e-3:
        return f"{value * 1e6:.3g} ns"
    if value < 0.0995:
        return f"{value * 1e3:.3g} µs"
    return f"{value:.3g} ms" if value < 999.5 else f"{value / 1e3:.3g} s"


def ratio(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 1000 else f"{value:,.0f}"


def si(value: float, unit: str) -> str:
    """`1.37e11, FLOP` -> `137 GFLOP`."""
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size * 0.9995:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def _main(r: dict[str, Any]) -> str:
    return r.get("main") or r["classes"][0]


def bounds_table(r: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """One row per class: limit, the binding unit, the limit at measured rates (if any were measured), unfused, ridge,
    PyTorch with its gap and score (0.5 by definition)."""
    measured = r["gpu"].get("measured", True)
    head = [
        "class",
        "limit (fused)",
        "set by",
        *(["at measured rates"] if measured else []),
        "unfused",
        "FLOP/byte",
        "ridge",
        "PyTorch",
        "gap",
        "score",
    ]
    rows = []
    for cls in r["classes"]:
        b, base = r["bounds"][cls], r["baselines"][cls]
        launch = b.get("launch_ms")  # then a multiple of the limit says nothing
        rows.append(
            [
                cls,
                ms(b["ms"]),
                f"a launch: about {ms(launch)}" if launch else _BINDS[b["bound_by"]],
                *([ms(b["ceiling_ms"])] if measured else []),
                ms(b["unfused_ms"]),
                f"{b['intensity']:.3g}",
                f"{b['ridge']:.3g}",
                ms(base["ms"]) + (" (predicted)" if base["kind"] == "predicted" else ""),
                "launch" if launch else ratio(base["gap"]),
                "-" if launch else f"{base['score']:.2f}",
            ]
        )
    return head, rows


def best_table(r: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The times of the best programs, if any."""
    head = ["class", "best program", "over PyTorch", "gap", "score"]
    rows = []
    for cls, b in r.get("best", {}).items():
        launch = r["bounds"][cls].get("launch_ms")
        against = ["launch", "-"] if launch else [ratio(b["gap"]), f"{b['score']:.2f}"]
        rows.append([cls, ms(b["ms"]), f"{b['speedup']:.2f}x", *against])
    return head, rows


def _flops(o: dict[str, Any]) -> str:
    """FLOPs as PyTorch counts them and, if they differ, those that no kernel can skip."""
    counted, needed = si(o["flops"], "FLOP"), si(o.get("needed", o["flops"]), "FLOP")
    return counted if needed == counted else f"{counted} ({needed} needed)"


def ops_table(r: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """One row per op; views are left out, since they cost nothing."""
    head = ["op", "line", "shapes", "FLOPs", "traffic", "FLOP/byte", "own limit", "set by", "share"]
    rows = []
    for o in r["ops"]:
        if o["kind"] in ("view", "none"):
            continue
        shapes = " ".join("x".join(map(str, s)) or "scalar" for s in o["shapes"])
        out = " ".join("x".join(map(str, s)) or "scalar" for s in o["out"])
        rows.append(
            [
                o["name"],
                str(o["line"] or ""),
                f"{shapes} -> {out}",
                _flops(o),
                si(o["bytes"], "B"),
                f"{o['intensity']:.3g}",
                ms(o["ms"][_main(r)]),
                _BINDS.get(o["bound_by"], ""),
                f"{o['share']:.0%}" if o["live"] else "unused",
            ]
        )
    return head, rows


def levers_table(r: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Levers in their order, with predicted gains."""
    head = ["", "lever", "predicted gain", "why"]
    rows = []
    for i, lever in enumerate(r["levers"], 1):
        gain = f"{ms(lever['saves_ms'])} ({lever['speedup']:.2f}x)"
        rows.append([str(i), lever["title"], gain, lever["why"]])
    return head, rows


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _markdown_table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [
        "| " + " | ".join(map(_cell, head)) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(map(_cell, row)) + " |" for row in rows),
    ]


def _heading(r: dict[str, Any]) -> str:
    return f"Speed of light on {r['gpu']['title']}"


def markdown(r: dict[str, Any]) -> str:
    """The report as Markdown."""
    lines = [f"## {_heading(r)}", "", *_markdown_table(*bounds_table(r)), ""]
    lines += [*(f"- {word}: {meaning}" for word, meaning in LEGEND.items()), ""]
    if r.get("best"):
        lines += ["### Best so far", "", *_markdown_table(*best_table(r)), ""]
    lines += [f"### Operations (priced in {_main(r)})", "", *_markdown_table(*ops_table(r)), ""]
    if r["levers"]:
        lines += ["### Levers, best first (gains are predictions)", "", *_markdown_table(*levers_table(r)), ""]
    lines += [f"- {note}" for note in r["notes"]]
    if r["notes"]:
        lines.append("")
    lines.append(r["sentence"])
    return "\n".join(lines) + "\n"


def _html_table(caption: str, head: list[str], rows: list[list[str]]) -> str:
    cells = "".join(f'<th scope="col">{escape(h)}</th>' for h in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return (
        f'<div class="table-scroll"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def html(r: dict[str, Any], figures: str = "") -> str:
    """The report as an HTML section; classes only, so that a strict content policy holds. `figures`: its pictures, as
    HTML."""
    parts = [
        f'<section class="sol-report"><h2>{escape(_heading(r))}</h2>',
        f'<p class="sol-sentence">{escape(r["sentence"])}</p>',
        figures,
        _html_table("Limits by precision class", *bounds_table(r)),
        '<dl class="sol-legend">',
        *(f"<dt>{escape(word)}</dt><dd>{escape(meaning)}</dd>" for word, meaning in LEGEND.items()),
        "</dl>",
    ]
    if r.get("best"):
        parts.append(_html_table("Best so far", *best_table(r)))
    if r["levers"]:
        parts.append(_html_table("Levers, best first; gains are predictions", *levers_table(r)))
    parts.append(_html_table(f"Operations, priced in {_main(r)}", *ops_table(r)))
    if r["notes"]:
        parts.append('<ul class="sol-notes">' + "".join(f"<li>{escape(n)}</li>" for n in r["notes"]) + "</ul>")
    return "".join(parts) + "</section>"
