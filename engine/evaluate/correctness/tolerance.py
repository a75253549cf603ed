"""The rules for a correct result: a bound for the whole tensor, one for its worst element, and a rule for NaN and Inf.

    error      ||out - ref|| / ||ref||            (Frobenius; ref in float64)
    max_error  max |out - ref| / rms(ref)         (the worst element, in units of a typical one)

Why these: with operands rounded to p significant bits (unit roundoff u = 2^-p) and accumulated in f32, each product
of a zero-mean sum carries an independent relative error of about u; the sum's error grows as its value does, with
sqrt(K), so the relative error of the whole is about u and does not depend on K. An element-by-element relative
tolerance says nothing, because elements near zero are sums of large terms that cancelled.

The tolerances are 4 u for both operands' rounding and the result's own, with room for the truncation of tf32
operands by the tensor cores (which biases a product by up to 2 u where rounding does not); the worst element may
stand out 12 times: the largest of 10^8 normal errors is 5.7 sigma, doubled for the tail's slope.

A result must also be no worse than twice PyTorch's own error in the same class on the same inputs, if that was
measured. The stricter bound applies; the floor keeps the factor of two from judging noise in exact cases. Products in
tf32 that were tried in f16 or bf16 may instead be no worse than twice PyTorch's own error in tf32, as in a session that
allows tf32 alone (engine.evaluate.correctness.verification.finer).

There is one exception: a module can amplify rounding (a clamp that cuts most of a large sum leaves small typical values
beside the few elements that still carry the sum's error). If PyTorch itself, in the same class and on the same inputs,
exceeds the table, the table asks for more than the class can give, and twice PyTorch's error is the bound instead. The
same holds for range: if PyTorch in the class has NaN or Inf where the reference has none (a product of two large
activations exceeds f16), a program may have twice as many such elements, and the others are compared: by the table, or
by twice the error of PyTorch's finite elements if that is larger. It is never the stricter bound, because it is of
fewer elements.

The exception ends where a module turns rounding into noise (a system that is nearly singular, a chain that is chaotic):
from an own error of PyTorch's of MEANINGLESS on, twice it would accept results that have little to do with the right
ones, and zeros are off by 1. Such a round says nothing but whether there are NaN and Inf; others must count. The same
holds for a round in which PyTorch is NaN or Inf everywhere: scores of attention beyond f16, before a softmax.

Results that are booleans or integers (a comparison, an index of a maximum) flip where inexact values lie close
together, in PyTorch as in any program of the class. They are compared as numbers, by the same rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, isfinite
from typing import Any

from engine.evaluate.correctness.operands import LEAST

UNIT_ROUNDOFF = {"f64": 2.0**-53, "f32": 2.0**-24, "tf32": 2.0**-11, "f16": 2.0**-11, "bf16": 2.0**-8, "fp8": 2.0**-3}
WORST = 12.0
PYTORCH_FACTOR = 2.0
CHUNK = 1 << 26  # elements that are compared at a time, in float64: 3 GB with what the comparison needs
# Below this, an error comes from the order of f32 additions, which need not match PyTorch's: five honest softmax
# kernels that add a row of 200 positive terms one after the other (PyTorch adds by halves) are off by 1.2e-6 to 1.3e-6.
# Longer naive sums lose more (one of 10^4 terms about 6e-6) and are compared with PyTorch's.
FLOOR = 2e-6
MEANINGLESS = 0.25
TWICE = "twice PyTorch's own"
ITS_OWN = "twice what the class's rounding makes of the program itself"  # a pasted program has no module


@dataclass(frozen=True)
class Tolerance:
    """Bounds on `error` and `max_error` of one precision class."""

    error: float
    max_error: float


# f32: sums of K products in another order than PyTorch's; sqrt(K) u for K = 10^4 is 6e-6.
# fp8: the tolerance of e5m2, the coarser of the two, if operands are cast by the program. Operands that come as fp8 or
# int8 are exact, and only the rounding of a result in f16 or bf16 remains.
TOLERANCES = {
    "f32": Tolerance(1e-5, 1e-5 * WORST),
    **{c: Tolerance(4 * UNIT_ROUNDOFF[c], 4 * UNIT_ROUNDOFF[c] * WORST) for c in ("tf32", "f16", "bf16", "fp8")},
    "i8": Tolerance(4 * UNIT_ROUNDOFF["bf16"], 4 * UNIT_ROUNDOFF["bf16"] * WORST),
}


@dataclass(frozen=True)
class Comparison:
    """Numbers of one result against its reference. `unexpected`: NaN or Inf where the reference is finite (or the
    other way round); `elements`: how many were compared."""

    error: float
    max_error: float
    unexpected: int = 0
    elements: int = 0


@dataclass(frozen=True)
class PyTorchError:
    """PyTorch's own error in a class against the reference, in the numbers of a Comparison."""

    error: float
    max_error: float
    unexpected: int = 0


def compare(out: Any, ref: Any) -> Comparison:
    """Compare two torch tensors of one shape, on the device of `out`. An all-zero reference compares absolutely."""
    comparing = Comparing()
    comparing.add(out, ref)
    return comparing.result()


