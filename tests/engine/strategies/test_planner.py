"""The planner proposes legal, distinct, explained configurations, the same ones for the same state."""

import pytest

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.ir import Gemm
from dsl.rules import legal
from engine.devices import Problem, SessionRefused, TrialError
from engine.session import events
from engine.strategies.api import Finished, State
from engine.strategies.planner.planner import CPP_TRIALS
from engine.strategies.planner.search import candidates
from engine.strategies.planner.search.in_range import scalable
from sol.hardware import load
from tests.engine.graphs import Builder, linear
from tests.engine.planning import planned

H200 = load("h200")


def along_n(rows: int = 1024, k: int = 8192, n: int = 8192):
    """A product whose second operand lies along n. Where that stays as it is, only `cpp` multiplies it in tf32."""
    g = Builder()
    y = g.op("matmul", [g.input("x", (rows, k)), g.parameter("w", (k, n))], (rows, n))
    return g.graph(g.op("relu", [y], (rows, n)))


def planner(graph=None, classes=("tf32", "f16"), kind="predicted"):
    graph = graph or linear([("relu", {})], rows=1024, k=8192, n=8192)
    return planned(Problem("", "module", graph), classes, H200, kind)


def search(strategy, n, ms=lambda p: p.predicted_ms):
    """The planner's first n proposals, each finished in the time that `ms` gives it."""
    trials, proposals = [], []
    while len(proposals) < n:
        p = strategy.next(State(tuple(trials), n))
        if p is None:
            break
        proposals.append(p)
        trials.append(Finished(len(trials) + 1, p.text, p.cls, p.backend, ms=ms(p)))
    return proposals


@pytest.mark.parametrize("n", [12, 24])
def test_every_proposal_passes_the_checks_and_is_built_by_its_back_end(n):
    for p in search(planner(), n):
        checked = check(p.text)
        assert checked.ok, checked.diagnostics
        assert p.backend in generate(checked.program).sources


def test_no_program_is_proposed_twice():
    resolved = []
    for p in search(planner(), 24):
        program = generate(check(p.text).program).resolved
        config = next(s.config for s in reversed(program.stages) if isinstance(s, Gemm))
        resolved.append((p.cls, candidates.key(config)[:5]))
    assert len(resolved) == len(set(resolved))


def test_the_same_state_gives_the_same_proposal_from_a_fresh_planner():
    again = search(planner(), 12)
    for i, p in enumerate(search(planner(), 12)):
        trials = tuple(Finished(j + 1, q.text, q.cls, q.backend, ms=q.predicted_ms) for j, q in enumerate(again[:i]))
        assert planner().next(State(trials, 12)) == p == again[i]


def test_every_proposal_says_what_changed_and_why():
    for p in search(planner(), 12):
        assert p.change and "\n" not in p.change
        assert "predicted" in p.why and "\n" not in p.why


def test_all_that_lies_along_k_goes_to_the_fast_build_with_and_without_a_guard_in_class_tf32():
    proposals = search(planner(), 12)
    assert {p.backend for p in proposals} == {"cute"}
    assert {("guard f32" in p.text) for p in proposals if p.cls == "tf32"} == {True, False}


def test_tf32_along_n_goes_to_nvcc_and_to_the_fast_build_transposed_or_guarded():
    proposals = search(planner(along_n()), 12)
    assert {(p.cls, p.backend) for p in proposals} == {("tf32", "cpp"), ("tf32", "cute"), ("f16", "cute")}
    fast = [p for p in proposals if (p.cls, p.backend) == ("tf32", "cute")]
    assert all(("guard f32" in p.text) != ("transform(" in p.text and "to f16" not in p.text) for p in fast)
    guarded = next(p for p in proposals if "guard f32" in p.text)
    assert "tf32 by guarded f16" in guarded.change and "store f16" not in guarded.text
    assert guarded.why.endswith("under a guard (all again in tf32 or f32 where f16 lacks their range), timed")


def test_where_builds_take_time_the_fast_ones_come_first_and_the_slow_ones_are_few():
    proposals = search(planner(along_n(), kind="measured"), 40)
    assert [p.backend for p in proposals[:2]] == ["cute", "cute"]
    assert 1 <= sum(p.backend == "cpp" for p in proposals) <= CPP_TRIALS


