"""Write the models of well-known packages as texts that a session takes, for a census of modules that nobody tuned on.

    pip install torchvision timm transformers      # beside torch; nothing else of this repository needs them
    python -m engine.bench.studies.written_out FOLDER [--only timm,bert]
    python -m engine.bench.studies.census FOLDER --classes f16 --json census.json

Each model of engine.bench.studies.zoo goes the way of `ucutlass.optimize` up to its text: made by its own package with
random weights, traced by torch.export, written with the statistics of its weights. FOLDER gets one file a model, and
`left_out.json` with the versions of the packages and the reason of each model without a file. A model whose own forward
fails on its inputs is no model of the zoo, and not in either. The same command continues a folder.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

from engine import atomic_write
from engine.bench.studies import zoo
from engine.bench.studies.census import LEFT_OUT
from engine.bench.studies.real_modules import ucutlass


def text_of(name: str) -> str:
    """The model as a session's text. Raises zoo.NotMade, or ucutlass.OptimizeError or ValueError with the reason."""
    import torch

    ucutlass()
    search, arguments, source = (importlib.import_module(f"ucutlass.{m}") for m in ("search", "arguments", "source"))
    module, inputs = zoo.make(name)
    with torch.no_grad():
        call = arguments.checked(module, inputs, None)
        live = search.trace(module, call.args, call.kwargs)
        text = source.write(name, live.graph, live.values, live.inputs)
    if len(text) > search.LIVE_SOURCE:
        raise ValueError(f"its text has {len(text):,} characters; a session takes {search.LIVE_SOURCE:,}")
    return text


def written(name: str, folder: Path) -> str:
    """Write one model's file; "", or the reason why there is none. Raises zoo.NotMade."""
    try:
        text = text_of(name)
    except zoo.NotMade:
        raise
    except Exception as e:
        return f"{type(e).__name__}: {e}"[:400]
    file = folder / f"{name}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return ""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m engine.bench.studies.written_out", description=__doc__.split("\n")[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", metavar="A,B", help="models whose name has one of these words")
    args = parser.parse_args(argv)
    words = [w for w in args.only.split(",") if w]
    chosen = [name for name in zoo.NAMES if not words or any(w in name for w in words)]
    if not chosen:
        parser.error(f"no model has such a name; there are {', '.join(list(zoo.NAMES)[:5])} and others")
    args.folder.mkdir(parents=True, exist_ok=True)
    file = args.folder / LEFT_OUT
    left: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"packages": {}, "models": {}}
    for name in chosen:
        if (args.folder / f"{name}.py").exists() or name in left["models"]:
            continue
        package = name.partition("/")[0]
        try:
            left["packages"][package] = importlib.metadata.version(package)
            reason = written(name, args.folder)
        except (zoo.NotMade, ImportError) as e:
            print(f"{name}: not made here: {e}", flush=True)
        else:
            print(f"{name}: {reason or 'written'}", flush=True)
            left["models"] |= {name: reason} if reason else {}
        atomic_write.write_results(file, left)
    return 0


if __name__ == "__main__":
    sys.exit(main())
