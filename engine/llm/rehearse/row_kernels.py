"""A vectorised CUDA kernel for a module that works row by row, as a template by rule (row_graph.py).

Its parameters are the threads of a row, the rows of a block, the elements of a vector, the vectors in flight and
whether data pass the caches by. Where nothing is reduced there are the blocks that share a row, else whether a row that
fits is read once and stays in registers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from engine.llm.rehearse.row_graph import HALVES, Node, Rows
from engine.llm.rehearse.row_text import HEAD, HOLDING, ONE_PASS, TAIL
from engine.strategies.two_stage.expressions import read

ROW_THREADS = (8, 16, 32, 64, 128, 256, 512, 1024)
BLOCK_ROWS = (1, 2, 4, 8, 16)
VECTORS = (1, 2, 4, 8)
UNROLLS = (1, 2, 4)
PIECES = (0, 1, 2, 4, 8, 16)  # 0: as many as a row has vectors for, so that each thread has its UNROLL and no loop
# Beside the vectors in flight, which count twice (as loaded, and in f32): addresses and counters. nvcc's own counts for
# sm_90a of three of these kernels, with 1, 2 and 4 vectors in flight, are 70 to 93% of this.
BASE_REGISTERS = 32


def row_kernel(rows: Rows, classes: tuple[str, ...]) -> dict[str, Any]:
    """The reply of the form of a kernel's template, in the rows' 16-bit class if it is allowed."""
    return {
        "cls": rows.half if rows.half in classes else classes[0], "language": "cuda",
        "change": "a row kernel with vectors", "why": "rehearsed: by rule", **template_of(rows, "a row kernel by rule"),
    }  # fmt: skip


def template_of(rows: Rows, title: str) -> dict[str, Any]:
    """The template's text, parameters, inequalities and resources, as in engine.strategies.two_stage.forms."""
    reduces = rows.levels > 0
    if reduces:
        own, choose = {"pieces": 1, "switches": "HOLD = {hold} != 0"}, HOLDING
    else:
        own, choose = {"pieces": "{pieces}", "switches": "SMALL = {small} != 0"}, ONE_PASS
    head = HEAD.format(title=title.replace("{", "(").replace("}", ")"), **own)
    dispatch = "  return launch<float>(in, out, inputs, outputs, stream);"
    if rows.half:
        first = next(n.load[0] for n in rows.nodes.values() if n.load is not None and n.dtype in HALVES)
        dispatch = (
            f"  if (in[{first}].dtype == 1) return launch<__half>(in, out, inputs, outputs, stream);\n"
            f"  if (in[{first}].dtype == 2) return launch<__nv_bfloat16>(in, out, inputs, outputs, stream);\n"
            "  return cudaErrorInvalidValue;"
        )
    tail = TAIL.format(wide=rows.wide, parts=rows.parts, choose=choose, dispatch=dispatch)
    return {"text": head + "\n".join(_body(rows)) + "\n" + tail, **_space(rows, reduces)}


