"""A program as one file with `class ModelNew`, the form of KernelBench's solutions.

The file holds the original module, so that the parameters are drawn in the same order, the files of the program's
package as texts, and a `forward` that calls the program. It needs what the package needs: a GPU and its compilers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from engine.export import Exported, ExportError, package

DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "i32": "int32",
    "i64": "int64", "bool": "bool",
}  # fmt: skip


def text(what: Exported) -> str:
    """The file. Raises ExportError for a program without its whole module."""
    if what.module is None:
        raise ExportError("a ModelNew replaces a PyTorch module, and this program has none; export the package")
    if what.region:
        part = package.region_words(what.region)
        raise ExportError(
            f"this program is {part} of the module, and a ModelNew computes all of it; export the package"
        )
    if not what.outputs:
        raise ExportError("the session does not say what the module returns; export the package")
    files = {name.partition("/")[2]: content for name, content in package.files(what).items()}
    name = next(path.partition("/")[0] for path in files if path.endswith("/facts.json"))
    inside = {path.partition("/")[2]: content for path, content in files.items() if path.startswith(f"{name}/")}
    outputs = [(list(shape), DTYPES[dtype]) for shape, dtype in what.outputs]
    needs = "".join(
        f"#   {line}\n" for line in package.requirements(tuple(json.loads(inside["facts.json"])["backends"]))
    )
    head = f"# {name}: a μCUTLASS program in place of the module below, in class {what.cls}. It needs:\n{needs}\n"
    module = what.module if what.module.endswith("\n") else f"{what.module}\n"
    facts = f"_NAME = {name!r}\n_OUTPUTS = {outputs!r}  # (shape, element type) of the module's results\n"
    tail = package.shipped("model_new.py").partition("\n")[2]
    return f"{head}{module}\n\n{facts}_FILES = {_literal(inside)}\n{tail}"


def _literal(files: Mapping[str, str]) -> str:
    """The texts as a dict of Python, one line of a text in each line."""
    rows = []
    for name, content in files.items():
        lines = "".join(f"        {line!r}\n" for line in content.splitlines(keepends=True)) or "        ''\n"
        rows.append(f"    {name!r}: (\n{lines}    ),\n")
    return "{\n" + "".join(rows) + "}"
