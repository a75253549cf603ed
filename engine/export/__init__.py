"""A program to take away: its texts, a PyTorch package that pip installs, and a check against the original module.

    what = history.of_trial(rows, blob, 3)                  # a trial of a recording or of a session's log
    what = Exported(program_text, cls="f16", module=text)   # or a program by itself
    archive(package.files(what)) -> the bytes of a zip, the same for the same texts on every machine

Everything here is text in, bytes out: nothing is built, run or imported, so the web process answers with it too.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sol.figures import Figure

WHEN = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can say


class ExportError(ValueError):
    """There is nothing that can be exported; the message says why, in a sentence for a person."""


@dataclass(frozen=True)
class Exported:
    """What goes into a package.

    text      the program, as it was written.
    cls       the precision class whose tolerance its results are held to.
    backend   the back end that is used where none is named; None: the first that takes the program.
    module    the source of the original PyTorch module, or None.
    tensors   {program parameter: path of the module's parameter or buffer}; check.py finds what is missing by name.
    inputs    {program parameter: place among the tensors of get_inputs()}, likewise.
    swapped   the program parameters that see the last two axes of their tensor swapped.
    region    None where the program is the whole module; else which part it is: {number (0: unknown), of, words, lines,
              ops, inputs, outputs}, and of a timed trial {ms, pytorch_ms, kind}: the region alone.
    recorded  {"resolved" | back end: text}: what a trial really ran, which goes in as it is.
    results   JSON-ready facts of a trial and its session, or None.
    sms       multiprocessors of the device that `auto` is resolved for.
    figures   {name: figure} of the session that the trial is from.
    """

    text: str
    cls: str
    backend: str | None = None
    module: str | None = None
    tensors: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, int] = field(default_factory=dict)
    swapped: tuple[str, ...] = ()
    region: Mapping[str, Any] | None = None
    recorded: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, Any] | None = None
    sms: int = 132
    figures: Mapping[str, Figure] = field(default_factory=dict)


def archive(files: Mapping[str, str]) -> bytes:
    """A zip of the files: sorted, without times, stored and not deflated, for deflated bytes depend on the zlib."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as out:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, WHEN)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            out.writestr(entry, files[name].encode())
    return made.getvalue()


def write(files: Mapping[str, str], out: Path) -> None:
    """To `out`: a zip where its name ends so, else a folder (the files' own folder at their root is left out).

    Raises ExportError where that folder holds something already.
    """
    if out.suffix == ".zip":
        out.write_bytes(archive(files))
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ExportError(f"{out} exists already; name a new folder, or a file that ends in .zip")
    for name, text in files.items():
        path = out / name.partition("/")[2]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
