"""Runs the part of a tensor-core convolution of `cute` behind its sums: they go through the epilogue to the results.
Each lane has what warp-group MMA leaves it, and everything beside a tile's pixels and channels is NaN."""

import ast
from itertools import product

import numpy as np
import torch

from . import emulator

BRANCHING = ("leave", "leave_some", "leave_folded", "leave_window", "put")  # methods whose lanes may differ


class Value(np.ndarray):
    def to(self, dtype):
        return emulator._rounded(np.asarray(self), dtype).view(Value)


class Memory(emulator.Global):
    def __getitem__(self, i):
        return np.asarray(self.flat[i].float().numpy()).view(Value)


class Element:
    """An address, which may be outside of its tensor until somebody accesses it."""

    def __init__(self, pointer, layout):
        self.iterator, self.layout = pointer, layout
        self.element_type = pointer.tensor.element_type

    def __getitem__(self, i):
        return emulator.View(self.iterator, self.layout)[i].view(Value)

    def __setitem__(self, i, value):
        emulator.View(self.iterator, self.layout)[i] = value


class Staged(emulator.Pointer):
    def __add__(self, offset):
        added = super().__add__(offset)
        return Staged(added.tensor, added.offset)

    def align(self, alignment):
        return Staged(self.tensor, super().align(alignment).offset)


class Fragments:
    """The place of a lane's sum [(half, r, n), m] in a tile, as warp-group MMA has it."""

    def __init__(self, threads, warp_groups):
        lane, warp = threads % 32, threads // 32
        self.row = warp // 4 * 64 + warp % 4 * 16 + lane // 4
        self.column, self.apart = lane % 4 * 2, 64 * warp_groups

    def get_slice(self, thread):
        return self

    def partition_C(self, identity):
        return self

    def __getitem__(self, place):
        (half, r, n), m, _ = place
        return self.row + 8 * r + self.apart * m, self.column + half + 8 * n


class Sums(dict):
    def __setitem__(self, place, value):
        super().__setitem__(place, np.broadcast_to(np.asarray(value, np.float32), (1, self.threads)).view(Value))


def kernels(text):
    """The kernels of a module's convolution, in the order of its launches."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in (
            "leave",
            "leave_some",
            "leave_folded",
            "leave_window",
            "put",
        ):
            emulator._Masks().visit(node)
    ast.fix_missing_locations(tree)
    scope = {"__builtins__": {**vars(emulator.builtins), "__import__": emulator._import}, "_masked": emulator.masked}
    exec(compile(tree, "generated", "exec"), scope)
    return [scope[f"Y_{i}"] for i in range(sum(name.startswith("Y_") for name in scope))]


def run(kernel, launch, sums, out, reads):
    """All tiles of one launch. `launch`: where its pixels are in `sums`, [image, channel, space] in f32."""
    kernel.element = lambda tensor, strides, image, channel, pixel: Element(
        tensor.iterator + (np.int64(image) * strides[1] + strides[0] + channel * strides[2]
                           + sum(p * s for p, s in zip(pixel, strides[3:], strict=True))),
        emulator.cute.make_layout(1),
    )  # fmt: skip
    finish = type(kernel).finish
    kernel.finish = lambda *a: np.asarray(finish(kernel, *a), np.float32).view(Value)
    kernel.barrier = lambda: None
    threads = np.arange(128 * kernel.warp_groups)[None]
    emulator._Device.mask = np.ones(threads.shape, bool)
    mine = Fragments(threads, kernel.warp_groups)
    for tile in range(kernel.count):
        at = kernel.place(tile)
        acc = Sums()
        acc.threads = threads.size
        acc.shape = (0, kernel.pixels // 64 // kernel.warp_groups)
        for half, r, n, m in product(range(2), range(2), range(kernel.tile_n // 8), range(acc.shape[1])):
            row, column = mine[(half, r, n), m, 0]
            phase, channel = column // kernel.columns, at[1] + column % kernel.columns
            pixel = kernel.pixel(row, phase, at[2])
            there = kernel.inside(pixel) & (channel < kernel.channels)
            first, b, c, *space = launch.strides
            offset = first + at[3] * b + channel * c + sum(p * s for p, s in zip(pixel, space, strict=True))
            acc[(half, r, n), m, 0] = np.where(there, sums.flatten()[np.where(there, offset, 0)], np.nan)
        staged = Memory(
            torch.full((kernel.staged_size(),), float("nan"), dtype=kernel.staged_type(out.element_type).torch)
        )
        with np.errstate(all="ignore"):
            kernel.store(mine, acc, Staged(staged), threads, (out,), reads, at)


def shape_fragments(monkeypatch):
    """Let `cute.size` know the modes of a lane's sums."""
    size = emulator.cute.size
    monkeypatch.setattr(
        emulator.cute, "size", lambda x, mode=None: x.shape[mode[0]] if mode else size(x), raising=False
    )
