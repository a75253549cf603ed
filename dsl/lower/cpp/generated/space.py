"""Index spaces: the sizes of the dimensions, and the strides of each tensor along them.

A generated kernel iterates over a space in some order and reads or writes tensors at affine offsets. Dimensions that
are contiguous in all tensors are merged, so a kernel has as few as possible. Offsets are C++ expressions with constant
sizes and strides, and the compiler turns the divisions into multiplications.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from dsl.ir import DType
from dsl.lower import Refusal

# The C++ type of each element in memory, and its header.
CTYPE = {
    DType.F32: "float",
    DType.F16: "__half",
    DType.BF16: "__nv_bfloat16",
    DType.E4M3: "__nv_fp8_e4m3",
    DType.E5M2: "__nv_fp8_e5m2",
    DType.I8: "signed char",
    DType.I32: "int",
}
HEADER = {
    DType.F16: "cuda_fp16.h",
    DType.BF16: "cuda_bf16.h",
    DType.E4M3: "cuda_fp8.h",
    DType.E5M2: "cuda_fp8.h",
}


@dataclass(frozen=True)
class Access:
    """A tensor in a space: the name of its pointer, its element type, its stride along each dimension, and the element
    of the tensor at which the pointer begins."""

    pointer: str
    dtype: DType
    strides: tuple[int, ...]
    first: int = 0

    @property
    def ctype(self) -> str:
        return CTYPE[self.dtype]

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.dtype.bits // 8


@dataclass(frozen=True)
class Space:
    """The sizes from the slowest to the fastest dimension.

    Only dimensions with the same mark are merged, and none whose mark ends with `!`.
    """

    sizes: tuple[int, ...]
    marks: tuple[str, ...]
    accesses: tuple[Access, ...]

    @property
    def count(self) -> int:
        return prod(self.sizes)

    def of(self, pointer: str) -> Access:
        return next(a for a in self.accesses if a.pointer == pointer)

    def ordered(self, order: Sequence[int]) -> Space:
        """The same space with its dimensions in another order."""
        return Space(
            tuple(self.sizes[i] for i in order),
            tuple(self.marks[i] for i in order),
            tuple(replace(a, strides=tuple(a.strides[i] for i in order)) for a in self.accesses),
        )

    def only(self, mark: str) -> Space:
        """The space of the dimensions with one mark."""
        return self.ordered([i for i, m in enumerate(self.marks) if m.rstrip("!") == mark])

    def with_only(self, pointers: Iterable[str]) -> Space:
        """The space with the accesses of these pointers only."""
        names = set(pointers)
        return replace(self, accesses=tuple(a for a in self.accesses if a.pointer in names))

    def merged(self) -> Space:
        """The space without dimensions of length 1, and with neighbours merged that are contiguous in every tensor."""
        keep = [i for i, n in enumerate(self.sizes) if n > 1 or self.marks[i].endswith("!")]
        space = self.ordered(keep)
        sizes, marks = list(space.sizes), list(space.marks)
        strides = [list(a.strides) for a in space.accesses]
        i = len(sizes) - 2
        while i >= 0:
            alike = marks[i] == marks[i + 1] and not marks[i].endswith("!")
            if alike and all(s[i] == s[i + 1] * sizes[i + 1] for s in strides):
                sizes[i] *= sizes[i + 1]
                for s in strides:
                    s[i] = s[i + 1]
                    del s[i + 1]
                del sizes[i + 1], marks[i + 1]
            i -= 1
        return Space(
            tuple(sizes),
            tuple(marks),
            tuple(replace(a, strides=tuple(s)) for a, s in zip(space.accesses, strides, strict=True)),
        )


def vector_width(space: Space, most: int, limits: Iterable[int] = ()) -> int:
    """The number of elements of one access along the fastest dimension.

    It is a power of two up to `most` that divides the dimension and `limits` and preserves the alignment of every
    tensor that is contiguous along it.
    """
    if not space.sizes:
        return 1
    width = most
    while width > 1 and not _fits(space, width, limits):
        width //= 2
    return width


def _fits(space: Space, width: int, limits: Iterable[int]) -> bool:
    if space.sizes[-1] % width or any(n % width for n in limits):
        return False
    for a in space.accesses:
        if a.strides[-1] == 1 and any(s % min(width, 16 // a.size) for s in (a.first, *a.strides[:-1])):
            return False
    return True


def aligned(width: int, fast: Space, slow: Space, pointers: Iterable[str]) -> int:
    """The width that also preserves alignment along the dimensions of `slow`, for tensors that are contiguous along the
    fastest dimension of `fast`."""
    for p in pointers:
        if fast.of(p).strides[-1] == 1:
            while width > 1 and any(s % min(width, 16 // fast.of(p).size) for s in slow.of(p).strides):
                width //= 2
    return width


def decode(
    index: str,
    space: Space,
    pointers: Iterable[str],
    *,
    unit: int = 1,
    wide: bool = False,
    tag: str = "i",
    at: str = "at",
) -> list[str]:
    """The C++ lines that compute coordinates and offsets from an index.

    They define the coordinates `<tag>0`, `<tag>1`... of vector number `index` of `unit` elements along the fastest
    dimension, and an offset `<at>_<pointer>` for each of `pointers`. `wide`: the index may exceed 2^31.
    """
    kind = "unsigned long long" if wide else "unsigned"
    lines, rank = [], len(space.sizes)
    if rank == 0:
        return [f"int const {at}_{p} = 0; (void){at}_{p};" for p in pointers]
    counts = [*space.sizes[:-1], space.sizes[-1] // unit]
    times = f" * {unit}" if unit > 1 else ""
    if rank == 1:
        lines.append(f"{kind} const {tag}0 = {index}{times};")
    else:
        lines.append(f"{kind} {tag}_rest = {index};")
        for d in range(rank - 1, 0, -1):
            scale = times if d == rank - 1 else ""
            suffix = "ull" if wide else "u"
            lines.append(
                f"{kind} const {tag}{d} = {tag}_rest % {counts[d]}{suffix}{scale}; {tag}_rest /= {counts[d]}{suffix};"
            )
        lines.append(f"{kind} const {tag}0 = {tag}_rest;")
    for p in pointers:
        lines.append(f"{offset(space, space.of(p), f'{at}_{p}', tag)} (void){at}_{p};")
    used = " ".join(f"(void){tag}{d};" for d in range(rank))
    return [*lines, used]


def offset(space: Space, a: Access, name: str, tag: str) -> str:
    """The statement that computes the offset of `a` at the coordinates `<tag>0`..., in 64 bits if it needs them."""
    far = sum((n - 1) * s for n, s in zip(space.sizes, a.strides, strict=True)) >= 2**31
    kind = "long long" if far else "int"
    terms = [
        f"({kind}){tag}{d}" + (f" * {s}" if s != 1 else "") for d, s in enumerate(a.strides) if s and space.sizes[d] > 1
    ]
    return f"{kind} const {name} = {' + '.join(terms) or '0'};"


def grid_of(blocks: int, name: str) -> int:
    """The x extent of a grid. Raises Refusal if it exceeds the limit of a launch."""
    if blocks >= 2**31:
        raise Refusal("cpp-size", f"{name} needs {blocks:,} thread blocks; a launch takes 2^31 - 1", "split the tensor")
    return max(1, blocks)


def power_of_two_above(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << max(0, n - 1).bit_length()
