"""Every form of an export: a package, a ModelNew or a notebook, of a whole module or of a program by itself."""

from __future__ import annotations

from collections.abc import Callable

from engine.export import Exported, ExportError, model_new, module_package, notebook, package
from engine.export.composition import Whole
from engine.export.module_package import words


def files(what: Exported | Whole) -> dict[str, str]:
    """{path in the zip: text} of its package. Raises ExportError."""
    if isinstance(what, Exported):
        return package.files(what)
    return module_package.files(what, model_new.text(what) if what.module is not None else None)


def _of_whole(text: Callable[[Whole], str]) -> Callable[[Exported | Whole], str]:
    def one_file(what: Exported | Whole) -> str:
        if isinstance(what, Whole):
            return text(what)
        if what.region:
            part = package.region_words(what.region)
            raise ExportError(f"this program is {part} of the module, and a ModelNew computes all of it")
        raise ExportError("a ModelNew replaces a traced module, and this program has none; export the package")

    return one_file


SINGLE = {".py": _of_whole(model_new.text), ".ipynb": _of_whole(notebook.text)}  # exports of one file, by their endings

__all__ = ["SINGLE", "files", "words"]
