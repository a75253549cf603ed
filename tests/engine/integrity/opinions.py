"""How far kernelguard, the second opinion, agrees with the zoo: whom it names, whom it accuses wrongly.

pip install kernelguard && python -m tests.engine.integrity.opinions --json kernelguard.json
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from engine.evaluate.integrity.texts import opinion
from tests.engine.integrity import zoo

FOLDERS = ("cheats", "cuda_cheats", "honest", "cuda_honest")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.engine.integrity.opinions")
    parser.add_argument("--json", metavar="OUT")
    args = parser.parse_args(argv)
    if not opinion.installed():
        print("error: kernelguard is not installed: pip install kernelguard", file=sys.stderr)
        return 2
    rows = []
    for folder in FOLDERS:
        for a in zoo.animals(folder):
            evidence = [f.evidence for f in opinion.ask(a.text)]
            rows.append({"where": folder, "name": a.path.name, "said": evidence[0] if evidence else None})
    cheats = [r for r in rows if "cheats" in r["where"]]
    honest = [r for r in rows if r not in cheats]
    counts = {
        "cheats": len(cheats), "cheats named": sum(r["said"] is not None for r in cheats),
        "honest": len(honest), "honest accused": sum(r["said"] is not None for r in honest),
    }  # fmt: skip
    report = {
        "date": datetime.now(UTC).date().isoformat(), "gpu": None, "driver": None,
        "toolchain": {"kernelguard": importlib.metadata.version("kernelguard"), "profile": opinion.PROFILE},
        "command": "python -m tests.engine.integrity.opinions --json kernelguard.json", "counts": counts,
        "results": [r for r in rows if r["said"]],
    }  # fmt: skip
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(counts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