def test_the_slow_builds_are_announced_before_their_turn():
    ahead = planner(along_n(), kind="measured").upcoming(State())
    backends = [p.backend for p in ahead]
    assert backends[0] == "cpp" and backends == sorted(backends)  # cpp, then cute, however many of each


@pytest.mark.parametrize(
    ("rows", "left", "first"),
    [
        (512, 12, "cute"),  # expected to be 1.2 times as slow as what nvcc builds meanwhile
        (128, 12, "cute"),  # twice as slow
        (512, 1, "cpp"),  # one trial is for the best
    ],
)
def test_while_nvcc_builds_the_best_another_structure_is_tried(rows, left, first):
    graph = along_n(rows)
    built = planner(graph, ("tf32",), "measured").upcoming(State())[0]
    assert built.backend == "cpp"
    assert planner(graph, ("tf32",), "measured").next(State((), left)).backend == first
    assert built.text in [p.text for p in search(planner(graph, ("tf32",), "measured"), 2)]


def test_what_is_much_worse_is_not_tried_while_nvcc_builds_the_best(monkeypatch):
    monkeypatch.setattr("engine.strategies.planner.planner.WORSE", 1.5)  # and the other takes twice the time
    assert planner(along_n(128), ("tf32",), "measured").next(State((), 12)).backend == "cpp"


def test_refinement_starts_from_the_best_measured_not_the_best_predicted():
    strategy = planner(classes=("f16",))
    favourite = search(strategy, 4)[3].text
    proposals = search(strategy, 14, ms=lambda p: 0.1 if p.text == favourite else 1.0)
    refined = [p for p in proposals if p.parent is not None]
    assert refined and {p.parent for p in refined} == {4}
    assert "->" in refined[0].change and "the best so far" in refined[0].why


def test_a_structure_whose_guard_tripped_is_left_alone():
    strategy = planner(classes=("tf32",), kind="measured")
    trials = []
    for number in range(1, 9):
        p = strategy.next(State(tuple(trials), 12))
        if p is None:
            break
        trials.append(Finished(number, p.text, p.cls, p.backend, ms=1.0, tripped="guard f32" in p.text))
    assert trials[0].tripped and not any(t.tripped for t in trials[1:]) and len(trials) > 1
    assert not any("guard f32" in p.text for p in strategy.screen(State(tuple(trials), 12)))


@pytest.mark.parametrize(("kind", "most"), [("predicted", 1), ("measured", 2)])
def test_a_structure_whose_results_are_wrong_is_left_alone(kind, most):
    strategy, trials = planner(layers(), ("tf32",), kind), []
    while (p := strategy.next(State(tuple(trials), 9))) and len(trials) < 9:
        wrong = "guard f32" not in p.text
        failure = {"failed": "validate", "code": "wrong_result"} if wrong else {"ms": p.predicted_ms}
        trials.append(Finished(len(trials) + 1, p.text, p.cls, p.backend, **failure))
    wrong = [t for t in trials if t.failed]
    assert len([t for t in wrong if t.backend == "cute"]) == most and len(trials) == 9
    assert kind == "measured" or len(wrong) == 1, "nor by nvcc, where the meaning alone is checked"


def layers(rows: int = 1024, width: int = 4096):
    """Two linear layers."""
    g = Builder()
    x, w, v = (
        g.input("x", (rows, width)),
        g.parameter("a.weight", (width, width)),
        g.parameter("b.weight", (width, width)),
    )
    h = g.op("relu", [g.op("linear", [x, w], (rows, width))], (rows, width))
    return g.graph(g.op("linear", [h, v], (rows, width)))


def tripped(number: int, p, ranges: dict[str, list[float]]) -> Finished:
    guard = {"name": "guard", "verdict": "minor", "said": "the guard tripped on all timed inputs", "ranges": ranges}
    return Finished(number, p.text, p.cls, p.backend, ms=1.0, tripped=True, evidence=(guard,))


