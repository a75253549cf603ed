"""A module in regions as a whole: which programs stand in it, when, and that a wrong one is found out there."""

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from engine.bench.run.child import BenchChild
from engine.bench.run.composing import NONE_FASTER, Composing, Part
from engine.bench.run.plan import ahead, plan
from engine.bench.run.request import Wanted
from engine.bench.run.results_file import Book
from engine.suite.cases import PROBLEMS
from sol.graph import OpGraph
from sol.hardware import load
from tests.engine.bench.test_judge import row, trial

H200 = load("h200")
MODULE = PROBLEMS / "moe_layer.py"
LIMITS = {"tf32": 0.05, "f16": 0.02}


def book(*regions):
    made = Book(None)
    names = [f"m#{i + 1}" for i in range(len(regions))]
    made.problems = {"m": row(regions=names), **dict(zip(names, regions, strict=True))}
    return made


def composing(held, *finished, classes=("tf32",), device="cuda"):
    planners = dict.fromkeys(classes, "a planner")
    planning = SimpleNamespace(
        finished=set(finished), plans={n: SimpleNamespace(planners=planners) for n in held.problems}
    )
    return Composing(Wanted({"m": "outside"}, classes, device=device), H200, held, None, planning)


def region(*trials):
    return row(*trials, limits=LIMITS)


def made(cls, ms, text):
    return trial(cls, ms, text=text)


def test_a_program_stands_where_it_beats_pytorch_and_nothing_begins_before_every_search_is_over():
    held = book(region(made("tf32", 1.0, "fast")), region(made("tf32", 2.5, "slower than eager TF32")))
    assert composing(held, "m#1").ready() is None
    one = composing(held, "m#1", "m#2")
    found = one.ready()
    assert [(p.region, p.trial["text"]) for p in found.parts] == [("m#1", "fast")]
    assert found.told()["programs"] == {"m#1": "fast"} and found.told()["change"] == "1 program of ours and PyTorch"
    assert one.ready() is None and not one.waiting


def test_a_composition_that_the_results_hold_is_not_made_again_and_a_better_program_makes_another():
    held = book(region(made("tf32", 1.0, "fast")), region())
    held.composed("m", trial("tf32", 1.5, programs={"m#1": "fast"}))
    assert composing(held, "m#1", "m#2").ready() is None
    held.problems["m#1"] = region(made("tf32", 1.0, "fast"), made("tf32", 0.5, "faster"))
    assert composing(held, "m#1", "m#2").ready().told()["programs"] == {"m#1": "faster"}


def test_where_pytorch_is_faster_everywhere_that_is_said_and_the_module_counts_as_eager():
    held = book(region(made("tf32", 2.5, "slow")), region())
    assert composing(held, "m#1", "m#2").ready() is None
    assert held.problems["m"]["composed"]["tf32"]["message"] == NONE_FASTER
    from engine.bench.report.table import table

    text = table(held.problems, ("tf32",))
    assert "0 of 1 problems" in text and NONE_FASTER in text and "0.25x eager TF32" in text


def test_each_class_has_its_own_and_the_coarsest_program_names_its_precision():
    held = book(region(made("f16", 0.4, "half"), made("tf32", 1.0, "full")), region(made("tf32", 0.3, "finer")))
    one = composing(held, "m#1", "m#2", classes=("tf32", "f16"))
    found = {c.cls: c.told() for c in iter(one.ready, None)}
    assert found["tf32"]["programs"] == {"m#1": "full", "m#2": "finer"} and found["tf32"]["derived"] == "tf32"
    assert found["f16"]["programs"] == {"m#1": "half", "m#2": "finer"} and found["f16"]["derived"] == "f16"


def test_a_guarded_program_puts_the_module_under_the_roof_of_f16():
    held = book(region(made("tf32", 1.0, "guarded") | {"roof": "f16"}), region())
    told = composing(held, "m#1", "m#2").ready().told()
    assert (told["roof"], told["derived"]) == ("f16", "tf32")


@pytest.fixture(scope="module")
def experts():
    """(the child with the small mixture of experts open, its graph, its regions' programs in their places)"""
    child = BenchChild("cpu")
    graph = child.trace({"module": str(MODULE), "small": True, "seed": 3})["graph"]
    child.open({"module": str(MODULE), "seed": 3})
    placed = []
    for part in plan("moe_layer", OpGraph.from_json(graph), ("tf32",), H200).parts:
        planner = plan("region", part["graph"], ("tf32",), H200).planners["tf32"]
        (proposal,) = ahead(planner, [], 1)
        found = Part("region", {"text": proposal.text}, None, planner)
        placed.append(found.placed(part["ops"], None, None))
    return child, graph, placed


def compose(experts, change=lambda placed: placed):
    child, graph, placed = experts
    return child.compose({"graph": graph, "placed": change([dict(p) for p in placed]), "cls": "tf32"})


def test_the_module_with_every_program_or_with_one_is_right(experts):
    assert len(experts[2]) == 2
    for change in (lambda placed: placed, lambda placed: placed[1:], lambda placed: []):
        found = compose(experts, change)
        assert found.get("ok") and found["error"] < 5e-3, found


def test_a_wrong_program_is_found_out_in_the_whole_module(experts):
    def other_order(placed):
        *rest, last = placed
        inputs = last["inputs"]
        shapes = [tuple(b["shape"]) for b in inputs]
        one, two = next((i, j) for i in range(len(shapes)) for j in range(i) if shapes[i] == shapes[j])
        swapped = list(inputs)
        swapped[one] = {**inputs[one], "tensor": inputs[two]["tensor"]}
        swapped[two] = {**inputs[two], "tensor": inputs[one]["tensor"]}
        return [*rest, {**last, "inputs": swapped}]

    assert compose(experts, other_order)["wrong"] == "wrong_result"
