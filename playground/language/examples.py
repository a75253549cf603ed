"""Example texts, read from the rooms that they belong to. Modules are read as text and never imported here."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from playground import conf
from playground.access.requests import title_of
from playground.language import topics

KERNELS = "engine/problems/naive"  # plain CUDA sources, each named like the module that it computes
PLACES = (("program", "dsl/examples", "*.ucutlass"), ("module", "engine/problems", "*.py"))
# The examples that a first visitor sees, in this order: modules that the search covers, programs from short to rich.
FEATURED = {
    "module": ("linear_scale_leaky", "linear_silu_f16", "mlp_gelu", "matmul_square", "bmm", "matmul_residual"),
    "program": ("linear_gelu_f16", "gemm_scale_leaky", "mlp", "swiglu", "layernorm_residual", "conv_bn_relu"),
}


@functools.cache
def all_examples(root: Path = conf.ROOT) -> list[dict[str, Any]]:
    """[{id, kind, title, name, topic, text, kernel, featured}]: programs first, in each kind the featured ones first,
    then by file name. `title`: a sentence; `name`: a few words; `kernel`: a raw CUDA kernel of a module, or "".
    """
    rows = []
    for kind, folder, pattern in PLACES:
        first = FEATURED[kind]
        paths = [path for path in (root / folder).glob(pattern) if not path.name.startswith("_")]
        for path in sorted(paths, key=lambda p: (first.index(p.stem) if p.stem in first else len(first), p.name)):
            text = path.read_text(encoding="utf-8")
            names = {"name": topics.name_of(path.stem), "topic": topics.topic_of(path.stem)}
            row = {"id": path.stem, "kind": kind, "title": title_of(text, kind), "text": text}
            own = root / KERNELS / f"{path.stem}.cu"
            row["kernel"] = own.read_text(encoding="utf-8") if kind == "module" and own.is_file() else ""
            rows.append(row | names | {"featured": path.stem in first})
    return rows