def test_a_structure_whose_guard_tripped_is_tried_again_in_range_once():
    strategy = planner(layers(), ("tf32",), "measured")
    first = next(p for p in search(strategy, 4) if "guard f32" in p.text)
    (name,) = scalable(check(first.text).program)
    trials = [tripped(1, first, {name: [1e-4, 1e-2], "y": [1e-9, 1.0]})]
    again = strategy.next(State(tuple(trials), 12))
    assert "scaled by powers of two into f16's range" in again.change and "* 8192.0" in again.text
    assert again == planner(layers(), ("tf32",), "measured").next(State(tuple(trials), 12)), (
        "a session that goes on finds the same"
    )
    for number in range(2, 12):
        p = strategy.next(State(tuple(trials), 12))
        if p is None:
            break
        guarded = "guard f32" in p.text
        trials.append(
            tripped(number, p, {name: [1e-9, 1e-3]}) if guarded else Finished(number, p.text, p.cls, p.backend, ms=1.0)
        )
    assert sum("guard f32" in t.text for t in trials) == 2, "it is not scaled a second time"


def test_a_guard_that_tripped_without_ranges_leaves_the_structure_alone():
    strategy = planner(layers(), ("tf32",), "measured")
    trials = []
    for number in range(1, 6):
        p = strategy.next(State(tuple(trials), 12))
        if p is None:
            break
        trials.append(tripped(number, p, {}) if "guard f32" in p.text else Finished(number, p.text, p.cls, ms=1.0))
    assert sum("guard f32" in t.text for t in trials) == 1


def test_refinement_varies_every_clause_before_it_varies_one_twice():
    graph = linear([("relu", {})], rows=1024, k=8200, n=8192)  # a weight that is cast before the product
    proposals = [p for p in search(planner(graph, ("f16",)), 14) if p.parent is not None]
    clauses = [p.change.split()[0] for p in proposals[:3]]
    assert len(set(clauses)) == 3


def test_a_closed_class_gets_no_trial():
    strategy = planner()
    assert strategy.next(State(closed={"f16": "done"})).cls == "tf32"
    assert strategy.next(State(closed={"f16": "done", "tf32": "done"})) is None


@pytest.mark.parametrize("step", ["compile", "validate"])
def test_where_the_fast_build_fails_nvcc_builds_the_same_products(step):
    strategy, trials = planner(classes=("tf32",), kind="measured"), []
    while p := strategy.next(State(tuple(trials), 12)):
        failed = step if p.backend == "cute" else ""
        trials.append(Finished(len(trials) + 1, p.text, p.cls, p.backend, ms=None if failed else 1.0, failed=failed))
        if len(trials) == 6:
            break
    ours = [t for t in trials if t.backend == "cpp"]
    assert ours and "guard" not in ours[0].text, "nvcc writes no guard"
    assert check(ours[0].text).program.stages[-1].config.backend == "cpp"
    again = planner(classes=("tf32",), kind="measured").next(State(tuple(trials[: trials.index(ours[0])]), 12))
    assert again.text == ours[0].text, "a session that goes on finds the same"


def test_failed_trials_are_neither_repeated_nor_followed():
    strategy = planner(classes=("f16",))
    first = strategy.next(State())
    second = strategy.next(State((Finished(1, first.text, "f16", "cute", failed="validate"),)))
    assert second.text != first.text and second.parent is None


def test_a_small_space_is_exhausted_and_the_search_ends():
    proposals = search(planner(linear(rows=64, k=64, n=64), ("f16",)), 500)
    assert 3 < len(proposals) < 500


def test_classes_without_a_back_end_are_refused():
    with pytest.raises(SessionRefused, match="f32"):
        planner(classes=("f32",))


def test_a_module_in_float64_is_told_its_type_and_the_way_out_whatever_is_allowed():
    for classes in (("tf32", "f16"), ("f32",), ("fp8",)):
        with pytest.raises(
            SessionRefused, match=r"computes in float64, and programs compute in float32.*\.float\(\)"
        ) as e:
            planner(linear(dtype="f64"), classes)
        assert (e.value.code, e.value.line) == ("element_type", 1)


def test_a_float64_part_of_another_module_stays_pytorch_and_is_named():
    g = Builder()
    y = g.op("linear", [g.input("x", (256, 128)), g.parameter("w", (192, 128))], (256, 192))
    g.dtype = "f64"
    z = g.op("linear", [g.input("d", (256, 128)), g.parameter("v", (64, 128))], (256, 64))
    strategy = planner(g.graph(y, z))
    assert [u.name for u in strategy.problem.uncovered] == [z]
    assert "computes in float64, and programs in float32" in strategy.problem.uncovered[0].reason


