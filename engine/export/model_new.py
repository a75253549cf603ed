"""A module as one file with `class ModelNew`, the form of KernelBench's solutions.

The file holds the original module, so that the parameters are drawn in the same order and take the same `state_dict`,
and the files of its package as texts. It needs what the package needs: a GPU and its compilers.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.export import ExportError, module_package, package
from engine.export.composition import Whole


def text(whole: Whole) -> str:
    """The file. Raises ExportError for a program without its module."""
    if whole.module is None:
        raise ExportError("a ModelNew replaces a PyTorch module, and this program has none; export the package")
    files, built = module_package.inside(whole)
    needs = "".join(f"#   {line}\n" for line in package.requirements(module_package.backends(built)))
    name = f"ucutlass_{whole.stem}"
    head = f"# {name}: the module below with {module_package.words(whole)}. It needs:\n{needs}\n"
    module = whole.module if whole.module.endswith("\n") else f"{whole.module}\n"
    tail = package.shipped("model_new.py").partition("\n")[2]
    return f"{head}{module}\n\n_NAME = {name!r}\n_FILES = {_literal(files)}\n{tail}"


def _literal(files: Mapping[str, str]) -> str:
    """The texts as a dict of Python, one line of a text in each line."""
    rows = []
    for name, content in files.items():
        lines = "".join(f"        {line!r}\n" for line in content.splitlines(keepends=True)) or "        ''\n"
        rows.append(f"    {name!r}: (\n{lines}    ),\n")
    return "{\n" + "".join(rows) + "}"
