"""The page that shows two sessions side by side: what is read from its address, and what its template gets."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Any
from urllib.parse import unquote, urlsplit

from django.utils.html import escape

from engine.words import class_name
from playground.access.answers import Refused
from playground.access.bodies import NO_TEXT
from playground.gallery import comparison
from playground.gallery.sides import NOT_SHARED, Side
from playground.language.reference import highlight

_PLACES = ("s", "embed", "framed", "card")  # where a view link's name stands in an address
# Lines of a text whose differing lines are marked, and those up to which common lines such as `}` may align too: a text
# made to be slow then takes tenths of a second.
_MARKED, _EXACT = 1000, 400
FIX = "Open the control link and copy the view link from there."


def name_of(link: str) -> str:
    """The session's name in what a visitor gave: the name itself or an address of its page; "" for nothing. Raises
    Refused for what is no address, and for a control link, which lets whoever has it stop the session."""
    try:
        parts = [part for part in urlsplit(unquote(link.strip())).path.split("/") if part]
    except ValueError:  # for example a bracket without its other half
        raise Refused(400, "This is no link to a session.", FIX) from None
    if any(NO_TEXT.search(part) for part in parts):  # encoded twice; a database may refuse it
        raise Refused(400, "This is no link to a session.", FIX)
    if "c" in parts[:-1]:
        raise Refused(400, "This is a control link, which can stop the session.", FIX)
    at = next((i for i, part in enumerate(parts[:-1]) if part in _PLACES), None)
    return parts[at + 1].removesuffix(".png") if at is not None else parts[-1] if parts else ""


def context(a: Side, b: Side, asked: str) -> dict[str, Any]:
    """What the template shows of two sessions. `asked`: the class whose programs the visitor chose, if any."""
    classes = list(dict.fromkeys([*a.view.fastest, *b.view.fastest]))
    shared = comparison.shared_classes(a.view, b.view)
    both = asked if asked in classes else _first(a, shared)
    chosen = [both or _own(side) for side in (a, b)]
    texts = [side.program(cls) if cls else None for side, cls in zip((a, b), chosen, strict=True)]
    kernels = any(side.form(cls) == "kernel" for side, cls in zip((a, b), chosen, strict=True))
    modules = [side.text(side.view.source) for side in (a, b)]
    return {
        "a": a, "b": b, "reasons": _reasons(a, b, shared), "rows": [_row(a, b, cls) for cls in _listed(a, b, classes)],
        "classes": [(cls, class_name(cls)) for cls in classes], "cls": both,
        "bests": [_side(side, cls) for side, cls in zip((a, b), chosen, strict=True)],
        "programs": _texts(a, b, texts, escape if kernels else highlight), "modules": _texts(a, b, modules, escape),
        "same_program": texts[0] is not None and texts[0] == texts[1],
        "same_module": bool(a.view.source) and a.view.source == b.view.source,
    }  # fmt: skip


def _first(a: Side, shared: list[str]) -> str:
    """The shared class in which A is furthest ahead of PyTorch; "" if they share none."""
    return max(shared, key=lambda cls: a.view.trials[a.view.fastest[cls]].judged.speedup, default="")


def _own(side: Side) -> str:
    return side.view.shown.judged.cls if side.view.shown else ""


def _listed(a: Side, b: Side, classes: list[str]) -> list[str]:
    """The classes of the table: those with a program, then those that a session was allowed."""
    return list(dict.fromkeys([*classes, *a.view.classes, *b.view.classes]))


def _reasons(a: Side, b: Side, shared: list[str]) -> list[str]:
    """Why no ratio is given, over all classes; empty if each shared class has one."""
    for side in (a, b):
        if not side.view.fastest:
            return [f"{side.letter} has no program whose time counts."]
    if not shared:
        ours, theirs = (", ".join(map(class_name, side.view.fastest)) for side in (a, b))
        return [f"They share no precision class: A has programs in {ours}, B in {theirs}."]
    return list(dict.fromkeys(reason for cls in shared for reason in _differences(a, b, cls)))


def _differences(a: Side, b: Side, cls: str) -> list[str]:
    pair = [comparison.conditions(side.view, side.view.trials[side.view.fastest[cls]]) for side in (a, b)]
    return comparison.differences(*pair)


def _row(a: Side, b: Side, cls: str) -> dict[str, Any]:
    """A class in the table: limits, best times, and the ratio or a dash."""
    words = "–"
    if cls in a.view.fastest and cls in b.view.fastest and not _differences(a, b, cls):
        trials = [side.view.trials[side.view.fastest[cls]] for side in (a, b)]
        divided = comparison.ratio(*trials)
        words = ratio_words(divided, trials[0].judged.kind) if divided else "–"
    return {
        "name": class_name(cls), "bounds": (a.bound(cls), b.bound(cls)), "bests": (a.best(cls), b.best(cls)),
        "ratio": words,
    }  # fmt: skip


def ratio_words(ratio: comparison.Ratio, kind: str) -> str:
    """A ratio as a sentence; that no difference can be told is a part of it."""
    if ratio.low is None or ratio.high is None:
        return f"A takes {ratio.value:.2f} times as long as B."
    if not ratio.clear:
        if kind == "predicted":
            return f"A takes {ratio.value:.2f} times as long as B, a difference within the model's error."
        return f"No clear difference: A takes {ratio.low:.2f} to {ratio.high:.2f} times as long as B."
    ahead, value = ("B", ratio.value) if ratio.value > 1 else ("A", 1 / ratio.value)
    low, high = (ratio.low, ratio.high) if ratio.value > 1 else (1 / ratio.high, 1 / ratio.low)
    what = "the model's error gives" if kind == "predicted" else "95% interval"
    return f"{ahead} is {value:.2f} times as fast ({what} {low:.2f} to {high:.2f})."


def _side(side: Side, cls: str) -> dict[str, Any]:
    return {"side": side, "cls": class_name(cls) if cls else "", "best": side.best(cls) if cls else None}


def _texts(a: Side, b: Side, texts: list[str | None], colour: Any) -> list[dict[str, Any]]:
    """[{side, html, missing}]: both texts with marks around the lines that the other does not have."""
    marked = differing(*texts, colour) if None not in texts else [t and colour(t) for t in texts]
    missing = [
        "" if text is not None else NOT_SHARED if not side.shared else "There is no program of this class."
        for side, text in zip((a, b), texts, strict=True)
    ]
    return [
        {"side": side, "html": html or "", "missing": why}
        for side, html, why in zip((a, b), marked, missing, strict=True)
    ]


def differing(a: str, b: str, colour: Any) -> list[str]:
    """Two texts as HTML, each with marks around the lines that the other does not have. `colour`: line -> HTML."""
    lines = [re.split(r"\r?\n", text.rstrip("\n")) for text in (a, b)]
    longest = max(map(len, lines))
    if longest > _MARKED:
        return [colour(a), colour(b)]
    blocks = SequenceMatcher(None, *lines, autojunk=longest > _EXACT).get_matching_blocks()
    common = ({m.a + i for m in blocks for i in range(m.size)}, {m.b + i for m in blocks for i in range(m.size)})
    return [
        "\n".join(html if i in same else f"<mark>{html}</mark>" for i, html in enumerate(map(colour, side)))
        for side, same in zip(lines, common, strict=True)
    ]
