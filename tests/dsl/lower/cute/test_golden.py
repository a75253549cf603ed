"""What the back end writes, whole. Read the difference, then `UPDATE_GOLDEN=1 pytest` this file to accept it."""

import ast
import os
from pathlib import Path

import pytest

from dsl.lower.cute import lower

from . import programs
from .own_cases import CASES as OWN
from .own_cases import REVIEWED

GOLDEN = Path(__file__).parent / "golden"
CASES = ("linear_gelu_f16", "linear_f32_on_f16", "linear_f32_weight", "shared_weight", "batched", "split_k", "mlp")


def generated(name: str):
    return lower(programs.program(OWN[name]) if name in OWN else programs.example(name))


@pytest.mark.parametrize("name", CASES + REVIEWED)
def test_generated_code_is_as_reviewed(name):
    source = generated(name)
    path = GOLDEN / f"{name}.py.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(source.text)
    assert source.text == path.read_text()


@pytest.mark.parametrize("name", CASES + REVIEWED)
def test_generated_code_imports_nothing_of_ours(name):
    tree = ast.parse(generated(name).text)
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported <= {"os", "torch", "cutlass", "quack", "cuda"}


def test_text_and_binding_are_one_module():
    source = lower(programs.example("mlp"))
    assert source.binding == source.text and (source.backend, source.language) == ("cute", "python")
