"""The judge: `python -m engine.start engine.evaluate.integrity.process.judge_main`, ours, with torch, JSON lines; or a
part of another process of ours that serves `handlers` too.

It generates the values of each round (the reference generates the same bits, the candidate gets them without the seed),
writes them into the candidate's memory between guard bands, and examines the results: their error and its pattern,
whether they were written at all, and whether they are those of another call.
"""

from __future__ import annotations

import argparse
import hashlib
import mmap
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from engine import door, jsonprocess
from engine.evaluate import shared_memory, shared_tensors
from engine.evaluate.candidate.guarded_outputs import PATTERN, same_bits, unwritten
from engine.evaluate.correctness import inputs as data
from engine.evaluate.correctness import tolerance
from engine.evaluate.correctness.operands import parts_by_rows
from engine.evaluate.correctness.tolerance import Comparing, compare_in_parts, finite
from engine.evaluate.integrity.process import judge_clock
from engine.evaluate.integrity.process.judge import BLOCK
from engine.evaluate.shared_tensors import Region, tensor_at
from sol.graph import OpGraph

BLOCKS = 16
SAMPLES = 4096
SHARED_BYTES = 4 << 30  # of the GPU's memory at most that a candidate and the judge share, ...
SHARE = 0.1  # ... and of its free memory


