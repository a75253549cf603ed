"""The rows of the held-out modules as a table: `python -m tests.engine.held_out.table`."""

import json
from pathlib import Path


def main() -> None:
    rows = json.loads((Path(__file__).parent / "results.json").read_text())
    print("| module | outcome | programs | PyTorch beside them, or the reason |\n|---|---|---|---|")
    for name, row in rows.items():
        rest = ", ".join(row["pytorch"]) if row["outcome"] == "taken" else row["reason"]
        print(f"| {name} | {row['outcome']} | {row.get('programs', '')} | {rest} |")


if __name__ == "__main__":
    main()