def _space(rows: Rows, reduces: bool) -> dict[str, Any]:
    """Parameters with defaults that every limit allows."""
    width = rows.width
    vector = next(v for v in reversed(VECTORS) if width % v == 0)
    loaded = sum(2 if n.dtype in HALVES else 4 for n in rows.nodes.values() if n.load is not None and n.full)
    stored = sum(2 if dtype in HALVES else 4 for name, dtype in rows.outputs if rows.nodes[name].full)
    registers = f"{BASE_REGISTERS} + ceil_div(unroll * vector * {loaded} + vector * {stored}, 2)"
    threads, whole = _holding(width, vector, registers) if reduces else (0, 0)
    if not whole:
        threads = max(t for t in ROW_THREADS if t <= 256 and ((t - 1) * vector < width or t == ROW_THREADS[0]))
    block = next((b for b in reversed(BLOCK_ROWS) if b * threads <= 256), 1)
    parameters = [
        ("stream", (0, 1), 0, "whether data pass the caches by"),
        ("row_threads", ROW_THREADS, threads, "threads of a row" + ", or twice as many" * (whole > 0)),
        ("unroll", UNROLLS, whole or 1, "loads of a thread in flight"),
        ("block_rows", BLOCK_ROWS, block, "rows of a block"),
        ("vector", VECTORS, vector, "elements of a load"),
    ]
    if reduces:
        parameters.append(("hold", (0, 1), int(whole > 0), "whether a row is read once and stays in registers"))
    else:
        parameters.append(("small", (0, 1), 1, "whether the loads of a small call pass the caches by"))
        parameters.append(("pieces", PIECES, 0, "blocks that share a row; 0: as many as it has vectors for"))
    own = (
        (f"hold == 0 or row_threads * vector * unroll >= {width}", "other", "the registers of its threads hold a row")
        if reduces else
        (f"(row_threads * pieces - 1) * vector < {width} or pieces <= 1", "other", "each block has an element of a row")
    )  # fmt: skip
    limits = [
        (f"{width} % vector == 0", "divisibility", "a row is whole vectors"),
        (f"(row_threads - 1) * vector < {width} or row_threads == {ROW_THREADS[0]}", "other",
         "each thread has an element"),
        own,
        ("threads % warp == 0", "threads", "whole warps"),
        ("blocks_sm * threads >= threads_sm // 4", "occupancy", "a quarter of an SM's threads at least"),
    ]  # fmt: skip
    return {
        "parameters": [
            {"name": n, "values": list(values), "default": d, "meaning": m} for n, values, d, m in parameters
        ],
        "inequalities": [{"expression": e, "resource": r, "why": w} for e, r, w in limits],
        "threads": "row_threads * block_rows",
        "registers": registers,
        "shared_bytes": f"{4 * _reductions(rows)} * block_rows * ceil_div(row_threads, warp)" if reduces else "",
    }  # fmt: skip


def _holding(width: int, vector: int, registers: str) -> tuple[int, int]:
    """(threads, loads in flight) that hold a row in registers with a quarter of an SM's threads at least, on GPUs with
    65,536 registers and 2,048 threads an SM; 256 threads or fewer if that does, and as few loads as cover the row.
    (0, 0) if none does. `registers`: of a thread, as the template states them."""
    needed = read(registers)
    for threads in sorted(ROW_THREADS, key=lambda t: (t > 256, t if t > 256 else -t)):
        unroll = next((u for u in UNROLLS if threads * vector * u >= width), 0)
        fits = 65_536 // (needed.value({"unroll": unroll, "vector": vector}) * threads) * threads >= 512
        if unroll and fits and ((threads - 1) * vector < width or threads == ROW_THREADS[0]):
            return threads, unroll
    return 0, 0


# ---- the body of the kernel ----


