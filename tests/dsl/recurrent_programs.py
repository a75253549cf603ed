"""Texts of programs with one recurrent stage."""

from dsl.ir import CELLS


def text(
    op="lstm", steps=5, batch=3, hidden=20, directions=1, clauses="", states=False, bias=True, element="f32",
    weight="f32", also=True, order="tb", layers=1,
) -> str:  # fmt: skip
    """The program with its gates, weights, biases and states as parameters g0, w0, b0, h0, c0 (g1, ... backwards)."""
    width, lead = CELLS[op] * hidden, f"{steps}, {batch}" if order == "tb" else f"{batch}, {steps}"
    sides = range(directions)
    params = {f"g{d}": f"{element}[{lead}, {width}]" for d in sides}
    params |= {f"w{d}": f"{weight}[{width}, {hidden}]" for d in sides}
    params |= {f"b{d}": f"{weight}[{width}]" for d in sides} if bias else {}
    first = ("h0", "c0") if op == "lstm" else ("h0",)
    params |= dict.fromkeys(first, f"f32[{layers * directions}, {batch}, {hidden}]") if states else {}
    results = {"y": f"{element}[{lead}, {directions * hidden}]"}
    last = {"hn": "acc", "cn": "acc2"} if op == "lstm" else {"hn": "acc"}
    last = last if also else {}
    results |= dict.fromkeys(last, f"{element}[{directions}, {batch}, {hidden}]")
    written = "  ".join(f"also {n} = {e}" for n, e in last.items())
    types = ", ".join(results.values())
    return f"""program p({", ".join(f"{n}: {t}" for n, t in params.items())}) -> {f"({types})" if last else types} {{
  y = recurrent({", ".join(params)}) {{ op {op}  order {order}  {clauses}  {written} }}
  return {", ".join(results)}
}}"""
