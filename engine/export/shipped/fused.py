"""Operations of PyTorch between programs as one call that Inductor compiled, as they were timed in the session."""

import contextlib
import warnings

import torch

from . import _aten
from ._fused_calls import Fused, Row


class Later:
    """A run of operations, compiled at its first call, and again for tensors of another device, other types or other
    strides, and in another autocast of the caller's: compiled code would misread them, or refuse them.

    `step`: of composition.json; `shapes`: of the views among its results; `sized`: the operations that are such views;
    `dtype_of`: see _aten.find; `casting`: a device's autocast, None for none."""

    def __init__(self, step, shapes, sized, dtype_of, casting=None):
        self.step, self.shapes, self.sized, self.dtype_of = step, shapes, sized, dtype_of
        self.casting = casting or (lambda device: contextlib.nullcontext())
        self._calls = {}

    def __call__(self, tensors):
        form = (_autocast(tensors), *((x.device, x.dtype, x.stride()) for x in tensors))
        call = self._calls.get(form)
        if call is None:
            call = self._calls[form] = self._compiled(tensors)
        return call(tensors)

    def _compiled(self, tensors):
        device = tensors[0].device if tensors else torch.device("cuda")
        fused = Fused([self._row(op, device) for op in self.step["fused"]], self.step["reads"], self.step["makes"])
        with self.casting(device):
            try:
                return fused.compile(tensors)
            except torch.OutOfMemoryError:
                raise
            except Exception as e:  # a compiler may fail in any way; without it, the results are the same
                first = next(iter(str(e).splitlines()), "")
                names = ", ".join(dict.fromkeys(op["op"] for op in self.step["fused"]))
                warnings.warn(
                    f"PyTorch runs {names} one by one here, which may be slower than in the session: Inductor does not "
                    f"compile them ({type(e).__name__}: {first[:200]})",
                    stacklevel=2,
                )
        module = fused.module()

        def one_by_one(own):
            with self.casting(device):
                return list(module(*own))

        return one_by_one

    def _row(self, op, device):
        if op["op"] in self.sized:
            return Row(None, op["reads"], op["makes"], self.shapes[op["makes"][0]])
        call = _aten.find(op["op"], len(op["reads"]), op["attrs"], device, self.dtype_of)
        if call is None:
            raise RuntimeError(f"PyTorch {torch.__version__} has no aten.{op['op']} that takes {op['attrs']}")
        return Row(call, op["reads"], op["makes"])


def _autocast(tensors):
    """The type of the caller's autocast, None outside of one."""
    kind = tensors[0].device.type if tensors else "cuda"
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


__all__ = ["Later"]
