"""A PyTorch module with μCUTLASS programs in place of its regions. Importing it needs no GPU and no PyTorch.

    import ucutlass_NAME
    fast = ucutlass_NAME.optimized(model)                   # `model`: the original with its weights, in eval mode
    y = fast(x)

`fast` shares the parameters and buffers of `model` and has the same `state_dict`. It takes inputs of the shapes and
element types that the module was optimised for (`INPUTS`), and computes no gradients. `WRITES`: the paths of what
forward writes, and the places of inputs among its tensors. The programs are built at the
first call on a GPU. torch.compile and torch.export see each of them as one operator; on a CPU, PyTorch computes them.
"""

import json
from pathlib import Path

_WHOLE = json.loads((Path(__file__).resolve().parent / "composition.json").read_text(encoding="utf-8"))
CLASS = _WHOLE["class"]
INPUTS = tuple((name, tuple(t["shape"]), t["dtype"]) for name in _WHOLE["inputs"] for t in (_WHOLE["tensors"][name],))
WRITES = tuple(_WHOLE["tensors"][old]["path"] or _WHOLE["inputs"].index(old) for old, _ in _WHOLE["written"])
FIRST_CALL = _WHOLE["settled"]  # whether the first call makes tensors that later calls read
PROGRAMS = tuple(step["program"] for step in _WHOLE["steps"] if "program" in step)


def optimized(model, spec=None, call=None):
    """A module that computes what `model` does. `spec`: how forward returns its results (torch.utils._pytree); without
    it, that is looked up by a call on the meta device. `call`: the arguments that it was traced with, as .args and
    .kwargs; calls must then have the same structure and the same plain values."""
    from . import _drop_in

    return _drop_in.drop_in(model, spec, call)


def mixin():
    """The class that goes before the original's in a class of yours: call `self._prepare()` after its `__init__`."""
    from . import _drop_in

    return _drop_in.DropIn


def build():
    """Build and load every program now, instead of at the first call."""
    from . import _drop_in

    for program in _drop_in.programs().values():
        program.load()


def operators():
    """Name -> operator of each program. What torch.export saved needs them to be defined before it is loaded."""
    from . import _drop_in

    return {name: program.operator for name, program in _drop_in.programs().items()}


def code(direct=True):
    """The Python of the composed forward, to read: as it launches the programs, or as torch.compile sees it."""
    from . import _compose, _drop_in

    return _compose.Writer(_drop_in.WHOLE, _drop_in.programs(), direct).forward()[0]
