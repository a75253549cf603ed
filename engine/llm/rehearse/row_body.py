"""The body of a row kernel (row_kernels.py): its loads, its reductions and its stores, line by line.

Where nothing is reduced a thread has DEEP rows, whose loads are all on their way before the first value is computed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from engine.llm.rehearse.row_graph import HALVES, Node, Rows

# Blocks that begin together read a row together: neighbours in memory are neighbours in DRAM's pages. Places are found
# without a division and in 32 bits: of a small kernel's two microseconds that is a tenth.
PLACES = [
    "  const int lane = threadIdx.x % THREADS, local = threadIdx.x / THREADS;",
    "  const unsigned piece = blockIdx.x, width = a.width;",
    "  const unsigned first_row = (blockIdx.z * gridDim.y + blockIdx.y) * ROWS * DEEP + local;",
    "  const unsigned first = (piece * THREADS + lane) * V, step = gridDim.x * THREADS * V;",
]


def body(rows: Rows) -> list[str]:
    """The lines between the kernel's braces."""
    return PLACES + (_reduced(rows) if rows.levels else _mapped(rows))


def _mapped(rows: Rows) -> list[str]:
    vectors = [n for n in rows.nodes.values() if n.full and n.load is not None]
    loads = _row_loads(rows, 0)
    values = [("int64_t i" if n.dtype == "i64" else "float r", n.name) for n in rows.nodes.values() if _of_row(n, 0)]
    lines = [f"  Pack<{_type(n.dtype)}, V> p_{n.name}_of[DEEP][UNROLL];" for n in vectors]
    lines += [f"  {kind}_{name}_of[DEEP];" for kind, name in values]
    if loads:
        lines += _each_row([*loads, *(f"  {kind[-1]}_{name}_of[d] = {kind[-1]}_{name};" for kind, name in values)])
    known = [f"  const {kind}_{name} = {kind[-1]}_{name}_of[d];" for kind, name in values]
    packs = [f"  Pack<{_type(n.dtype)}, V> (&p_{n.name})[UNROLL] = p_{n.name}_of[d];" for n in vectors]
    stored, scalars = _outputs(rows)
    if stored:
        names = [name for _, name, _ in stored]
        loaded = [n for n in _needed(rows, names) if n.load is not None]
        ends = [f"narrow({_read(rows, name)}, o_{i}.v[e]);" for i, name, _ in stored]
        late = _row_values(rows, 0, _needed(rows, names, of_rows=True))
        lines.append("  for (unsigned base = first; base < width; base += step * UNROLL) {")
        lines += _each_row([*packs, *_loads(loaded)])
        lines += _each_row([*packs, *known, *late, *_elements(rows, names, ends, [(i, t) for i, _, t in stored])])
        lines += ["    if constexpr (PIECES == 0) break;", "  }"]
    if scalars:
        late = _row_values(rows, 0, _needed(rows, [name for _, name, _ in scalars], of_rows=True))
        lines += _each_row([*known, *late, *_scalars(rows, scalars)])
    return lines


def _each_row(lines: list[str]) -> list[str]:
    """Lines for each of a thread's rows."""
    return ["#pragma unroll", "  for (int d = 0; d < DEEP; ++d) {", *_row("first_row + d * ROWS"), *lines, "  }"]


def _row(number: str) -> list[str]:
    return [
        f"  const unsigned wanted = {number};",
        "  const bool live = wanted < a.rows;",
        "  const unsigned row = live ? wanted : a.rows - 1;",
        "  const int64_t at = (int64_t)row * width;  // of the row's first element",
    ]


def _reduced(rows: Rows) -> list[str]:
    lines = [*_row("first_row"), f"  __shared__ float part[{reductions(rows)} * ROWS * WARPS];"]
    lines += [
        f"  Pack<{_type(n.dtype)}, V> p_{n.name}[UNROLL];" for n in rows.nodes.values() if n.full and n.load is not None
    ]
    lines += _row_loads(rows, 0) + _row_values(rows, 0)
    # A value that no reduction needs is on its way while they wait for each other, if a row is read once.
    coming = [n for n in _needed(rows, [name for name, _ in rows.outputs]) if n.load is not None]
    read: set[str] = set()
    apart = 0  # reductions so far: each has its part of shared memory, so that none waits for another's readers
    for level in range(1, rows.levels + 1):
        reduced = [n for n in rows.nodes.values() if n.reduce and n.level == level]
        for n in reduced:
            lines.append(f"  float r_{n.name} = {'-INFINITY' if n.reduce == 'max' else '0.f'};")
        ends = [
            f"r_{n.name} = joined<{_flag(n)}>(r_{n.name}, {_read(rows, n.args[0])});" for n in reduced
        ]  # fmt: skip
        lines += _loop(rows, [n.args[0] for n in reduced], ends, [], read, early=coming)
        for n in reduced:
            own, apart = f"({apart} * ROWS + local) * WARPS", apart + 1
            lines.append(f"  r_{n.name} = across<{_flag(n)}>(r_{n.name}, part + {own}, lane);")
        lines += _row_loads(rows, level) + _row_values(rows, level)
    stored, scalars = _outputs(rows)
    if stored:
        ends = [f"narrow({_read(rows, name)}, o_{i}.v[e]);" for i, name, _ in stored]
        outputs = [(i, dtype) for i, _, dtype in stored]
        lines += _loop(rows, [name for _, name, _ in stored], ends, outputs, read)
    return lines + (_scalars(rows, scalars) if scalars else [])


