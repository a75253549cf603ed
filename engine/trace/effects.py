"""Side effects of forward: random numbers, and writes to inputs or to the module's state.

A module with either cannot be the reference of a program: random results differ from call to call, and a graph of
functional operations does not contain the writes. The tracer refuses both, with the line and a way out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import Any

from engine.trace.explain import quoted
from engine.trace.load import Bad

_DROPOUT = "dropout"
_SHARES = ("p", "dropout", "dropout_p")  # ATen's names for the share of elements that dropout drops
MUTATED = re.compile(r"Constant (\S+) is mutated in the forward")  # torch.export's words
Line = Callable[[Any], int | None]


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


def refuse_writes(program: Any, line: Line) -> None:
    """Raise Bad("writes") for the first input, buffer or parameter that the call changes. `program`: exported, or
    recorded by torch.fx, where the change is a `copy_` onto a placeholder."""
    signature, nodes = program.graph_signature, list(program.graph.nodes)
    changed = {}  # name of the node with the new value -> (kind, path) of the tensor that it replaces
    for kind, table in (("buffer", "buffers_to_mutate"), ("parameter", "parameters_to_mutate"),
                        ("input", "user_inputs_to_mutate")):  # fmt: skip
        changed |= {node: (kind, path) for node, path in (getattr(signature, table, None) or {}).items()}
    state = {"buffer": signature.inputs_to_buffers, "parameter": signature.inputs_to_parameters}
    for node in nodes:
        if str(node.target).startswith("aten.copy_.") and node.args[0].op == "placeholder":
            name = node.args[0].name
            target = next(((kind, table[name]) for kind, table in state.items() if name in table), ("input", name))
            changed[getattr(node.args[1], "name", node.name)] = target
    for node in nodes:
        if node.name in changed:
            raise written(*changed[node.name], line(node))
    for kind, path in changed.values():  # the new value is an unchanged input, so no node has a line
        raise written(kind, path, None)


def attributes(model: Any) -> dict[str, Any]:
    """Path -> each tensor that is a plain attribute of the module or of one inside it. torch.export takes these for
    constants."""
    import torch

    return {
        f"{prefix}.{name}".lstrip("."): value
        for prefix, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, torch.Tensor)
    }


def refuse_assignments(graph: dict, assigned: Container[str]) -> None:
    """Raise Bad("writes") if the graph reads a plain attribute to which forward assigned another tensor: the next call
    would read that one. `assigned`: the paths of such attributes."""
    lines = {name: op["line"] for op in reversed(graph["ops"]) for name in op["inputs"]}
    for tensor in graph["tensors"]:
        path = tensor["path"]
        if tensor["kind"] == "constant" and path in assigned:
            raise written("attribute", path, lines.get(tensor["name"]))


def written(kind: str, path: str, line: int | None) -> Bad:
    """The refusal of a write. `kind`: input | buffer | parameter | attribute (a tensor that is none of these)."""
    at = quoted(line) if line else "forward"
    whose = f"its {kind} {path}" if kind == "input" else f"the module's {kind} {path}"
    if kind == "input":
        way = f"Work on a new tensor: operations without the trailing underscore or inplace=True, or {path}.clone()."
    else:
        way = "Compute the new value as a new tensor, and return it if the caller needs it."
    return Bad("writes", f"{at} writes to {whose}. A program writes only its results, so the next call would start "
               f"from other values. {way}", line)  # fmt: skip
