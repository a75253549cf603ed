"""A convolution's rows of pixels leave by 16 bytes wherever they begin: each result once, none beside them."""

from types import SimpleNamespace

import pytest

from dsl.lower.cute.conv.conv_store import STORE


class Pointer:
    """Of one element in a list; `width`: bits of an element."""

    def __init__(self, memory, at, width, counts=None):
        self.memory, self.at, self.width, self.counts = memory, at, width, counts
        self.dtype, self.memspace = SimpleNamespace(width=width), "memory"

    def toint(self):
        return self

    def __add__(self, elements):
        return Pointer(self.memory, self.at + elements, self.width, self.counts)


class View:
    def __init__(self, pointer, size):
        self.pointer, self.size = pointer, size

    def __getitem__(self, i):
        return self.pointer.memory[self.pointer.at + i]

    def __setitem__(self, i, value):
        place = self.pointer.at + i
        assert place >= 0
        self.pointer.memory[place] = value
        if self.pointer.counts is not None:
            self.pointer.counts[place] += 1


class Registers(list):
    def load(self):
        return SimpleNamespace(to=lambda dtype: list(self))

    def store(self, values):
        self[:] = values


def make_ptr(dtype, pointer, memspace, assumed_align):
    assert pointer.at * dtype.width // 8 % assumed_align == 0
    return pointer


def copy(source, target):
    for i in range(target.size):
        target[i] = source[i]


CUTE = SimpleNamespace(
    jit=lambda f: f, make_layout=lambda shape: shape[0], make_tensor=View, autovec_copy=copy,
    make_rmem_tensor=lambda shape, dtype: Registers([None] * shape[0]), make_ptr=make_ptr,
)  # fmt: skip
CUTLASS = SimpleNamespace(
    min=min, max=max, Int32=int, Int64=int, range_constexpr=range, range=lambda n, unroll: range(n)
)  # fmt: skip


def kernel(**config):
    scope = {"cute": CUTE, "cutlass": CUTLASS}
    exec(STORE, scope)
    instance = scope["ConvResults"]()
    instance.__dict__.update(config)
    instance.pixels = instance.box[0] * instance.box[1] * instance.box[2]
    instance.tiles = [-(-size // edge) for size, edge in zip(instance.out, instance.box, strict=True)]
    return instance


@pytest.mark.parametrize("bits", [32, 16])
@pytest.mark.parametrize(
    ("phases", "box", "width", "height", "depth"),
    [(2, (8, 4, 1), 13, 5, 1), (2, (16, 2, 1), 33, 3, 1), (2, (16, 1, 2), 30, 2, 3), (3, (8, 2, 1), 35, 3, 1),
     (1, (16, 2, 1), 19, 3, 1), (1, (32, 1, 1), 21, 2, 1)],
)  # fmt: skip
def test_each_result_leaves_once(phases, box, width, height, depth, bits):
    images, channels, columns = 2, 6, 8
    pitch = (channels * width * height * depth, width * height * depth, 1, width, width * height)
    out = (-(-width // phases), height, depth)
    k = kernel(
        box=box, phases=phases, out=out, width=width, columns=columns, part=4, channels=channels, warp_groups=1,
        strides=(0, *pitch),
    )  # fmt: skip
    elements = images * pitch[0]
    memory, counts = [None] * (elements + 64), [0] * (elements + 64)
    result = SimpleNamespace(element_type=SimpleNamespace(width=bits), iterator=Pointer(memory, 0, bits, counts))
    for image in range(images):
        for tile in range(k.tiles[0] * k.tiles[1] * k.tiles[2]):
            at_tile = (tile % k.tiles[0], tile // k.tiles[0] % k.tiles[1], tile // (k.tiles[0] * k.tiles[1]))
            q = tuple(t * b for t, b in zip(at_tile, box, strict=True))
            for start in range(0, columns, 4):
                staged = [None] * (4 * phases * k.pixels)
                for column in range(4):
                    for phase in range(phases):
                        for row in range(k.pixels):
                            value = (image, start + column, *k.pixel(row, phase, q))
                            staged[k.by_channel(column, phase, row)] = value
                pointer = Pointer(staged, 0, 32)
                for thread in range(128):
                    k.leave_by_rows(pointer, thread, result, (0, 0, q, image), start)
    assert counts == [1] * elements + [0] * 64
    for image in range(images):
        for channel in range(channels):
            for w in range(width):
                place = image * pitch[0] + channel * pitch[1] + (height - 1) * width + w
                assert memory[place] == (image, channel, w, height - 1, 0)