class Comparing:
    """A comparison of tensors that come piece by piece.

    It takes CHUNK elements at a time, so that a result of gigabytes needs little memory beside itself."""

    def __init__(self) -> None:
        self._compared = self._unexpected = self._elements = 0
        self._errors: list[float] = []
        self._norms: list[float] = []
        self._worst = 0.0

    def add(self, out: Any, ref: Any) -> None:
        """Compare one more piece."""
        if out.shape != ref.shape:
            raise ValueError(f"the result has shape {list(out.shape)}; the reference has {list(ref.shape)}")
        self._elements += out.numel()
        pairs = zip(out.detach().reshape(-1).split(CHUNK), ref.detach().reshape(-1).split(CHUNK), strict=True)
        for x, y in pairs if out.numel() else ():
            compared, strange, error, norm, most = _compare_chunk(x, y)
            self._compared, self._unexpected = self._compared + compared, self._unexpected + strange
            self._worst = max(self._worst, most)
            self._errors.append(error)
            self._norms.append(norm)

    def result(self) -> Comparison:
        """Of all pieces together."""
        if not self._compared:
            return Comparison(0.0, 0.0, self._unexpected, self._elements)
        norm = hypot(*self._norms)
        scale = norm if norm > 0 else 1.0
        rms = scale / self._compared**0.5 if norm > 0 else 1.0
        return Comparison(hypot(*self._errors) / scale, self._worst / rms, self._unexpected, self._elements)


def compare_in_parts(out: Any, ref: Any, parts: list[slice]) -> Comparison:
    """The worst of the comparisons of these leading rows, each with its own norm; parts of few elements are left out.
    Of all rows together if there are no parts."""
    pieces = [(out[rows], ref[rows]) for rows in parts if ref[rows].numel() >= LEAST]
    each = [compare(x, y) for x, y in pieces] or [compare(out, ref)]
    return Comparison(
        max(c.error for c in each), max(c.max_error for c in each), sum(c.unexpected for c in each),
        sum(c.elements for c in each),
    )  # fmt: skip


def _compare_chunk(x: Any, y: Any) -> tuple[int, int, float, float, float]:
    """(finite elements, unexpected ones, norm of the finite differences, norm of the finite reference, the largest
    difference)."""
    import torch

    y, of_norm = y.to(x.device, torch.float64), torch.linalg.vector_norm
    d = (x if x.is_floating_point() and x.element_size() > 1 else x.to(torch.float64)) - y
    # These three are finite only where every element is. Else all is read five times more, and the GPU is for others.
    error, norm, most = torch.stack([of_norm(d), of_norm(y), of_norm(d, float("inf"))]).tolist()
    if isfinite(error + norm + most):
        return y.numel(), 0, error, norm, most
    x = x.to(torch.float64)
    good = torch.isfinite(y)
    same = good == torch.isfinite(x)
    same |= (~good) & torch.isnan(x) & torch.isnan(y)
    # An infinity must also have the reference's sign.
    unexpected = (~same).sum() + ((~good) & same & ~torch.isnan(y) & (x != y)).sum()
    both = good & same
    d, y = torch.where(both, d, 0.0), torch.where(both, y, 0.0)
    numbers = torch.stack([both.sum().double(), unexpected.double(), of_norm(d), of_norm(y), d.abs().max()]).tolist()
    return int(numbers[0]), int(numbers[1]), *numbers[2:]


def finite(x: float) -> float:
    """JSON has no NaN: an error that is not a number becomes the largest number."""
    return x if x == x and x < 1e30 else 1e30


def verdict(cls: str, c: Comparison, pytorch: PyTorchError | None = None) -> str | None:
    """None if the result is right, else the reason: one sentence with the numbers."""
    t = TOLERANCES[cls]
    beyond = 0 if pytorch is None else pytorch.unexpected
    if c.unexpected > PYTORCH_FACTOR * beyond:
        words = f"{c.unexpected:,} of {c.elements:,} elements are NaN or Inf where the reference is not"
        return words + (f" (PyTorch's own in class {cls}: {beyond:,})" if beyond else "")
    if says_nothing(pytorch):
        return None
    if not isfinite(c.error) or c.error > _allowed(t.error, pytorch and pytorch.error):
        allowed, why = bound(cls, pytorch)
        limit = f"{allowed:.2g}, {why}" if why else f"the tolerance of {cls}, {t.error:.2g}"
        return f"relative error {c.error:.2g} is above {limit}{_beside(pytorch and pytorch.error)}"
    if not isfinite(c.max_error) or c.max_error > _allowed(t.max_error, pytorch and pytorch.max_error):
        worst = f"the worst element is off by {c.max_error:.2g} times a typical one"
        return f"{worst}; {cls} allows {t.max_error:.2g}{_beside(pytorch and pytorch.max_error)}"
    if pytorch is not None and not pytorch.unexpected and c.error > max(FLOOR, PYTORCH_FACTOR * pytorch.error):
        return f"relative error {c.error:.2g} is more than twice PyTorch's own, {pytorch.error:.2g}, in class {cls}"
    return None


def says_nothing(pytorch: PyTorchError | None) -> bool:
    """Return True if PyTorch's own error is so large that no error of a result can be judged by it, or if PyTorch
    leaves the class's range with every element, so that none is left to compare (its error is then 0)."""
    if pytorch is None:
        return False
    return pytorch.error >= MEANINGLESS or (pytorch.unexpected > 0 and pytorch.error == 0)


def bound(cls: str, pytorch: PyTorchError | None = None) -> tuple[float, str]:
    """The largest `error` that `verdict` accepts, and the source of that bound in words; "" if it is the class's
    own."""
    table = TOLERANCES[cls].error
    if pytorch is None or (pytorch.unexpected and pytorch.error <= table):
        return table, ""
    twice = PYTORCH_FACTOR * pytorch.error
    strictest = max(FLOOR, twice) if pytorch.error <= table else twice
    if pytorch.error <= table <= strictest:
        return table, ""
    return strictest, TWICE if strictest == twice else "what the order of f32 sums leaves"


def _allowed(table: float, pytorch: float | None) -> float:
    return table if pytorch is None or pytorch <= table else PYTORCH_FACTOR * pytorch


def _beside(pytorch: float | None) -> str:
    return "" if pytorch is None else f" (PyTorch's own is {pytorch:.2g})"
