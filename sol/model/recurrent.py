"""The time of a recurrent stage: a chain of steps, each of which waits for the one before; and of cuDNN's networks.

A step of our kernel is the cycles of its product, its shared memory and what it sends, and latencies that nothing
hides, which are measured (dsl.rules.recurrent.layout). cuDNN's times are those of KernelBench's models of six layers on
an H200 and an H100 (engine/results, kernelbench-*-2026-11-28 and -29): 28 to 37 ms for the LSTM of 3,072 steps, 49 to
138 ms for the GRU.
"""

from __future__ import annotations

from math import ceil

from dsl import ir
from dsl.printer import word_of
from dsl.rules.recurrent import layout as rules
from sol.cost.cost import Cost
from sol.graph import Op, OpGraph
from sol.hardware import Hardware
from sol.model.prediction import StageTime
from sol.model.tiles import LAUNCH_MS

CLOCK_GHZ = 1.755  # of the H200's SMs under load
LIBRARY_US = {"lstm": 10.0, "gru": 24.0, "rnn_tanh": 8.0, "rnn_relu": 8.0}  # a layer, direction and step


def step_us(layout: rules.Layout) -> float:
    """One step of a cluster in microseconds."""
    return (layout.cycles + rules.latency(layout.cluster)) / (CLOCK_GHZ * 1e3)


def recurrent_time(program: ir.Program, stage: ir.Recurrent, hw: Hardware) -> StageTime:
    """Predicted time of a checked recurrent stage on a device, as one launch."""
    types = {o.name: program.type_of(o.name) for o in stage.operands}
    layout = rules.layout_of(stage, types)
    shape = types[stage.gates[0].name].shape
    steps, batch = shape[:2] if stage.order == "tb" else shape[1::-1]
    at_once = max(1, rules.AT_ONCE[layout.cluster] * hw.sms // 132)
    waves = ceil(layout.groups * stage.directions / at_once)
    moved = float(sum(t.bytes for t in types.values()) + stage.type.bytes + sum(a.type.bytes for a in stage.also))
    chain = waves * steps * step_us(layout) * 1e-3
    main = max(chain, moved / hw.copy_rate * 1e3)
    flops = 2.0 * steps * batch * stage.directions * shape[2] * layout.hidden
    waits = layout.cycles < rules.latency(layout.cluster)
    by = "memory" if main > chain else "fill" if waits else "vector" if layout.exact else "tensor"
    clusters = layout.groups * stage.directions
    note = f"{steps:,} steps of {step_us(layout):.1f} us, {clusters} clusters of {layout.cluster}"
    parts = {"launch": LAUNCH_MS, "main": main}
    return StageTime(stage.name, word_of(stage), LAUNCH_MS + main, by, parts, flops, moved, note)


def library_time(op: Op, c: Cost, graph: OpGraph) -> StageTime:
    """PyTorch's own network of several layers, by cuDNN: a chain of small kernels. A cell is one step."""
    kind = op.op.removesuffix("_cell")
    steps, layers = 1, 1
    if kind == op.op:
        x = graph.tensors[op.inputs[0]].shape
        steps = x[1 if op.attrs.get("batch_first") and len(x) == 3 else 0]
        if (
            len(x) == 2 and "batch_first" not in op.attrs
        ):  # packed sequences, of whose steps the second tensor has the sizes
            steps = graph.tensors[op.inputs[1]].shape[0]
        layers = int(op.attrs.get("num_layers", 1)) * (2 if op.attrs.get("bidirectional") else 1)
    main = LIBRARY_US[kind] * steps * layers * 1e-3
    return StageTime(
        op.name, "library", LAUNCH_MS + main, "launch", {"launch": LAUNCH_MS, "main": main}, c.flops, c.bytes
    )


__all__ = ["LIBRARY_US", "library_time", "recurrent_time", "step_us"]