def _body(rows: Rows) -> list[str]:
    lines = [
        "  const int lane = threadIdx.x % THREADS, local = threadIdx.x / THREADS;",
        # Blocks that begin together read a row together: neighbours in memory are neighbours in DRAM's pages. Places
        # are found without a division and in 32 bits: of a small kernel's two microseconds that is a tenth.
        "  const unsigned piece = blockIdx.x, width = a.width;",
        "  const unsigned block_row = (blockIdx.z * gridDim.y + blockIdx.y) * ROWS + local;",
        "  const bool live = block_row < a.rows;",
        "  const unsigned row = live ? block_row : a.rows - 1;",
        "  const int64_t at = (int64_t)row * width;  // of the row's first element",
        "  const unsigned first = (piece * THREADS + lane) * V, step = gridDim.x * THREADS * V;",
    ]
    if any("share" in n.code for n in rows.nodes.values()):
        lines.append("  const float share = a.share;")
    if rows.levels:
        lines.append(f"  __shared__ float part[{_reductions(rows)} * ROWS * WARPS];")
    lines += [
        f"  Pack<{_type(n.dtype)}, V> p_{n.name}[UNROLL];" for n in rows.nodes.values() if n.full and n.load is not None
    ]
    lines += _row_loads(rows, 0)
    if rows.levels:
        lines += _row_values(rows, 0)
    # A value that no reduction needs is on its way while they wait for each other, if a row is read once.
    coming = [n for n in _needed(rows, [name for name, _ in rows.outputs]) if n.load is not None]
    stored = [(i, name, dtype) for i, (name, dtype) in enumerate(rows.outputs) if rows.nodes[name].full]
    read: set[str] = set()
    apart = 0  # reductions so far: each has its part of shared memory, so that none waits for another's readers
    for level in range(1, rows.levels + 1):
        reduced = [n for n in rows.nodes.values() if n.reduce and n.level == level]
        for n in reduced:
            lines.append(f"  float r_{n.name} = {'-INFINITY' if n.reduce == 'max' else '0.f'};")
        ends = [
            f"r_{n.name} = joined<{_flag(n)}>(r_{n.name}, {_read(rows, n.args[0])});" for n in reduced
        ]  # fmt: skip
        wanted = [n.args[0] for n in reduced]
        # A result that this pass has at hand is on its way to memory while the threads wait for each other.
        loads = {n.name for n in _needed(rows, wanted) if n.load is not None}
        known = [
            (i, name, dtype) for i, name, dtype in stored
            if rows.nodes[name].level < level
            and loads.issuperset(n.name for n in _needed(rows, [name]) if n.load is not None)
        ]  # fmt: skip
        stored = [x for x in stored if x not in known]
        ends += [f"narrow({_read(rows, name)}, o_{i}.v[e]);" for i, name, _ in known]
        wanted += [name for _, name, _ in known]
        lines += _loop(rows, wanted, ends, [(i, dtype) for i, _, dtype in known], read, early=coming)
        for n in reduced:
            own, apart = f"({apart} * ROWS + local) * WARPS", apart + 1
            lines.append(f"  r_{n.name} = across<{_flag(n)}, THREADS>(r_{n.name}, part + {own}, lane);")
        lines += _row_loads(rows, level) + _row_values(rows, level)
    if stored:
        ends = [f"narrow({_read(rows, name)}, o_{i}.v[e]);" for i, name, _ in stored]
        outputs = [(i, dtype) for i, _, dtype in stored]
        names = [name for _, name, _ in stored]
        lines += _loop(rows, names, ends, outputs, read, between=_late(rows, names))
    scalars = [(i, name, dtype) for i, (name, dtype) in enumerate(rows.outputs) if not rows.nodes[name].full]
    if scalars:
        lines.append("  if (live && lane == 0 && piece == 0) {")
        lines += [f"  {line}" for line in _late(rows, [name for _, name, _ in scalars])]
        lines += [f"    narrow({_read(rows, n)}, (({_type(d)}*)a.out[{i}])[row]);" for i, n, d in scalars]
        lines.append("  }")
    return lines


def _row_values(rows: Rows, level: int, wanted: Collection[Node] | None = None) -> list[str]:
    """The values of a row that are known after `level` reductions and computed, in order. `wanted`: of these alone."""
    return [
        f"  const float r_{n.name} = {_code(rows, n)};"
        for n in (rows.nodes.values() if wanted is None else wanted)
        if not n.full and not n.reduce and n.level == level and n.load is None
    ]


def _late(rows: Rows, names: list[str]) -> list[str]:
    """The values of a row that these are computed from, where no reduction needs them earlier: so the vectors are
    already coming while they are found."""
    return [] if rows.levels else _row_values(rows, 0, _needed(rows, names, of_rows=True))


def _row_loads(rows: Rows, level: int) -> list[str]:
    """The values of a row that are loaded once `level` reductions are known, in order."""
    lines: list[str] = []
    for n in rows.nodes.values():
        if n.full or n.reduce or n.level != level or n.load is None:
            continue
        if n.code.startswith("pick"):
            number, parts, part = n.load
            target = f"i_{n.args[0]}"
            where = f"at * {parts} + (int64_t)width * {part} + (live_{n.name} ? {target} : 0)"
            lines.append(f"  const bool live_{n.name} = {target} >= 0 && {target} < width;")
            lines.append(f"  const float r_{n.name} = wide(((const {_type(n.dtype)}*)a.in[{number}])[{where}]);")
        elif n.dtype == "i64":
            lines.append(f"  const int64_t i_{n.name} = ((const int64_t*)a.in[{n.load[0]}])[row];")
        else:
            lines.append(f"  const float r_{n.name} = wide(((const {_type(n.dtype)}*)a.in[{n.load[0]}])[row]);")
    return lines


