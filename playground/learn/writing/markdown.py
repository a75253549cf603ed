"""Markdown to safe HTML: no raw HTML, no images, links only within the site or to https.

Numbers in double braces are computed: `{{ridge("h200", "f16")}}`, with a format after a bar: `{{x | .3g}}`,
`{{x | ms}}`, `{{x | bytes}}`, `{{x | rate}}`, `{{x | %}}`, `{{x | int}}`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

from markdown_it import MarkdownIt

from playground.learn.writing.expressions import ExpressionError, Scope, read

LONGEST = 5000  # characters of a paragraph: reading one takes time with the square of its length
BRACES = re.compile(r"\{\{([^{}]{0,500})\}\}")
_FENCE = re.compile(r"^( {0,3})(```+|~~~+)")
_PLAIN = re.compile(r"[\w .,:%/+()×·-]*")


def _link(url: str) -> bool:
    return bool(re.match(r"(?:/(?![/\\])|#|https://[\w.-]+(?:[/?#]|$))", url)) and not re.search(
        r"[\s\\\x00-\x1f]", url
    )


def _renderer() -> MarkdownIt:
    md = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table").disable(["image", "html_inline"])
    md.validateLink = _link  # type: ignore[method-assign]

    def link_open(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
        token = tokens[index]
        if str(token.attrGet("href") or "").startswith("https:"):
            token.attrSet("rel", "noopener noreferrer nofollow")
        return self.renderToken(tokens, index, options, env)

    md.add_render_rule("link_open", link_open)
    return md


_MD = _renderer()


def block(text: str, scope: Scope, wrong: Callable[..., None], line: int = 0) -> str:
    """HTML of a text. `wrong(line, words)` is called for each number that cannot be computed, and for a paragraph that
    is too long, whose text then has no HTML."""
    at, text = line, filled(text, scope, wrong, line)
    for paragraph in re.split(r"\n[ \t]{0,100}(?=\n)", text):
        if _long(paragraph, wrong, at + paragraph.startswith("\n")):
            return ""
        at += paragraph.count("\n") + 1
    return _MD.render(text)


def unfilled(text: str) -> str:
    """HTML of a text of ours in which double braces stand for themselves."""
    return _MD.render(text)


def inline(text: str, scope: Scope, wrong: Callable[..., None], line: int = 0) -> str:
    """HTML of one paragraph, without its `<p>`."""
    text = filled(text, scope, wrong, line)
    return "" if _long(text, wrong, line) else _MD.renderInline(text)


def _long(paragraph: str, wrong: Callable[..., None], line: int) -> bool:
    """Report a paragraph that is too long."""
    if len(paragraph) <= LONGEST:
        return False
    text = f"A paragraph has at most {LONGEST:,} characters; this one has {len(paragraph):,}."
    wrong(line, text, "Begin another one with an empty line.")
    return True


def escaped(text: str) -> str:
    return html.escape(text)


def filled(text: str, scope: Scope, wrong: Callable[..., None], line: int = 0) -> str:
    """The text with its computed numbers, outside of fenced code."""
    lines, fence = [], ""
    for number, row in enumerate(text.split("\n"), line):
        mark = _FENCE.match(row)
        if mark and not fence:
            fence = mark[2]
        elif mark and fence and mark[2].startswith(fence):
            fence = ""
        lines.append(row if fence or mark else _line(row, scope, wrong, number))
    return "\n".join(lines)


def plain(text: str, scope: Scope, wrong: Callable[..., None], line: int = 0) -> str:
    """The text with its computed numbers, for a place that shows no Markdown: a title or caption of a figure."""
    return _line(text, scope, wrong, line, plain_text=True)


def _line(row: str, scope: Scope, wrong: Callable[..., None], line: int, plain_text: bool = False) -> str:
    if "{{" in (rest := BRACES.sub("", row)) or "}}" in rest:
        wrong(line, "Double braces without their pair on this line: two open an expression, two close it.")
    return BRACES.sub(lambda m: _filling(m[1], scope, wrong, line, plain_text), row)


def _filling(text: str, scope: Scope, wrong: Callable[..., None], line: int, plain_text: bool = False) -> str:
    expression, _, form = text.rpartition("|") if "|" in text else (text, "", "")
    try:
        value = read(expression, scope).value()
        words = shown(value, form.strip())
    except ExpressionError as e:
        wrong(line, str(e))
        return "?"
    return words if plain_text or _PLAIN.fullmatch(words) else re.sub(r"([\\`*_{}\[\]()#+.!|<>&-])", r"\\\1", words)


def shown(value: Any, form: str = "") -> str:
    """A value as people read it. Raises ExpressionError for an unknown format."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ExpressionError(f"{value!r} is no number or word to show.")
    match form:
        case "" | "auto":
            return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.3g}"
        case "int":
            return f"{value:,.0f}"
        case "ms":
            return f"{value:.3g} ms" if value >= 0.1 else f"{value * 1e3:.3g} µs"
        case "bytes":
            for unit, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
                if abs(value) >= step:
                    return f"{value / step:.3g} {unit}"
            return f"{value:.0f} bytes"
        case "rate":
            return f"{shown(value / 1e12)} TFLOP/s"
        case "flops":
            for unit, step in (("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6)):
                if abs(value) >= step:
                    return f"{value / step:.3g} {unit}"
            return f"{value:.0f} FLOP"
        case "TB/s":
            return f"{value / 1e12:.3g} TB/s"
        case "%":
            return f"{value:.0%}"
        case "x":
            return f"{value:.3g}x"
    if re.fullmatch(r"\.\d[fge]", form):
        return format(value, form)
    raise ExpressionError(f"There is no format {form!r}; use int, ms, bytes, flops, rate, TB/s, %, x or .3g.")
