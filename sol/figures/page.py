"""Figures for paper and for files: pictures with their tables, as HTML without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from sol.figures.figure import Figure
from sol.figures.svg import svg

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 760px; margin: 24px auto; padding: 0 16px; color: #1b1e22; }
figure { margin: 0 0 32px; } svg { max-width: 100%; height: auto; } h2 { font-size: 17px; margin: 0 0 4px; }
figcaption { color: #555c65; font-size: 13.5px; } summary { color: #555c65; cursor: pointer; font-size: 13.5px; }
.table { overflow-x: auto; } table { border-collapse: collapse; font-size: 12.5px; }
th, td { text-align: left; padding: 3px 12px 3px 0; border-bottom: 1px solid #e1e2dd; white-space: nowrap; }
@media (prefers-color-scheme: dark) { body { background: #121417; color: #e6e8ea; } th, td { border-color: #2b3036; } }
"""


def figures(drawn: Iterable[Figure]) -> str:
    """Each figure as a <figure>: title, picture, caption, and its table to open. Classes only, no styles."""
    return "\n".join(
        f"<figure><h2>{escape(f.title)}</h2>\n{svg(f.figure, f.title)}<figcaption>{escape(f.caption)}</figcaption>"
        f"{_table(f.rows)}</figure>"
        for f in drawn
    )


def html(title: str, drawn: Mapping[str, Figure], note: str = "") -> str:
    """A page by itself. `note`: where the numbers are from."""
    lead = f"<p>{escape(note)}</p>\n" if note else ""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}</h1>\n{lead}{figures(drawn.values())}\n</body></html>\n"
    )


def _table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{escape(_cell(v))}</td>' for v in row.values())}</tr>" for row in rows)
    return (
        f'<details><summary>As a table</summary><div class="table"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></details>"
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
