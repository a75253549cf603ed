"""Results as data, from recordings and logs of the GPU machine: the numbers that stay, without what they came from.

python -m engine.bench.report.collect optimize RECORDING.jsonl ...   > engine/results/optimize-GPU-DATE.json
python -m engine.bench.report.collect app app.json                   > engine/results/app-GPU-DATE.json
python -m engine.bench.report.collect table optimize-GPU-DATE.json   # the table of the README, as Markdown
python -m engine.bench.report.collect suite suite.json               > engine/results/suite59-GPU-DATE.json
python -m engine.bench.report.collect suite-table suite59-GPU-DATE.json > engine/results/suite59.md
python -m engine.bench.report.collect matrix matrix.json             > engine/results/matrix-DATE.json
python -m engine.bench.report.collect bench bench.json               > engine/results/bench-SET-GPU-DATE.json
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.bench.report.speedups import counts
from engine.session import recording
from engine.session.fold.reduce import View, fold
from engine.session.spec import SessionSpec
from engine.session.spec_arguments import command_of
from engine.suite.cases import order, set_of
from engine.suite.table import summary


def newest(paths: Iterable[Path]) -> Path | None:
    """The latest results file by the date that ends its name; of one date the last by name, as `-later-` comes after a
    GPU's. None if there is no file."""
    return max(paths, key=lambda path: (path.stem[-10:], path.stem), default=None)


def optimize(paths: Iterable[str | Path]) -> dict[str, Any]:
    """{date, device, driver, toolchain, method, modules: [...]} of recorded sessions, all of one device.

    A module: {title, command, baselines: class -> {name, ms, low, high}, best: class -> a trial, trials, failed,
    seconds, first_trial_s, trial_s: back end -> median seconds from proposal to verdict}. Times without a unit are in
    ms; a trial's `ratio` is the baseline's time over its own in alternation, with a 95% interval.
    """
    about: dict[str, Any] = {}
    modules, methods = [], set()
    for path in sorted(map(Path, paths)):
        view = fold(recording.read(path).rows)
        if view.end is None or view.device.get("kind") != "measured":
            raise ValueError(f"{path.name} is not a measured session at its end")
        head = {"date": datetime.fromtimestamp(view.started_t, UTC).date().isoformat()}
        head |= {name: view.device[name] for name in ("gpu", "driver", "toolchain")}
        if about and about != head:
            raise ValueError(f"{path.name} is of another day, device or toolchain than the files before it: {head}")
        about = head
        modules.append(_module(view))
        methods |= {t.measured.time["method"] for t in view.trials.values() if t.measured is not None}
    return about | {"method": "; ".join(sorted(methods)), "modules": modules}


def _module(view: View) -> dict:
    """`best` holds the fastest of each class, even if it is slower than PyTorch, because the table shows both times."""
    best = {}
    for cls, n in view.fastest.items():
        trial, m = view.trials[n], view.trials[n].measured
        best[cls] = {
            "trial": n,
            "backend": trial.backend,
            "change": trial.change,
            **{name: m.time[name] for name in ("ms", "low", "high")},
            **{name: getattr(m, name) for name in ("baseline", "baseline_ms", "ratio", "ratio_low", "ratio_high")},
        }
    lasted: dict[str, list[float]] = {}
    for t in view.trials.values():
        if t.ended:
            end = t.steps["judged" if t.judged is not None else "failed"]
            lasted.setdefault(t.backend, []).append(end - t.steps["proposed"])
    measured = [t.steps["measured"] for t in view.trials.values() if "measured" in t.steps]
    return {
        "title": view.title,
        "command": view.device.get("command", ""),
        "baselines": {
            b.cls: {"name": b.name, "ms": b.ms, "low": b.time["low"], "high": b.time["high"]} for b in view.baselines
        },
        "best": best,
        "trials": len(view.proposed),
        "failed": sum(t.failed is not None for t in view.trials.values()),
        "seconds": round(view.end.seconds or 0.0, 1),
        "first_trial_s": round(min(measured) - view.started_t, 1) if measured else None,
        "trial_s": {b: round(statistics.median(s), 2) for b, s in sorted(lasted.items())},
    }


