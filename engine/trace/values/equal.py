"""Operations that compute what an earlier one does: branches of a network that each apply relu to the same tensor."""

from __future__ import annotations

import json
from collections.abc import Collection


def once(ops: list[dict], outputs: Collection[str]) -> list[dict]:
    """The operations without those, whose readers read the earlier results. `outputs`: the names of what the graph
    returns, each of which keeps an operation of its own. No operation of a graph draws random numbers or writes."""
    left, same, first = [], {}, {}
    for op in ops:
        op = {**op, "inputs": [same.get(name, name) for name in op["inputs"]]}
        what = json.dumps([op["op"], op["inputs"], op["attrs"], op.get("unmasked"), len(op["outputs"])])
        earlier = first.setdefault(what, op)
        if earlier is not op and not set(outputs).intersection(op["outputs"]):
            same |= zip(op["outputs"], earlier["outputs"], strict=True)
        else:
            left.append(op)
    return left


__all__ = ["once"]
