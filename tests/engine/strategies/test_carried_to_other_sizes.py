"""A program of one size becomes the program of another size, with the configurations that it has."""

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.ir import Collective
from dsl.printer import to_text
from dsl.resolve import resolve
from engine.devices import Problem
from engine.strategies.planner.search.carried import carried
from engine.strategies.problem import Prepared
from sol.hardware import load
from tests.engine.strategies.functions import traced

H200 = load("h200")


def of_functions(cls, function, *shapes):
    graph = traced(function, *[torch.randn(s) for s in shapes])
    return Prepared(Problem("", "module", graph), (cls,), H200).parts[0].structures


def product(x, w):
    return nn.functional.gelu(x @ w.T) * 2.0


def convolution(x, w):
    return torch.relu(nn.functional.conv2d(x, w, padding=1))


def softmax(x):
    return torch.softmax(x * 0.5, dim=1)


@pytest.mark.parametrize(
    ("cls", "function", "here", "there"),
    [
        ("f16", product, [(2048, 1024), (4096, 1024)], [(512, 256), (768, 256)]),
        ("tf32", product, [(2048, 1024), (4096, 1024)], [(512, 256), (768, 256)]),
        ("f16", convolution, [(8, 64, 56, 56), (128, 64, 3, 3)], [(4, 64, 28, 28), (128, 64, 3, 3)]),
        ("tf32", softmax, [(4096, 4096)], [(16, 1024)]),
    ],
)
def test_every_structure_keeps_its_stages_and_configurations(cls, function, here, there):
    ours, theirs = of_functions(cls, function, *here), of_functions(cls, function, *there)
    reached = 0
    for structure in ours:
        program = resolve(structure.first, H200.sms)  # every clause is set
        other = carried(to_text(program), theirs)
        if other is None:
            continue  # a structure of this size that the other size does not have among its best
        checked = check(other).program
        if checked is None:
            continue  # a configuration that is not legal at the other size, which its trial would say
        reached += 1
        for a, b in zip(program.stages, checked.stages, strict=True):
            assert type(a) is type(b)
            if isinstance(a, Collective):
                assert a.config == b.config and a.config.tile
        assert [p.type for p in checked.params] != [p.type for p in program.params]
        assert generate(checked, H200.sms)
    assert reached


def test_a_program_of_other_stages_is_not_carried():
    assert carried(to_text(of_functions("f16", product, (64, 64), (64, 64))[0].first),
                   of_functions("f16", convolution, (2, 32, 28, 28), (64, 32, 3, 3))) is None  # fmt: skip


def test_a_text_that_is_no_program_is_not_carried():
    assert carried("hello", of_functions("f16", product, (64, 64), (64, 64))) is None