def _loop(
    rows: Rows, wanted: list[str], ends: list[str], stored: list[tuple[int, str]], read: set[str],
    early: Sequence[Node] = (), between: Sequence[str] = (),
) -> list[str]:  # fmt: skip
    """One pass over a row: load what `wanted` needs, UNROLL vectors in flight, compute each element, do `ends`.
    `read`: values of earlier passes, which are still in registers if a row is WHOLE; those of this pass are added, and
    with a WHOLE row `early` ones of later passes. `between`: values of a row, found while the vectors are coming."""
    needed = _needed(rows, wanted)
    loads = [n for n in needed if n.load is not None]
    lines = ["  for (unsigned base = first; FULL || base < width; base += step * UNROLL) {"]
    for again in (False, True):
        now = [n for n in loads if (n.name in read) == again]
        if now:
            lines += ["    if constexpr (!WHOLE) {"] if again else []
            lines += _loads(now)
            lines += ["    }"] if again else []
    read.update(n.name for n in loads)
    if ahead := [n for n in early if n.name not in read]:
        lines += ["    if constexpr (WHOLE) {", *_loads(ahead), "    }"]
        read.update(n.name for n in ahead)
    lines += [f"  {line}" for line in between]
    lines += ["#pragma unroll", "    for (int u = 0; u < UNROLL; ++u) {"]
    lines += ["      const unsigned j = base + u * step;", "      if (FULL || j < width) {"]
    lines += [f"        Pack<{_type(dtype)}, V> o_{i};" for i, dtype in stored]
    lines += ["#pragma unroll", "        for (int e = 0; e < V; ++e) {"]
    for n in needed:
        value = f"wide(p_{n.name}[u].v[e])" if n.load is not None else _code(rows, n)
        lines.append(f"          const float v_{n.name} = {value};")
    lines += [f"          {end}" for end in ends]
    lines.append("        }")
    for i, dtype in stored:
        kind = f"Pack<{_type(dtype)}, V>"
        lines.append(f"        if (live) store(({kind}*)(({_type(dtype)}*)a.out[{i}] + at + j), o_{i});")
    return [*lines, "      }", "    }", "    if constexpr (WHOLE || PIECES == 0) break;", "  }"]


def _loads(nodes: list[Node]) -> list[str]:
    """UNROLL vectors of each value into registers. A row's own pass the caches by, if asked; what all rows share does
    not."""
    lines = ["#pragma unroll", "    for (int u = 0; u < UNROLL; ++u) {", "      const unsigned j = base + u * step;"]
    lines.append("      if (FULL || j < width) {")
    for n in nodes:
        number, parts, part = n.load
        kind = f"const Pack<{_type(n.dtype)}, V>*"
        start = f"({kind})((const {_type(n.dtype)}*)a.in[{number}]"
        if n.stride:
            lines.append(f"        p_{n.name}[u] = loaded<PASS>({start} + at * {parts} + width * {part} + j));")
        else:
            lines.append(f"        p_{n.name}[u] = *{start} + j);")
    return [*lines, "      }", "    }"]


def _needed(rows: Rows, wanted: list[str], of_rows: bool = False) -> list[Node]:
    """The values of an element that `wanted` needs, in order. `of_rows`: those of a row among them, too."""
    names, todo = set(), list(wanted)
    while todo:
        node = rows.nodes.get(todo.pop())
        if node is not None and (node.full or of_rows) and node.name not in names:
            names.add(node.name)
            todo += node.args
    return [n for n in rows.nodes.values() if n.name in names]


def _code(rows: Rows, n: Node) -> str:
    return n.code.format(*(_read(rows, a) for a in n.args))


def _read(rows: Rows, name: str) -> str:
    if name not in rows.nodes:
        return f"{name}f"  # a number
    return f"{'v' if rows.nodes[name].full else 'r'}_{name}"


def _reductions(rows: Rows) -> int:
    return sum(1 for n in rows.nodes.values() if n.reduce)


def _flag(n: Node) -> str:
    return "true" if n.reduce == "max" else "false"


def _type(dtype: str) -> str:
    return "T" if dtype in HALVES else "float"
