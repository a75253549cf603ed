"""The language and the entry of a pasted kernel, by its text alone, and how long that may take."""

import time
from pathlib import Path

import pytest

from engine.session.kernel_text import EXAMPLES, bare, complaint, has_entry, language_of
from tests.engine.integrity import zoo

ROOT = Path(__file__).resolve().parents[2]
KERNELS = [a for f in ("cheats", "honest", "cuda_cheats", "cuda_honest") for a in zoo.animals(f)]


@pytest.mark.parametrize("animal", KERNELS, ids=lambda a: f"{a.path.parent.name}-{a.path.name}")
def test_every_kernel_of_the_zoo_is_known_by_its_language_and_has_an_entry(animal):
    assert language_of(animal.text) == animal.kind
    assert has_entry(animal.text, animal.kind) and complaint(animal.text, animal.kind) is None


def test_programs_and_modules_are_no_kernels():
    programs = sorted((ROOT / "dsl/examples").rglob("*.ucutlass"))
    assert len(programs) > 50 and all(language_of(p.read_text()) == "program" for p in programs)
    modules = sorted((ROOT / "engine/problems").glob("*.py"))
    assert {complaint(p.read_text(), "python").code for p in modules} == {"no_entry"}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ('"""A __global__ kernel of CUDA."""\nimport torch\n', "python"),
        ("# about __global__ and <<<launches>>>\nfrom torch import nn\n", "python"),
        ('import torch\nSOURCE = r"""\n#include <cuda.h>\n__global__ void k() {}\n"""\n', "python"),
        ("/*\nimport torch\n*/\n#include <cuda_fp16.h>\n", "cuda"),
        ("// def kernel(x):\n__global__ void k(float* x) {}\n", "cuda"),
        ("template <int N> __device__ float f() { return N; }", "cuda"),
        ("// a comment\nprogram p(x: f32[4]) -> f32[4] { return x }", "program"),
        ("", ""),
        ("make it fast, please", ""),
    ],
)
def test_the_language_of_a_text(text, language):
    assert language_of(text) == language


@pytest.mark.parametrize(
    ("text", "language", "code", "words"),
    [
        (" \n", "python", "empty", "Paste"),
        (EXAMPLES["cuda"], "python", "wrong_language", "Choose CUDA C++."),
        (EXAMPLES["python"], "cuda", "wrong_language", "Choose Python."),
        ("program p(x: f32[4]) -> f32[4] { return x }", "cuda", "wrong_language", "Choose μCUTLASS program."),
        ("import torch\ndef softmax(x): return x", "python", "no_entry", "the text defines softmax"),
        ("import torch\nclass Model(torch.nn.Module): pass", "python", "no_entry", "Rename it to `ModelNew`"),
        ("__global__ void k() {}\nint run() { return 0; }", "cuda", "no_entry", 'not declared extern "C"'),
        ("__global__ void k() {}", "cuda", "no_entry", "the text defines k"),
    ],
)
def test_what_is_wrong_with_a_text_is_said_with_the_way_out(text, language, code, words):
    fault = complaint(text, language)
    assert fault.code == code and words in f"{fault.reason} {fault.fix}"
    if code == "no_entry":
        assert complaint(fault.example, language) is None, "the example that is shown would be taken"


def test_an_entry_of_another_name_is_found():
    assert has_entry("def mine(x):\n    return x", "python", "mine")
    assert has_entry('extern "C" int go(const Tensor* in) { return 0; }', "cuda", "go")
    assert not has_entry("def mine(x):\n    return x", "python")
    assert "`other`" in complaint("def mine(x):\n    return x", "python", "other").reason


@pytest.mark.parametrize("language", ["cuda", "python"])
@pytest.mark.parametrize(
    "text",
    [
        "/*" * 32_000, '"""a' * 16_000, "'" * 64_000, "from import " * 5_000, "from " + "import " * 9_000,
        "class A(" * 8_000, "extern " * 9_000, 'extern "C" ' + "a ( " * 16_000, "f(" + " " * 64_000, "#" * 64_000,
        "__global__ " * 6_000, "run " * 16_000, "kernel" * 10_000, "\\" * 64_000, " " * 64_000,
    ],
)  # fmt: skip
def test_no_text_takes_long(text, language):
    began = time.process_time()
    language_of(text), complaint(text, language)
    assert time.process_time() - began < 2.0


def test_comments_and_texts_of_many_lines_are_blanked_and_lines_stay():
    assert bare('a("b")\n/* c\r\n d */ e // f\n"""g\nh"""i') == 'a("b")\n     \n      e     \n    \n    i'