def _outputs(rows: Rows) -> tuple[list[tuple[int, str, str]], list[tuple[int, str, str]]]:
    """(place, value, type) of the outputs with a value for each element, and of those with one for each row."""
    every = [(i, name, dtype) for i, (name, dtype) in enumerate(rows.outputs)]
    return [o for o in every if rows.nodes[o[1]].full], [o for o in every if not rows.nodes[o[1]].full]


def _scalars(rows: Rows, outputs: list[tuple[int, str, str]]) -> list[str]:
    stores = [f"    narrow({_read(rows, n)}, (({_type(d)}*)a.out[{i}])[row]);" for i, n, d in outputs]
    return ["  if (live && lane == 0 && piece == 0) {", *stores, "  }"]


def _row_values(rows: Rows, level: int, wanted: Collection[Node] | None = None) -> list[str]:
    """The values of a row that are known after `level` reductions and computed, in order. `wanted`: of these alone."""
    return [
        f"  const float r_{n.name} = {_code(rows, n)};"
        for n in (rows.nodes.values() if wanted is None else wanted)
        if not n.full and not n.reduce and n.level == level and n.load is None
    ]


def _of_row(n: Node, level: int) -> bool:
    """Whether it is a value of a row that is loaded once `level` reductions are known."""
    return not n.full and not n.reduce and n.level == level and n.load is not None


def _row_loads(rows: Rows, level: int) -> list[str]:
    """The values of a row that are loaded once `level` reductions are known, in order."""
    lines: list[str] = []
    for n in rows.nodes.values():
        if not _of_row(n, level):
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
    early: Sequence[Node] = (),
) -> list[str]:  # fmt: skip
    """One pass over a row: load what `wanted` needs, UNROLL vectors in flight, compute each element, do `ends`.
    `read`: values of earlier passes, which are still in registers if a row is WHOLE; those of this pass are added, and
    with a WHOLE row `early` ones of later passes."""
    loads = [n for n in _needed(rows, wanted) if n.load is not None]
    lines = ["  for (unsigned base = first; base < width; base += step * UNROLL) {"]
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
    return [*lines, *_elements(rows, wanted, ends, stored), "    if constexpr (WHOLE) break;", "  }"]


def _elements(rows: Rows, wanted: list[str], ends: list[str], stored: list[tuple[int, str]]) -> list[str]:
    """Compute `wanted` of each element of the vectors in flight, do `ends`, and store (output, type)."""
    lines = ["#pragma unroll", "    for (int u = 0; u < UNROLL; ++u) {"]
    lines += ["      const unsigned j = base + u * step;", "      if (j < width) {"]
    lines += [f"        Pack<{_type(dtype)}, V> o_{i};" for i, dtype in stored]
    lines += ["#pragma unroll", "        for (int e = 0; e < V; ++e) {"]
    for n in _needed(rows, wanted):
        value = f"wide(p_{n.name}[u].v[e])" if n.load is not None else _code(rows, n)
        lines.append(f"          const float v_{n.name} = {value};")
    lines += [f"          {end}" for end in ends]
    lines.append("        }")
    for i, dtype in stored:
        kind = f"Pack<{_type(dtype)}, V>"
        lines.append(f"        if (live) store(({kind}*)(({_type(dtype)}*)a.out[{i}] + at + j), o_{i});")
    return [*lines, "      }", "    }"]


def _loads(nodes: list[Node]) -> list[str]:
    """UNROLL vectors of each value into registers. A row's own pass the caches by, if asked; what all rows share does
    not."""
    lines = ["#pragma unroll", "    for (int u = 0; u < UNROLL; ++u) {", "      const unsigned j = base + u * step;"]
    lines.append("      if (j < width) {")
    for n in nodes:
        number, parts, part = n.load
        kind = f"const Pack<{_type(n.dtype)}, V>*"
        start = f"({kind})((const {_type(n.dtype)}*)a.in[{number}]"
        if n.stride:
            lines.append(f"        p_{n.name}[u] = loaded({start} + at * {parts} + width * {part} + j));")
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


def reductions(rows: Rows) -> int:
    return sum(1 for n in rows.nodes.values() if n.reduce)


def _flag(n: Node) -> str:
    return "true" if n.reduce == "max" else "false"


def _type(dtype: str) -> str:
    return "T" if dtype in HALVES else "float"
