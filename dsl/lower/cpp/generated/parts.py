"""The plan of a stage with generated kernels: its parts in launch order, and the scratch between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dsl.ir import DType, TensorType
from dsl.lower.cpp.generated.space import HEADER, Access
from dsl.lower.cpp.generated.values import Reader, Value

FLAG = "guard_flag"  # pointer to the i32 that a kernel sets if a value is out of range (dsl.guard)
MULTIPROCESSORS = 132  # of an H200; on other devices the grids are less balanced, with the same results


@dataclass(frozen=True)
class Output:
    """A tensor that a part writes.

    `expression`: the C++ expression of an element over `acc` and `e_<pointer>` of each tensor that is read. `copied`:
    the source's element is copied unchanged.
    """

    pointer: str
    ctype: str
    expression: str
    copied: bool = False
    a: int = 0  # strides along a tile's two axes
    b: int = 0


@dataclass(frozen=True)
class Read:
    """A tensor that a part reads. `mode`: vector | scalar | gather | each; `step`: stride of a gather's elements."""

    pointer: str
    ctype: str
    mode: str = "vector"
    step: int = 1
    once: bool = False
    a: int = 0
    b: int = 0


@dataclass(frozen=True)
class OwnPlan:
    """The plan of a stage with generated kernels.

    `tensors` are in the order of Operands, each as member t_<name>. `scratch` is in bytes. `main`: index of the part
    whose threads and shared memory the facts report. `flag`: the last member of Operands is the guard's flag.
    """

    name: str
    kind: str
    tensors: tuple[str, ...]
    parts: tuple
    headers: tuple[str, ...]
    functions: tuple[str, ...]
    scratch: int = 0
    template: str = "own/stage.cu.j2"
    shared: tuple[str, ...] = ("own/common.cu.j2", "own/parts.cu.j2")
    launch: tuple[int, ...] = ()
    main: int = 0
    flag: bool = False


@dataclass
class Builder:
    """Collects the parts of a stage, and the C++ expression of each pointer that they use."""

    name: str
    kind: str
    types: dict[str, TensorType]
    places: dict[str, str] = field(default_factory=dict)  # pointer -> C++ expression
    tensors: dict[str, None] = field(default_factory=dict)
    parts: list = field(default_factory=list)
    scratch: int = 0
    dtypes: set[DType] = field(default_factory=set)

    def tensor(self, pointer: str, name: str, first: int = 0) -> None:
        """Add a pointer to a tensor of the program, or to a part of it that begins at the element `first`."""
        self.tensors[name] = None
        offset = first * self.types[name].dtype.bits // 8
        self.places[pointer] = f"static_cast<char*>(on.t_{name}) + {offset}" if offset else f"on.t_{name}"
        self.dtypes.add(self.types[name].dtype)

    def reads(self, reader: Reader) -> None:
        for pointer, name in reader.names.items():
            self.tensor(pointer, name, reader.firsts.get(pointer, 0))

    def room(self, pointer: str, size: int) -> None:
        """Add a pointer to `size` bytes of scratch."""
        self.places[pointer] = f"scratch + {self.scratch}"
        self.scratch += -(-size // 256) * 256

    def flag(self) -> None:
        """Add a pointer to the guard's flag."""
        self.places[FLAG] = f"on.{FLAG}"

    def pointers(self, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
        return tuple((name, self.places[name]) for name in names)

    def plan(self, values: Sequence[Value], **more) -> OwnPlan:
        headers = tuple(sorted({HEADER[d] for d in self.dtypes if d in HEADER}))
        functions = tuple(sorted({f for v in values for f in v.functions}))
        return OwnPlan(
            self.name, self.kind, tuple(self.tensors), tuple(self.parts), headers, functions, self.scratch,
            flag=FLAG in self.places, **more,
        )  # fmt: skip


def entry(number: int) -> str:
    """The prefix of a kernel's name: `stage` for the first part, then `part2` and so on."""
    return "stage" if number == 0 else f"part{number + 1}"


def access(pointer: str, kind: TensorType) -> Access:
    """The access of a whole tensor with its own strides."""
    return Access(pointer, kind.dtype, tuple(s if n > 1 else 0 for s, n in zip(kind.strides, kind.shape, strict=True)))