def app(path: str | Path) -> dict[str, Any]:
    """The whole app on the GPU machine (tests/gpu/test_app.py, its OUT/app.json): the numbers without the logs."""
    raw = json.loads(Path(path).read_text(encoding="utf-8"))
    log = raw["followed"]["log"]
    device = log[0]["data"]["device"]
    report: dict[str, Any] = {
        "date": datetime.fromtimestamp(log[0]["t"], UTC).date().isoformat(),
        **{k: device[k] for k in ("gpu", "driver", "toolchain")},
        "command": "OUT=. python -m pytest -m gpu tests/gpu/test_app.py",
    }
    for name, part in raw.items():
        view = fold(part["log"])
        report[name] = {
            "end": part["end"],
            "events": len(part["log"]),
            "seq_without_gap": view.seq == len(part["log"]),
            "resumed": len(view.resumed),
            "log_s": round(part["log"][-1]["t"] - part["log"][0]["t"], 1),
            "judged": {
                t.number: {k: getattr(t.judged, k) for k in ("ms", "speedup", "baseline", "kind")}
                for t in view.trials.values()
                if t.judged is not None
            },
        }
    followed = raw["followed"]
    report["followed"] |= {
        "first_trial_s": round(followed["first_trial_s"], 2),
        "trials_s": [round(s, 2) for s in followed["trials_s"]],
        "trials_s_median": round(statistics.median(followed["trials_s"]), 2),
    }
    return report


def table(path: str | Path) -> str:
    """The best of each module and class as Markdown, with the baseline of its alternation."""
    rows = ["| module | class | PyTorch, ms | ours, ms | ratio (95% interval) |", "|---|---|---|---|---|"]
    for m in json.loads(Path(path).read_text(encoding="utf-8"))["modules"]:
        for cls, b in sorted(m["best"].items()):
            ratio = f"{b['ratio']:.3f} ({b['ratio_low']:.3f} to {b['ratio_high']:.3f})"
            ratio = f"**{ratio}**" if b["ratio_low"] > 1 else ratio
            rows.append(f"| {m['title']} | {cls} | {b['baseline_ms']:.4f} | {b['ms']:.4f} | {ratio} |")
    return "\n".join(rows)


def suite(path: str | Path) -> dict[str, Any]:
    """`python -m engine suite --json`: every run's numbers and pairs of times [eager TF32, ours], in ms.

    A row's `commit` is added by hand, because only the person who ran it knows the commit on the machine.
    """
    raw = json.loads(Path(path).read_text(encoding="utf-8"))
    about = raw["about"]
    left_out = ("seconds", "cached", "log")
    return {
        **{name: about[name] for name in ("date", "gpu", "driver", "toolchain")},
        "command": "python -m engine suite --device cuda --jobs 14 --json suite.json",
        "method": "CUDA events in alternation with the module in eager mode with TF32, L2 flushed, fresh zero-mean "
        "data; error: ||ours - float64|| / ||float64||",
        "results": [
            {k: _short(v) for k, v in row.items() if k not in left_out}
            for row in sorted(raw["results"], key=lambda r: (order(r["id"]), r["program"], r["backend"]))
        ],
    }


