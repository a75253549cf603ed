"""Problems with a group of shapes: three kernels of SGLang, two activations and a cross entropy.

Each is a module of engine/problems whose first line ends in `(group).`, with its shape and data type in two lines of
constants, and a naive CUDA source beside it (engine/problems/naive), from which a strategy can start. A configuration
is tuned over the shapes `tuned` and reported on `unseen` too. The shapes are ours: widths of language models, and rows
from one small batch to a long prompt; no row count of `unseen` is a power of two.

Measured on a GPU as groups are silu_and_mul, add_rms_norm and merge_attention_states. Not yet: gelu_and_mul,
relu_squared, cross_entropy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.suite.cases import PROBLEMS

DTYPES = {"f16": "float16", "bf16": "bfloat16"}
_SHAPE = re.compile(r"^(?P<names>[A-Z]+(?:, [A-Z]+)*) = (?P<sizes>\d+(?:, \d+)*)$", re.MULTILINE)
_DTYPE = re.compile(r"^DTYPE = torch\.\w+$", re.MULTILINE)

Shape = tuple[int, ...]


@dataclass(frozen=True)
class ShapeGroup:
    """One problem. `tuned`, `unseen`: sizes in the order of the module's line of constants, rows first."""

    name: str
    tuned: tuple[Shape, ...]
    unseen: tuple[Shape, ...]

    def module(self, shape: Shape | None = None, cls: str = "f16") -> str:
        """The module at a shape (None: the one of its file) in f16 or bf16. Raises ValueError for a shape of another
        rank, sizes below one and other classes."""
        text = (PROBLEMS / f"{self.name}.py").read_text(encoding="utf-8")
        if cls not in DTYPES:
            raise ValueError(f"{self.name} comes in {' and '.join(DTYPES)}, not in {cls}")
        text = _DTYPE.sub(f"DTYPE = torch.{DTYPES[cls]}", text)
        return text if shape is None else _SHAPE.sub(lambda line: self._line(line, shape), text)

    def naive(self) -> str:
        """Its naive CUDA source, for f16 and bf16 and every shape."""
        return (PROBLEMS / "naive" / f"{self.name}.cu").read_text(encoding="utf-8")

    def _line(self, line: re.Match[str], shape: Shape) -> str:
        if len(shape) != len(line["sizes"].split(", ")) or min(shape) < 1:
            raise ValueError(f"{self.name} takes {line['names']}, each at least 1, not {shape}")
        return f"{line['names']} = {', '.join(map(str, shape))}"


_GATED = (
    ((16, 14336), (512, 14336), (4096, 11008), (8192, 14336), (2048, 28672)),
    ((48, 13824), (1000, 18944), (3000, 8192), (12000, 11008)),
)
GROUPS = {
    group.name: group
    for group in (
        ShapeGroup("silu_and_mul", *_GATED),
        ShapeGroup(
            "add_rms_norm",
            ((16, 4096), (512, 4096), (4096, 8192), (8192, 4096), (16384, 2048)),
            ((48, 5120), (1000, 3584), (3000, 8192), (12000, 4096)),
        ),
        ShapeGroup(
            "merge_attention_states",
            ((16, 32, 128), (512, 32, 128), (4096, 32, 128), (2048, 64, 128), (2048, 32, 256)),
            ((48, 40, 128), (1000, 28, 128), (3000, 64, 128), (5000, 16, 256)),
        ),
        ShapeGroup("gelu_and_mul", *_GATED),
        ShapeGroup("relu_squared", *_GATED),
        ShapeGroup(
            "cross_entropy",
            ((64, 128256), (1024, 32000), (4096, 32000), (4096, 50304), (2048, 128256)),
            ((48, 32000), (1000, 151936), (3000, 50304), (6000, 32000)),
        ),
    )
}


def group_of(source: str) -> ShapeGroup | None:
    """The group of which a module is an instance, whatever its shape and data type; None if it is of none."""
    structure = _without_sizes(source)
    return next((group for group in GROUPS.values() if _without_sizes(group.module()) == structure), None)


def _without_sizes(source: str) -> list[str]:
    text = "\n".join(line.rstrip() for line in source.strip().splitlines())
    return _DTYPE.sub("", _SHAPE.sub("", text)).splitlines()
