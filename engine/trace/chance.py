"""Random numbers in forward.

A module that draws some cannot be the reference of a program, because its results differ from call to call. The tracer
refuses it, with the line and a way out.
"""

from __future__ import annotations

from typing import Any

from engine.trace.explain import quoted
from engine.trace.load import Bad

_DROPOUT = "dropout"
_SHARES = ("p", "dropout", "dropout_p")  # ATen's names for the share of elements that dropout drops


def random(target: Any, attrs: dict[str, Any]) -> bool:
    """Return True if an ATen operation with these arguments draws from PyTorch's generator: it has the tag, and no
    argument (training mode, the share to drop) switches it off."""
    if "nondeterministic_seeded" not in {str(t).removeprefix("Tag.") for t in getattr(target, "tags", ())}:
        return False
    modes = (attrs.get("train"), attrs.get("training"))
    return False not in modes and not any(attrs.get(name) == 0 for name in _SHARES)


def refuse_chance(ops: list[dict], drawn: set[str]) -> None:
    """Raise Bad("random") for the first operation of `ops` (those that results depend on) whose name is in `drawn`."""
    op = next((op for op in ops if op["name"] in drawn), None)
    if op is None:
        return
    line, name = op["line"], op["op"].removesuffix("_functional").strip("_")
    at = quoted(line) if line else "The module"
    share = next((op["attrs"][s] for s in _SHARES if s in op["attrs"]), None)
    if _DROPOUT in name or _DROPOUT in op["attrs"] or "dropout_p" in op["attrs"]:
        what = f"drops elements at random ({name})"
        way = "A module is optimised in eval mode, where nn.Dropout does nothing: "
        if "dropout_p" in op["attrs"]:
            way += f"pass dropout_p={share} if self.training else 0.0, or leave it out."
        else:
            way += "pass training=self.training, or leave the dropout out."
    else:
        what = f"draws random numbers ({name})"
        way = "Draw them in get_inputs() and pass them to forward as another input."
    raise Bad("random", f"{at} {what}: each call gives another result, so no program can be compared with it. {way}",
              line)  # fmt: skip
