"""Programs by text, checked and resolved, for the tests of the cute back end."""

from __future__ import annotations

from pathlib import Path

from dsl.check.program import check
from dsl.ir import Program
from dsl.resolve import resolve

EXAMPLES = Path(__file__).parents[4] / "dsl" / "examples"


def program(text: str) -> Program:
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
    return resolve(checked.program, 132)


def example(name: str) -> Program:
    return program((EXAMPLES / f"{name}.ucutlass").read_text())


def gemm(epilogue: str = "acc", params: str = "", clauses: str = "", dtype: str = "f16") -> Program:
    """y = epilogue(x @ w.T) for x[256, 512] and w[256, 512], so that m == n; `params` names what the epilogue reads."""
    more = f", {params}" if params else ""
    return program(
        f"program p(x: {dtype}[256, 512], w: {dtype}[256, 512]{more}) -> {dtype}[256, 256] {{\n"
        f"  y = gemm(x, w.T) {{ {clauses} epilogue {epilogue} }}\n  return y\n}}"
    )


def batched(a: str, b: str, out: str, call: str, epilogue: str = "acc", params: str = "") -> Program:
    """One f16 product of the given shapes: `batched("8, 64, 32", "32, 48", "8, 64, 48", "x, w")`."""
    more = f", {params}" if params else ""
    return program(
        f"program p(x: f16[{a}], w: f16[{b}]{more}) -> f16[{out}] {{\n"
        f"  y = gemm({call}) {{ epilogue {epilogue} }}\n  return y\n}}"
    )
