"""A guard over a long chain of products may trip on the module's own activations, and the planner counts with that."""

import pytest

from dsl.check.program import check
from dsl.lower.plan import rescue
from engine.devices import Problem
from engine.strategies.api import State
from engine.strategies.planner.search.guard_risk import AT_MOST, SAFE, chance, depth, expected_ms, rescue_ms
from sol.attainable import predict
from sol.hardware import load
from tests.engine.graphs import Builder
from tests.engine.planning import planned

H200 = load("h200")


def chain(many: int, norm: str = "", guard: bool = True, size: int = 512):
    """A program of so many products before the last, one after the other; `norm`: a stage in their middle."""
    kind = "f32" if guard else "f16"
    lines, x, w = [], "x", "w"
    if guard:  # which watches casts from f32
        lines, x, w = ["xt = transform(x) { to f16 }", "wt = transform(w) { to f16 }"], "xt", "wt"
    for i in range(many):
        normed = norm and i == many // 2 - 1
        store = "f32" if normed else "f16"
        lines.append(f"h{i} = gemm({x}, {w}.T) {{ compute f16 store {store} epilogue relu(acc) }}")
        x = f"h{i}"
        if normed:
            lines.append(f"n = {norm.format(x)} {{ op layernorm over n store f16 }}")
            x = "n"
    lines.append(f"y = gemm({x}, {w}.T) {{ compute f16 store f32 }}")
    body = "\n".join(lines)
    head = "guard f32" if guard else ""
    w, y = f"{size}, {size}", f"{size // 2}, {size}"
    text = f"program p(x: {kind}[{y}], w: {kind}[{w}]) -> f32[{y}] {{\n{head}\n{body}\nreturn y\n}}"
    checked = check(text)
    assert checked.ok, checked.diagnostics
    return checked.program


def mlp(layers: int, width: int = 4096):
    g = Builder()
    x = g.input("x", (1024, width))
    for i in range(layers):
        h = g.op("linear", [x, g.parameter(f"l{i}.weight", (width, width))], (1024, width))
        x = g.op("relu", [h], (1024, width))
    return g.graph(x)


def first(graph):
    return planned(Problem("", "module", graph), ("tf32",), H200, "measured").next(State((), 12))


def test_products_count_along_the_deepest_way_since_a_norm():
    assert depth(chain(3)) == 4
    assert depth(chain(8, "normalize({})")) == 5


def test_a_short_chain_and_one_without_a_guard_are_safe():
    assert chance(chain(SAFE - 1)) == chance(chain(40, guard=False)) == 0
    assert 0 < chance(chain(SAFE + 1)) < chance(chain(SAFE + 4)) < chance(chain(60)) == AT_MOST


def test_the_time_of_a_risky_program_has_its_rescue_in_it():
    assert expected_ms(1.0, chain(3), H200) == 1.0
    assert expected_ms(1.0, chain(20), H200) > 1.0


def test_a_rescue_on_tensor_cores_costs_the_tf32_program_and_spares_a_product(monkeypatch):
    p = chain(0, size=4096)
    tf32, half = predict(rescue.chosen(p), H200).ms, predict(p, H200).stages[-1].ms
    assert rescue.leaves_out(p, p.stages[-1]) and rescue_ms(p, H200) == pytest.approx(tf32 - half)
    monkeypatch.setattr(rescue, "WORTH", 0.0)
    rescue.chosen.cache_clear()
    on_cuda_cores = rescue_ms(p, H200)
    rescue.chosen.cache_clear()
    assert on_cuda_cores > 8 * tf32


@pytest.mark.parametrize(("layers", "guarded"), [(3, True), (20, False)])
def test_a_deep_network_begins_in_tf32_without_a_guard(layers, guarded):
    proposal = first(mlp(layers))
    assert ("guard f32" in proposal.text) is guarded


def test_a_risky_program_says_so():
    strategy = planned(Problem("", "module", mlp(20)), ("tf32",), H200, "measured")
    steps = [strategy.all[0].proposal(step, H200) for step in strategy.all[0].plan()]
    why = next(p.why for p in steps if "guard f32" in p.text)
    assert "its guard may trip behind 20 products in a chain, which counts with 50%" in why