class Judge:
    """One problem's data and the fingerprints of one candidate's results. Every public method is a request."""

    def __init__(self, device: str):
        self.device = device
        self.graph: OpGraph | None = None
        self.own: dict[str, torch.Tensor] = {}
        self.values: dict[str, torch.Tensor] = {}
        self.prints: list[tuple[str, str, str]] = []  # (key of the values, print of the result, print of the right one)
        self.maps: dict[tuple[str, int], mmap.mmap] = {}  # by path and inode
        self.block: shared_memory.Block | None = None  # that the candidate and the judge share
        self.references: dict[str, dict[str, torch.Tensor]] = {}
        self.corrects: dict[str, dict] = {}  # what `compare` says of the correct results of `values` alone

    def open(self, request: dict) -> dict:
        self.graph = OpGraph.from_json(request["graph"])
        data.few_threads(self.graph)
        self.own = shared_tensors.read(Region.from_json(request["own"]))
        self.own = {n: v.to(self.device) for n, v in self.own.items()}
        return self.fresh({})

    def forget(self, request: dict) -> dict:
        """Free the memory of the problem."""
        self.graph, self.own, self.values, self.block = None, {}, {}, None
        self.fresh({})
        if self.device == "cuda":
            torch.cuda.empty_cache()
        return {}

    def fresh(self, request: dict) -> dict:
        """Start another candidate."""
        self.prints.clear()
        self.maps.clear()
        self.references.clear()
        self.corrects.clear()
        return {}

    def overhead(self, request: dict) -> dict:
        """{ms}: the time that CUDA events add to the work between them, by our own clock
        (engine.evaluate.timing.samples)."""
        if self.device != "cuda":
            return {"ms": 0.0}
        from engine.evaluate.timing.samples import Timer

        return {"ms": Timer().overhead()}

    def arch(self, request: dict) -> dict:
        """{arch}: the target of raw CUDA builds here."""
        from engine.evaluate.integrity.process.loading import _arch

        return {"arch": _arch()}

    def hold(self, request: dict) -> dict:
        """Keep the correct results for the values of `key`, because the reference's memory holds one answer at a time.
        {held: whether there is memory for them}"""
        try:
            self.references[request["key"]] = self._right(request)
        except torch.OutOfMemoryError:
            return {"held": False}
        return {"held": True}

    def share(self, request: dict) -> dict:
        """Zeroed memory of `size` bytes for the next candidate, so that values need not cross the host; its descriptor
        goes through the door. {not_shared: why} if the candidate's memory stays on the host."""
        self.block = None
        size = request["size"]
        most = SHARED_BYTES
        if self.device == "cuda":
            torch.cuda.empty_cache()
            most = min(most, int(SHARE * torch.cuda.mem_get_info()[0]))
        if size > most:
            return {"not_shared": f"it is larger than {most} bytes"}
        try:
            block = shared_memory.create(size, self.device)
            block.bytes().zero_()
            self._settle()
            with shared_memory.door() as way:  # last, or who asks for another descriptor later would get this one
                door.give(way, block.fd, shared_memory.SECONDS)
            block.shared()
        except (OSError, torch.OutOfMemoryError) as e:  # NotShared, too
            return {"not_shared": str(e)[:200]}
        self.block = block
        return {}

    def unshare(self, request: dict) -> dict:
        """Free that memory: the candidate's process could not take it."""
        self.block = None
        return {}

    def _map(self, region: Region) -> Any:
        """The memory of a region. A descriptor's number may be used again, for another file."""
        if region.path == BLOCK:
            if self.block is None:
                raise ValueError("the memory that a candidate shared is lost")
            return self.block
        key = (region.path, os.stat(region.path).st_ino)
        if key not in self.maps:
            with open(region.path, "r+b") as f:
                self.maps[key] = mmap.mmap(f.fileno(), region.size)
        return self.maps[key]

    def _settle(self) -> None:
        """Wait until what this process wrote is there for other processes."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def _right(self, request: dict) -> dict[str, torch.Tensor]:
        """Copies of the correct results, where they are compared."""
        region = Region.from_json(request["reference"])
        if region.path == BLOCK:
            raise ValueError("a candidate can write where the correct results should lie")
        memory = self._map(region)
        return {n: tensor_at(memory, slot).to(self.device, copy=True) for n, slot in region.tensors.items()}

    def draw(self, request: dict) -> dict:
        """Write the values of (family, seed, rows) into the candidate's memory. {shapes} of shortened tensors."""
        rows, family = request["rows"], request["family"]
        roles = data.roles(self.graph)
        values = dict(self.own)
        shapes = {}
        for name in self.graph.inputs:
            t = self.graph.tensors[name]
            short = data.shape_at(t, roles[name], rows)
            if short != t.shape:
                values[name], shapes[name] = values[name][: short[0]], list(short)
        if family != "own":
            values.update(data.fill_graph(self.graph, family, request["seed"], self.device, rows=rows))
        region = Region.from_json(request["region"])
        memory = self._map(region)
        for name, slot in region.tensors.items():
            place = tensor_at(memory, slot)
            if name.startswith("guard:"):
                place.fill_(PATTERN)
            else:
                value = values[name].contiguous()
                place.flatten()[: value.numel()].copy_(value.flatten())
        self._settle()
        self.take(values)
        return {"shapes": shapes}

    def take(self, values: dict[str, torch.Tensor]) -> None:
        """The values from which the results of the next requests are computed."""
        self.values = values
        self.corrects.clear()

    def look(self, request: dict) -> dict:
        """The state after a call: {inputs: names that changed, guards: intact, results: [...]} against `reference`."""
        own = Region.from_json(request["region"])
        memory = self._map(own)
        changed, intact = [], True
        for name, slot in own.tensors.items():
            place = tensor_at(memory, slot)
            if name.startswith("guard:"):
                intact &= bool((place == PATTERN).all())
            else:
                value = self.values[name].contiguous()
                if not same_bits(place.flatten()[: value.numel()].to(self.device), value.flatten()):
                    changed.append(name)
        return {"inputs": changed, "guards": intact, "results": self.results(request)["results"]}

    def results(self, request: dict) -> dict:
        """Compare each result with the correct one: see `compare`. `key` names the values that it was computed from."""
        right = self.references[request["held"]] if request.get("held") else self._right(request)
        region = Region.from_json(request["result"])
        memory, comparisons = self._map(region), []
        for name in self.graph.outputs:
            correct = right[name].to(self.device)
            slot = region.tensors[name]
            out = tensor_at(memory, slot).flatten()[: correct.numel()].view(correct.shape).to(self.device, copy=True)
            factor = 1.0
            if request.get("scaled"):
                out, factor = self.scaled(out, correct)
            one = self.compare(out, correct, request["tolerance"], request["key"] + name, request.get("family", ""))
            one["factor"] = factor
            late = region.tensors.get("late:" + name) if request.get("late") else None
            if late is not None:
                again = tensor_at(memory, late).flatten()[: correct.numel()].view(correct.shape).to(self.device)
                one["late"] = sum(int((a != b).sum()) for a, b in _pieces(_bits(again), _bits(out)))
            comparisons.append(one)
        return {"results": comparisons}

    def scaled(self, out: torch.Tensor, correct: torch.Tensor) -> tuple[torch.Tensor, float]:
        """(`out` divided by the factor by which it is nearest to a multiple of the result, that factor). The factor is
        0 where there is none, or where a multiple of an input is the result."""
        factor = _factor(out, correct)
        like = [self.values[n] for n in self.graph.inputs if self.values[n].numel() == correct.numel()]
        if abs(factor - 1) > 1e-3 and any(_near(x.reshape(correct.shape), correct) for x in like):
            return out, 0.0
        return (out / factor if out.is_floating_point() and factor else out), factor

    def compare(self, out: torch.Tensor, correct: torch.Tensor, tolerance: float, key: str, family: str = "") -> dict:
        """One result against the correct one, and against all results before it. `family`: of the values, if they are
        those of a round."""
        apart = parts_by_rows(self.graph, family, self.values) if family else {}
        c = compare_in_parts(out, correct, apart.get(correct.shape[0], []) if correct.dim() else [])
        mine, theirs = fingerprint(out), fingerprint(correct.to(out.dtype))
        # Two results that are all NaN say nothing about each other.
        others = [(k, p, r) for k, p, r in self.prints if k != key and c.unexpected < c.elements]
        answer = {
            **vars(c), "error": finite(c.error), "max_error": finite(c.max_error),
            "unwritten": unwritten(out),
            "print": mine,
            "same_as": [k for k, p, r in others if p == mine and r != theirs],
            "others": sum(r != theirs for _, _, r in others),
            "input": next((n for n, v in self.values.items() if v.shape == out.shape and v.dtype == out.dtype
                           and not same_bits(v, correct.to(v.dtype)) and same_bits(v, out)), None),
            "unequal": any(k == key and p != mine for k, p, _ in self.prints),
            **self._of_correct(correct, tolerance, key),
        }  # fmt: skip
        if c.error > tolerance or c.unexpected:
            answer["blocks"] = _blocks(out, correct, tolerance)
        self.prints.append((key, mine, theirs))
        return answer

    def _of_correct(self, correct: torch.Tensor, tolerance: float, key: str) -> dict:
        """The facts of a correct result alone. All calls of a burst on the same values are compared with one."""
        if (of := self.corrects.get(key)) is None:
            of = self.corrects[key] = {"rms": _rms(correct), "trivial": self._trivial(correct, tolerance)}
        return of

    def _trivial(self, correct: torch.Tensor, tolerance: float) -> dict[str, float]:
        """Answers without a kernel that would pass here, with their errors: zeros, one number everywhere, an unchanged
        input."""
        if not all(bool(torch.isfinite(x).all()) for (x,) in _pieces(correct)):
            return {}
        mean = sum(float(x.to(torch.float64).sum()) for (x,) in _pieces(correct)) / max(1, correct.numel())
        inputs = {f"its input {n}": self.values[n] for n in self.graph.inputs}
        like = {n: v for n, v in inputs.items() if v.shape == correct.shape and v.is_floating_point()}
        each = {n: Comparing() for n in ("zeros", "a constant", *like)}
        for x, *others in _pieces(correct, *like.values()):
            wide = x.to(torch.float64)
            answers = (torch.zeros_like(wide), torch.full_like(wide, mean), *others)
            for comparing, answer in zip(each.values(), answers, strict=True):
                comparing.add(answer, wide)
        errors = {n: finite(c.result().error) for n, c in each.items()}
        return {n: e for n, e in errors.items() if e <= tolerance}