def _short(value: Any) -> Any:
    """Times to 0.1 us, other numbers to six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return [_short(v) for v in value] if isinstance(value, list) else value


def suite_table(path: str | Path) -> str:
    """Every program of the suite by back end, as Markdown, and a summary."""
    results = json.loads(Path(path).read_text(encoding="utf-8"))
    rows = [
        "# The 59 problems, each as a program",
        "",
        f"{results['gpu']}, driver {results['driver']}, {results['date']}; torch {results['toolchain']['torch']}.",
        f"{results['method']}.",
        "The ratio is that module's time over the program's (above 1: the program is faster), with its 95% interval.",
        f"Raw data: `{Path(path).name}`; made by `{results['command']}`, gone on from as the code changed: "
        "each row names",
        "the commit that it was measured at. Of a convolution's batch a few images are held against float64 (`scope`",
        "in the raw data) and the whole result against eager TF32.",
        "",
        "| problem | program | back end | class | error | allowed | ms | eager TF32, ms | ratio | commit |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in results["results"]:
        name = f"| {r['id']} | {r['program']} | {r['backend']} | {r.get('class', '')} "
        if not r["ok"]:
            rows.append(f"{name}| {r['failed']}: {r['message'].strip().splitlines()[0][:120]} | | | | | |")
            continue
        ratio = f"{r['ratio']:.2f} ({r['ratio_low']:.2f} to {r['ratio_high']:.2f})"
        allowed = max(r["tolerance"], 2 * (r["pytorch_error"] or 0)) if r["error"] > r["tolerance"] else r["tolerance"]
        times = f"{r['ms']:.4f} | {r['eager_ms']:.4f} | {ratio}"
        rows.append(f"{name}| {r['error']:.1e} | {allowed:.1e} | {times} | {r['commit']} |")
    return "\n".join([*rows, "", *summary(results["results"])])


def matrix(path: str | Path) -> dict[str, Any]:
    """`python -m tests.dsl.matrix --json`: the configurations that compiled with each back end, by name."""
    raw = json.loads(Path(path).read_text(encoding="utf-8"))
    keep = ("name", "backend", "ok", "seconds", "refused", "message", "source")
    return {
        "date": raw["date"],
        "gpu": None,  # compiling needs no GPU
        "driver": None,
        "toolchain": raw["toolchain"],
        "command": "python -m tests.dsl.matrix --jobs 15 --json matrix.json",
        "counts": raw["counts"],
        "results": [{k: r[k] for k in keep if k in r} for r in raw["results"]],
    }


_PLACE = re.compile(r"/(?:tmp|work|root|home|usr|dev)/[^\s:'\",()]*")  # paths of that machine in compilers' messages


def bench(path: str | Path) -> dict[str, Any]:
    """`python -m engine bench --json` without the programs' texts, except the best's; `sol replay` reads it.

    Of a trial's checks, those that passed are dropped. Raises ValueError for predicted results.
    """
    raw = json.loads(Path(path).read_text(encoding="utf-8"))
    about = raw["about"]
    if about.get("kind", "measured") != "measured":
        raise ValueError(f"{path}: its times are predictions for {about['hardware']}; results are measured on a GPU")
    left_out = ("why", "elements", "whole_error", "agrees", "max_error", "cached", "log", "scope", "call_ms")
    for row in raw["problems"].values():
        fastest = {id(t) for t in _fastest(row)}
        row["trials"] = [
            {k: _short(v) for k, v in t.items() if k not in left_out and (k != "text" or id(t) in fastest)}
            for t in row["trials"]
        ]
        for t in row["trials"]:
            if "checks" in t:
                t["checks"] = [c for c in t["checks"] if c["verdict"] != "passed"]
        for part in row["baselines"].values():
            part.pop("key", None)
        for part in row.get("composed", {}).values():  # its programs' texts stand in the regions' rows
            part["programs"] = list(part["programs"])
            part["checks"] = [c for c in part.get("checks", ()) if c["verdict"] != "passed"]
        for part in (*row["trials"], *row.get("composed", {}).values(), *row["baselines"].values()):
            part |= {k: _PLACE.sub("FILE", part[k]) for k in ("message", "error") if isinstance(part.get(k), str)}
        row.pop("revision", None)
    return {
        **{name: about[name] for name in ("date", "gpu", "driver", "toolchain")},
        "command": _asked(raw["problems"], about.get("sessions")),
        **({"sessions": about["sessions"]} if "sessions" in about else {}),
        "about": {k: v for k, v in about.items() if k in ("device", "hardware", "torch", "events_us")},
        "problems": raw["problems"],
    }


def _fastest(row: dict) -> list[dict]:
    """The best trial of each class; in a module with regions, of each region."""
    fastest: dict[tuple, dict] = {}
    for t in row["trials"]:
        part = t.get("part", {})
        key, ms = (t["class"], part.get("region", 0)), part.get("region_ms", t.get("ms"))
        if counts(t) and not t.get("algebraic") and (key not in fastest or ms < fastest[key][0]):
            fastest[key] = (ms, t)
    return [t for _, t in fastest.values()]


def _asked(problems: dict[str, dict], settings: dict[str, Any] | None) -> str:
    """The command that reproduces all of it, however many calls it took. `settings`: of all its sessions."""
    which = set_of(row["id"] for row in problems.values())
    if settings is not None:
        fields = SessionSpec(title="any", source="any", **settings)
        words = command_of(fields, which).removeprefix("python -m engine optimize ")
        return f"python -m engine bench {words} --json bench.json"
    trials = [t["class"] for row in problems.values() for t in row["trials"]]
    classes = sorted(set(trials), key=lambda c: (c != "tf32", c))
    most = max((sum(t["class"] == c for t in row["trials"]) for row in problems.values() for c in classes), default=0)
    compiled = any("compile" in row["baselines"] for row in problems.values())
    asked = [f"python -m engine bench {which} --device cuda", *(f"--class {c}" for c in classes), f"--trials {most}"]
    return " ".join([*asked, *(["--compile"] if compiled else []), "--json bench.json"])


MAKERS: dict[str, Callable[[list[str]], Any]] = {
    "optimize": optimize,
    "app": lambda paths: app(*paths),
    "table": lambda paths: table(*paths),
    "suite": lambda paths: suite(*paths),
    "suite-table": lambda paths: suite_table(*paths),
    "matrix": lambda paths: matrix(*paths),
    "bench": lambda paths: bench(*paths),
}


def main(argv: list[str]) -> int:
    if len(argv) < 2 or argv[0] not in MAKERS:
        print(__doc__, file=sys.stderr)
        return 2
    output = MAKERS[argv[0]](argv[1:])
    print(output if isinstance(output, str) else json.dumps(output, indent=1, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
