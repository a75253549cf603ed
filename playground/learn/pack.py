"""One folder that runs the lessons in a hall without a network: `python -m engine lessons pack --out FOLDER`.

start.py        the one command of the teacher's laptop: python3 start.py
README.md       what a teacher does
app/            the app, with its lessons and recordings, as this checkout has them
wheels.txt      the Python packages that it needs, with their versions
wheels/         those packages as files, with --wheels (packing then needs a network, starting never does)
lessons/        a teacher's own lessons, copied from UCUTLASS_LESSONS; more can be put there
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from playground import conf

BUNDLE = Path(__file__).parent / "bundle"  # start.py and README.md
ROOMS = ("dsl", "sol", "engine", "playground", "ucutlass_web", "templates", "static")
FILES = ("manage.py", "requirements.txt", "LICENSE", "README.md")
LEFT_OUT = ("__pycache__", "*.pyc", "results", ".*")
RESULTS = ("bench-suite59-h200-2026-11-21.json", "bench-f16-h200-2026-11-21.json")  # that lessons read


class PackError(ValueError):
    """The folder cannot be made; the message says why and what to do."""


def pack(out: Path, *, wheels: bool = False) -> str:
    """Make the folder; returns what was packed, in words. Raises PackError."""
    out = out.expanduser().resolve()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise PackError(f"{out} exists and is not empty. Name a new folder.")
    if out == conf.ROOT or (conf.ROOT in out.parents and out.relative_to(conf.ROOT).parts[0] in ROOMS):
        raise PackError(f"{out} lies inside of the app. Name a folder outside.")
    app = out / "app"
    try:
        app.mkdir(parents=True)
        for room in ROOMS:
            shutil.copytree(conf.ROOT / room, app / room, ignore=shutil.ignore_patterns(*LEFT_OUT))
        for name in FILES:
            shutil.copy2(conf.ROOT / name, app / name)
        _results(app / "engine" / "results")
        shutil.copy2(conf.ROOT / "requirements.txt", out / "wheels.txt")
        for name in ("start.py", "README.md"):
            shutil.copy2(BUNDLE / name, out / name)
        own = conf.get("UCUTLASS_LESSONS")
        (out / "lessons").mkdir()
        for path in sorted(Path(own).expanduser().glob("*.md")) if own else []:
            shutil.copy2(path, out / "lessons" / path.name)
    except OSError as e:
        raise PackError(f"cannot write {out}: {e.strerror}") from None
    if wheels:
        _wheels(out)
    lessons = len(list((app / "playground" / "lessons").glob("*/lesson.md")))
    recordings = len(list((app / "playground" / "recordings").glob("*.jsonl")))
    size = sum(f.stat().st_size for f in out.rglob("*") if f.is_file())
    with_wheels = f", {len(list((out / 'wheels').iterdir()))} wheels" if wheels else ""
    return (
        f"{out}: {lessons} lessons, {recordings} recordings{with_wheels}, {size / 1e6:.0f} MB. Start: python3 start.py"
    )


def _results(target: Path) -> None:
    """The parts of engine/results that the app reads: its package, and the benches of the lessons."""
    source = conf.ROOT / "engine" / "results"
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path.suffix in (".py", ".toml", ".md") or path.name in RESULTS:
            shutil.copy2(path, target / path.name)


def _wheels(out: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:"]
    done = subprocess.run(
        [*command, "--dest", str(out / "wheels"), "-r", str(out / "wheels.txt")], capture_output=True, text=True
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise PackError(f"The wheels could not be fetched: {last}. Pack without --wheels, or try again with a network.")