def fingerprint(x: torch.Tensor) -> str:
    """A hash of some thousand elements' bits and of the sum of all; equal results have equal fingerprints."""
    bits = _bits(x).flatten()
    step = max(1, bits.numel() // SAMPLES)
    h = hashlib.sha256(bits[::step].cpu().numpy().tobytes())
    h.update(str(int(bits.sum(dtype=torch.int64))).encode())
    return h.hexdigest()[:24]


def _bits(x: torch.Tensor) -> torch.Tensor:
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return x.contiguous().view(kind) if x.dim() else x.reshape(1).view(kind)


def _rms(x: torch.Tensor) -> float:
    """The size of a typical element."""
    squares = (float(piece.to(torch.float64).nan_to_num(0.0, 0.0, 0.0).square().sum()) for (piece,) in _pieces(x))
    return finite((sum(squares) / x.numel()) ** 0.5) if x.numel() else 0.0


def _factor(x: torch.Tensor, correct: torch.Tensor) -> float:
    """The factor c for which x is nearest to c times the result; 0 for none."""
    a, b = x.to(torch.float64).flatten(), correct.to(torch.float64).flatten()
    product, square = float(a @ b), float(b @ b)
    return finite(product / square) if square else 0.0


def _near(x: torch.Tensor, correct: torch.Tensor) -> bool:
    """Return True if an input is a multiple of the result, within 1 percent."""
    a, b = x.to(torch.float64).flatten(), correct.to(torch.float64).flatten()
    return float((a - _factor(x, correct) * b).norm()) <= 0.01 * float(a.norm())


def _pieces(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """The same elements of each tensor, in one row, tolerance.CHUNK at a time."""
    return zip(*(t.reshape(-1).split(tolerance.CHUNK) for t in tensors), strict=True)


def _blocks(out: torch.Tensor, correct: torch.Tensor, tolerance: float) -> dict | None:
    """{axis, right, of, spans}: if, along one axis, whole blocks are right while others are wrong; else None."""
    best = None
    for axis, (err, ref) in enumerate(_along_axes(out, correct)):
        n = correct.shape[axis]
        if n < 2:
            continue
        size = -(-n // BLOCKS)
        good = []
        for start in range(0, n, size):
            scale = float(ref[start : start + size].sum()) or float(ref.mean()) or 1.0
            good.append(float(err[start : start + size].sum()) <= (tolerance**2) * scale)
        right = sum(good)
        if 0 < right < len(good) and (best is None or right > best["right"]):
            first = good.index(False)
            last = len(good) - 1 - good[::-1].index(False)
            span = [first * size, min(n, (last + 1) * size) - 1]
            best = {"axis": axis, "right": right, "of": len(good), "span": span, "size": n}
    return best


def _along_axes(out: torch.Tensor, correct: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Along each axis, the sums over all others of the squared difference and of the squared reference."""
    new = partial(torch.zeros, dtype=torch.float64, device=correct.device)
    sums = [(new(n), new(n)) for n in correct.shape]
    rows = max(1, tolerance.CHUNK * len(correct) // max(1, correct.numel())) if correct.dim() else 0
    for first in range(0, len(correct) if correct.dim() else 0, rows):
        part = slice(first, first + rows)
        y = correct[part].to(torch.float64)
        d = (out[part].to(torch.float64) - y).nan_to_num(1e30, 1e30, -1e30).square()
        y = y.square()
        for axis, (err, ref) in enumerate(sums):
            rest = [i for i in range(correct.dim()) if i != axis]
            at = part if axis == 0 else slice(None)
            err[at] += d.sum(rest) if rest else d
            ref[at] += y.sum(rest) if rest else y
    return sums


REQUESTS = ("overhead", "arch", "open", "forget", "fresh", "share", "unshare", "draw", "look", "results", "hold")


def handlers(device: str) -> dict[str, Callable[[dict], dict]]:
    """The handlers of the judge's requests, by the names of the operations."""
    judge = Judge(device)
    return {f"judge_{name}": getattr(judge, name) for name in REQUESTS} | judge_clock.handlers(judge)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=("cuda", "cpu"))
    torch.set_grad_enabled(False)
    jsonprocess.serve(handlers(parser.parse_args().device))
