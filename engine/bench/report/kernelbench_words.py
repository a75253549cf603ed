"""The report of a bench over KernelBench (engine.bench.report.kernelbench) as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

NAMES = {
    "eager": "eager as shipped", "eager_tf32": "eager TF32", "compile": "torch.compile TF32",
    "compile_f32": "torch.compile as shipped", "best": "PyTorch's fastest way",
}  # fmt: skip
NAMED = 12  # problems that a list names before it counts the rest


def markdown(contents: dict[str, Any]) -> str:
    about, levels = contents["about"], contents["levels"]
    blocks = [
        f"# KernelBench in class {contents['class']}",
        _machine(about), _words(),
        "## Problems\n", _problems(levels),
        "## Speedups, geometric means\n", *(_means(name, level) for name, level in levels.items()),
        "## fast-p: the share of all problems that are more than p times as fast\n",
        *(_fast(name, level, contents["fast"]) for name, level in levels.items()),
        "## Farthest from their limit\n", _worst(contents["worst"]),
        "## Without a program of ours\n", *_without(levels), _degenerate(levels),
    ]  # fmt: skip
    return "\n".join(block for block in blocks if block)


def _machine(about: dict[str, Any]) -> str:
    settings = about.get("sessions", {})
    some = ("trials", "search_seconds", "strategy", "compile_ways")
    fields = ", ".join(f"{name} {settings[name]}" for name in some if settings.get(name))
    if about.get("kind") == "predicted":
        return f"Every time is **predicted** for {about.get('hardware')}, none is measured. {fields}.\n"
    gpus = f"{about.get('gpus', 1)} x {about.get('gpu')}, {about.get('at_once', 1)} sessions at once on each"
    return f"{gpus}; driver {about.get('driver')}, torch {about.get('torch')}, {about.get('date')}. {fields}.\n"


def _words() -> str:
    return (
        "*Ours* is the fastest right program that passed every check; a problem without one counts as eager PyTorch as "
        "shipped. *Result* is the faster of ours and the fastest of PyTorch's ways that the class allows and that was "
        "timed. *PyTorch itself*: problems without a program of ours. A number in parentheses says how many problems a "
        "figure is of, if it is not of all.\n"
    )


def _problems(levels: dict[str, Any]) -> str:
    head = (
        "", "problems", "right program", "of these slower than PyTorch's fastest", "PyTorch itself", "refused",
        "ours at least 0.97x PyTorch's fastest", "result at least 0.97x", "median s a problem",
        "median s to the first time",
    )  # fmt: skip
    rows = [
        (
            name, s["problems"], s["ours"], s["slower_than_pytorch"], s["pytorch"], s["refused"],
            _share(s["no_slower"]["ours"]), _share(s["no_slower"]["result"]), _seconds(s["seconds"]),
            _seconds(s["first"]),
        )
        for name, s in levels.items()
    ]  # fmt: skip
    lacking = {n: count for s in list(levels.values())[-1:] for n, count in s["not_timed"].items()}
    named = ", ".join(f"{NAMES.get(n, n)} of {count}" for n, count in lacking.items())
    return table(head, rows) + (f"\nNot timed (the rows say why): {named}.\n" if named else "")


def _means(name: str, s: dict[str, Any]) -> str:
    rows = []
    for what, by in s["means"].items():
        for who, over in by.items():
            most = max((v["of"] for v in over.values()), default=0)
            rows.append((what if who == "ours" else "", who, *(_mean(over[n], most) for n in NAMES)))
    return f"### {name}\n\n" + table(("", "", *(f"over {words}" for words in NAMES.values())), rows)


def _mean(value: dict[str, Any], most: int) -> str:
    if not value["of"]:
        return "-"
    return f"{value['mean']:.2f}x" + (f" ({value['of']})" if value["of"] < most else "")


def _fast(name: str, s: dict[str, Any], ps: Sequence[float]) -> str:
    rows = [
        (NAMES[n] if who == "ours" else "", by["timed"], who, *(f"{share:.0%}" for share in by[who]))
        for n, by in s["fast"].items()
        for who in ("ours", "result")
        if by["timed"]
    ]
    return f"### {name}, {s['problems']} problems\n\n" + table(
        ("over", "timed on", "", *(f"p = {p:g}" for p in ps)), rows
    )


def _worst(rows: Sequence[dict[str, Any]]) -> str:
    head = ("problem", "by", "ms", "times its limit", "over PyTorch's fastest", "stays PyTorch")
    return table(
        head,
        [
            (
                c["name"], "ours" if c["kind"] == "ours" else "PyTorch", f"{c['ms']:.4g}", f"{c['gap']:.2f}",
                f"{c['against']:.2f}x" if c["kind"] == "ours" and c["against"] else "", _stays(c["stays"]),
            )
            for c in rows
        ],
    )  # fmt: skip


def _stays(ops: dict[str, int]) -> str:
    return ", ".join(f"{op} x{n}" if n > 1 else op for op, n in list(ops.items())[:6])


def _without(levels: dict[str, Any]) -> list[str]:
    """The causes, of all levels together."""
    every = levels.get("all") or next(iter(levels.values()))
    lines = []
    for title, causes in (("Refused", every["causes"]), ("PyTorch itself", every["itself"])):
        for cause, names in causes.items():
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            lines.append(f"- {title}, {len(names)}: {cause} ({', '.join(names[:NAMED])}{more})")
    return lines or ["None."]


def _degenerate(levels: dict[str, Any]) -> str:
    names = dict.fromkeys(name for s in levels.values() for name in s["degenerate"])
    return f"\nDegenerate: {', '.join(names)}." if names else ""


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in lines) + "\n"


def _share(value: dict[str, Any]) -> str:
    return "-" if value["share"] is None else f"{value['share']:.0%} of {value['of']}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
