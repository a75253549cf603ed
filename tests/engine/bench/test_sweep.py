"""A sweep can be made again from a clone: the same products and configurations, programs that the back end takes."""

import json
from pathlib import Path

import pytest

import engine.results
from dsl.check.program import check
from dsl.lower.cute import lower
from dsl.resolve import resolve
from engine.bench.studies import sweep
from sol.hardware import load
from sol.model.sweep import judge, program_text

RECORDED = json.loads((Path(engine.results.__file__).parent / "sweep-h200-2026-11-21.json").read_text())
BY_ID = {p.id: p for p in sweep.PRODUCTS}


def test_the_recorded_products_are_those_of_the_command():
    assert len(RECORDED["problems"]) >= 15
    for p in RECORDED["problems"]:
        again = BY_ID[p["id"]]
        assert (p["program"].split(), p["held_out"]) == (again.program.split(), again.held_out)


@pytest.mark.parametrize("name", ["square_1024", "batch_64", "gelu_rows_256", "turned_4096"])
def test_the_same_configurations_are_drawn_as_were_recorded(name):
    (recorded,) = (p for p in RECORDED["problems"] if p["id"] == name)
    drawn = sweep.configurations(BY_ID[name])
    assert [c for c, _ in drawn] == [c["config"] for c in recorded["configs"]]
    assert len({text for _, text in drawn}) == len(drawn) <= 48


@pytest.mark.parametrize("name", ["square_3000", "batch_128", "gelu_tall", "turned_4096"])
def test_every_drawn_program_is_one_that_cute_takes(name):
    for clauses, text in sweep.configurations(BY_ID[name], 6):
        checked = check(text)
        assert checked.ok and "def build" in lower(resolve(checked.program, 132)).text
        written = check(program_text({"program": BY_ID[name].program}, clauses)).program
        assert written.stages[0].config == checked.program.stages[0].config  # what `sol sweep` will judge


def test_the_plan_needs_no_gpu_and_mistakes_get_one_line(capsys):
    assert sweep.main(["--plan", "--only", "square_1024,rows_16", "--configs", "24"]) == 0
    assert "2 products, " in capsys.readouterr().out
    assert sweep.main(["--plan", "--only", "cube"]) == 2
    assert "no product is called 'cube'" in capsys.readouterr().err


def test_a_file_of_the_command_is_a_sweep():
    problem = RECORDED["problems"][0]
    sweep_file = {"problems": [{"id": "a", "program": BY_ID[problem["id"]].program, "configs": problem["configs"][:3]}]}
    assert len(judge(json.dumps(sweep_file), load("h200"))[0].runs) == 3
