"""Publish a bench's results into the repository: `python -m engine.bench.report.publish bench.json [more.json ..]`.

    engine/results/bench-SET-GPU-DATE.json   the data, without the texts of programs that are not the best
    engine/results/bench.md                  every problem of the suite, a table a class
    static/data/bench.json                   what the gallery draws
    README.md, engine/results/README.md      the tables between the marks of their names

Without a file everything is generated again from the newest committed data, for example after an edit of causes.toml.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from engine.bench.report import bench_report, collect, page
from engine.suite.cases import BESIDE, set_of

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "engine/results"
MARK = "<!-- {}: made by python -m engine.bench.report.publish -->\n{}\n<!-- end of {} -->"


def committed(which: str = "suite59") -> Path | None:
    """The newest committed bench of a set."""
    return collect.newest(RESULTS.glob(f"bench-{which}-*.json"))


def files(bench: dict[str, Any], name: str, beside: dict[str, tuple[dict[str, Any], str]]) -> dict[Path, str]:
    """The contents of all files generated from a collected bench: path -> text, READMEs whole. `beside`: the benches of
    the modules outside the suite, and their files' names, by set."""
    first = bench_report.classes(bench)[0]
    report, short = bench_report.markdown(bench, name), bench_report.short_table(bench)
    for which, (others, its) in beside.items():
        report = "\n".join([report, *bench_report.outside(which, others, its)])
        short += f"\n\n{bench_report.outside_sentence(which, others)}"
    readme, results = ROOT / "README.md", RESULTS / "README.md"
    furthest = bench_report.furthest_table(bench, first)
    return {
        RESULTS / "bench.md": f"{report}\n",
        ROOT / "static/data/bench.json": json.dumps(page.page(bench, name), ensure_ascii=False) + "\n",
        readme: marked(readme.read_text(encoding="utf-8"), "bench", short),
        results: marked(results.read_text(encoding="utf-8"), "furthest", furthest),
    }


def from_committed() -> dict[Path, str] | None:
    """`files` of the newest committed data; None if there is none of the suite."""
    suite, others = committed(), {which: path for which in BESIDE if (path := committed(which))}
    if suite is None:
        return None
    beside = {which: (bench_report.read(path), path.name) for which, path in others.items()}
    return files(bench_report.read(suite), suite.name, beside)


def marked(text: str, name: str, table: str) -> str:
    """`text` with `table` between the marks of `name`. Raises ValueError if it has no such marks."""
    marks = re.compile(rf"<!-- {name}: .*?<!-- end of {name} -->", re.DOTALL)
    if not marks.search(text):
        raise ValueError(f"there are no marks named {name}: put {MARK.format(name, '', name)!r}")
    return marks.sub(lambda _: MARK.format(name, table, name), text, count=1)


def main(argv: list[str]) -> int:
    written = []
    for path in argv:
        results = collect.bench(path)
        which = set_of(row["id"] for row in results["problems"].values())
        gpu = results["gpu"].removeprefix("NVIDIA ").split()[0].lower()
        target = RESULTS / f"bench-{which}-{gpu}-{results['date']}.json"
        target.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        written.append(target)
    contents = from_committed()
    if contents is None:
        print(
            "there is no bench of suite59 to publish: python -m engine.bench.report.publish bench.json", file=sys.stderr
        )
        return 2
    for path, text in contents.items():
        path.write_text(text, encoding="utf-8")
        written.append(path)
    print("\n".join(str(p.relative_to(ROOT)) for p in written))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
