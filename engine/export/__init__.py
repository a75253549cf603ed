"""Export a program: its texts, a PyTorch package for pip, and a check against the original module.

    what = history.of_trial(rows, blob, 3)                  # a trial of a recording or of a session's log
    what = Exported(program_text, cls="f16", module=text)   # or a program by itself
    archive(package.files(what)) -> the bytes of a zip, the same for the same texts on every machine

This package turns text into bytes. It builds, runs and imports nothing, so the web process can use it.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sol.figures import Figure

WHEN = (1980, 1, 1, 0, 0, 0)  # the earliest time in a zip


class ExportError(ValueError):
    """The export is not possible; the message is the reason, in one sentence for a person."""


@dataclass(frozen=True)
class Exported:
    """The contents of a package.

    text      the program, as it was written.
    cls       the precision class; its results must be within this class's tolerance.
    backend   the default back end; None: the first that takes the program.
    module    the source of the original PyTorch module, or None.
    tensors   {program parameter: path of the module's parameter or buffer}; check.py finds the others by name.
    inputs    {program parameter: place among the tensors of get_inputs()}, likewise.
    swapped   the program parameters whose tensor has its last two axes swapped.
    outputs   (shape, element type) of each result of the module, or () where the session does not say.
    region    None if the program is the whole module; else its part of the module: {number (0: unknown), of, words,
    lines,
              ops, inputs, outputs}, and, for a timed trial, {ms, pytorch_ms, kind} of the region alone.
    recorded  {"resolved" | back end: text}: the texts that a trial ran, stored unchanged.
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
    outputs: tuple[tuple[tuple[int, ...], str], ...] = ()
    region: Mapping[str, Any] | None = None
    recorded: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, Any] | None = None
    sms: int = 132
    figures: Mapping[str, Figure] = field(default_factory=dict)


def archive(files: Mapping[str, str]) -> bytes:
    """A zip of the files: sorted, without times, and not deflated, because deflated bytes depend on the version of
    zlib."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as out:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, WHEN)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            out.writestr(entry, files[name].encode())
    return data.getvalue()


def write(files: Mapping[str, str], out: Path) -> None:
    """Write to `out`: a zip if its name ends in .zip, else a folder (without the root folder of the files' paths).

    Raises ExportError if that folder is not empty.
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