def test_a_class_that_no_program_can_stand_in_is_left_out_with_the_reason(monkeypatch):
    from engine.strategies.planner.search import structures

    real = structures.opened

    def refuses_half(p, words, hw, reasons):
        if any(getattr(s, "to", None) for s in p.stages):
            reasons.append("no half here")
            return None
        return real(p, words, hw, reasons)

    monkeypatch.setattr(structures, "opened", refuses_half)
    strategy = planner()
    assert strategy.problem.classes == ["tf32"]
    assert strategy.problem.notes == [events.Noted("class_left_out", "f16 is left out: no half here", "f16")]


def test_a_program_that_no_back_end_takes_is_refused_with_its_words(monkeypatch):
    from engine.strategies.planner.search import structures

    monkeypatch.setattr(structures, "opened", lambda p, words, hw, reasons: reasons.append("too wide for 16 bytes"))
    with pytest.raises(SessionRefused, match="rejected: tf32: too wide for 16 bytes"):
        planner(classes=("tf32",))


def test_structures_are_tried_beside_configurations_the_expected_best_first():
    g = Builder()
    y = g.op("mm", [g.input("a", (4096, 4096)), g.input("b", (4096, 4096))], (4096, 4096))
    proposals = search(planner(g.graph(y), ("tf32",)), 8)
    assert "guard f32" in proposals[0].text  # f16's roof is twice as high
    first, second = [p for p in proposals if "guard" not in p.text][:2]
    assert "permute 1x0" in first.text and "transposed along K" in first.change  # tf32 reads K alone at full speed
    assert "permute" not in second.text and "tile" in proposals[2].change


def test_what_nvcc_builds_waits_for_the_rest_where_it_promises_little():
    g = Builder()
    y = g.op("mm", [g.input("a", (4096, 4096)), g.input("b", (4096, 4096))], (4096, 4096))
    backends = [p.backend for p in search(planner(g.graph(y), ("tf32",)), 8)]
    assert backends[:6] == ["cute"] * 6 and "cpp" in backends


def test_a_convolution_has_tiles_to_try():
    g = Builder()
    y = g.op("conv2d", [g.input("x", (8, 64, 64, 64)), g.parameter("w", (128, 64, 3, 3))], (8, 128, 62, 62))
    proposals = search(planner(g.graph(y), ("f16",)), 8)
    assert len({p.text for p in proposals}) == 8 and sum("tile" in p.change for p in proposals) >= 5


def test_a_module_without_products_is_one_trial():
    g = Builder()
    y = g.op("softmax", [g.input("x", (512, 1024))], (512, 1024), dim=-1)
    assert [p.backend for p in search(planner(g.graph(y), ("tf32",)), 5)] == ["cute"]


def test_the_owners_program_is_bound_by_name_or_in_order():
    strategy = planner()
    text = strategy.next(State()).text
    inputs, outputs = strategy.problem.bind(text)
    assert [b.name for b in outputs] == ["y"]
    assert [b.tensor for b in inputs] == ["x", "linear_weight", "linear_bias"]
    renamed = text.replace("linear_weight", "ww").replace("linear_bias", "bb")
    bound = strategy.problem.bind(renamed)[0][1:]
    assert [(b.name, b.tensor) for b in bound] == [
        ("ww", "linear_weight"),
        ("bb", "linear_bias"),
    ]
    with pytest.raises(TrialError, match="must take what the module takes"):
        strategy.problem.bind(text.replace("8192", "4096"))


def test_ranking_is_by_predicted_time_and_every_entry_is_legal():
    strategy = planner(classes=("f16",))
    line = strategy.lines["f16"]
    predicted = [round(r.ms, 6) for r in line.ranked]
    assert predicted == sorted(predicted)
    stage = next(s for s in line.base.stages if s.name == line.main)
    problem = legal.program_problem(line.base, stage)
    assert len(line.ranked) > 100
    assert not any(legal.objections(problem, r.config, "cute") for r in line.ranked)


def test_a_long_sum_into_a_small_result_is_split():
    g = Builder("f16")
    y = g.op("mm", [g.input("a", (256, 524288)), g.input("b", (524288, 256))], (256, 256))
    best = planner(g.graph(y)).lines["f16"].ranked[0]
    assert best.config.scheduler.kind in ("split_k", "stream_k")
