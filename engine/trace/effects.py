"""What a forward does beside computing its results from its inputs: it draws by chance, or writes to what it was given.

No program can be held against either: results differ from call to call, and a graph of functional operations says
nothing of what a call leaves behind. Both are refused while the module is traced, with the line and a way out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.trace.explain import quoted
from engine.trace.load import Bad

_DROPOUT = "dropout"
_SHARES = ("p", "dropout", "dropout_p")  # what ATen calls the share that is dropped
Line = Callable[[Any], int | None]


def random(target: Any, attrs: dict[str, Any]) -> bool:
    """Whether an ATen operation with these arguments draws from PyTorch's generator: it bears the tag, and its
    arguments (training mode, the share to drop) do not switch it off."""
    if "nondeterministic_seeded" not in {str(t).removeprefix("Tag.") for t in getattr(target, "tags", ())}:
        return False
    switched = (attrs.get("train"), attrs.get("training"))
    return False not in switched and not any(attrs.get(name) == 0 for name in _SHARES)


def refuse_chance(ops: list[dict], drawn: set[str]) -> None:
    """Raises Bad("random") for the first operation of `ops`, those that results depend on, whose name is in `drawn`."""
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
        way = "Draw them in get_inputs() and pass them to forward as an input of their own."
    raise Bad("random", f"{at} {what}: every call gives another result, so no program can be held against it. {way}",
              line)  # fmt: skip


def refuse_writes(program: Any, line: Line) -> None:
    """Raises Bad("writes") for the first input, buffer or parameter that the call changes. `program`: an exported one,
    or one recorded by torch.fx, where the change is a `copy_` onto a placeholder."""
    signature, nodes = program.graph_signature, list(program.graph.nodes)
    changed = {}  # node that makes the new value, by name -> what it is written to
    for kind, table in (("buffer", "buffers_to_mutate"), ("parameter", "parameters_to_mutate"),
                        ("input", "user_inputs_to_mutate")):  # fmt: skip
        changed |= {made: (kind, path) for made, path in (getattr(signature, table, None) or {}).items()}
    held = {"buffer": signature.inputs_to_buffers, "parameter": signature.inputs_to_parameters}
    for node in nodes:
        if str(node.target).startswith("aten.copy_.") and node.args[0].op == "placeholder":
            name = node.args[0].name
            found = next(((kind, table[name]) for kind, table in held.items() if name in table), ("input", name))
            changed[getattr(node.args[1], "name", node.name)] = found
    for node in nodes:
        if node.name in changed:
            raise _written(*changed[node.name], line(node))
    for kind, path in changed.values():  # what is written is an input as it came
        raise _written(kind, path, None)


def _written(kind: str, path: str, line: int | None) -> Bad:
    at = quoted(line) if line else "forward"
    whose = f"its {kind} {path}" if kind == "input" else f"the module's {kind} {path}"
    if kind == "input":
        way = f"Work on a new tensor: operations without the trailing underscore or inplace=True, or {path}.clone()."
    else:
        way = "Compute the new value as a tensor of its own, and return it where the caller needs it."
    return Bad("writes", f"{at} writes to {whose}; a program writes nothing but its results, and the next call would "
               f"begin with what this one left. {way}", line)  # fmt: skip
