"""The rehearsal's templates: programs of the planner with parameters, and row kernels that compute what their module
says, run on the CPU (tests/dsl/lower/cpp/own/cpu)."""

import ctypes
import json
import random
import re
import shutil
import subprocess
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from dsl.check.program import check  # noqa: E402
from dsl.compile import compile as generate  # noqa: E402
from engine.evaluate.integrity.process import compiler, nvcc_unit  # noqa: E402
from engine.llm.rehearse import templates  # noqa: E402
from engine.llm.rehearse.player import Player, Work  # noqa: E402
from engine.llm.rehearse.pool import pool, prepared  # noqa: E402
from engine.llm.rehearse.row_graph import NotRows, rows_of  # noqa: E402
from engine.llm.rehearse.row_kernels import template_of  # noqa: E402
from engine.session.kernel_text import complaint  # noqa: E402
from engine.strategies.two_stage.forms import KernelTemplate, ProgramTemplate  # noqa: E402
from engine.strategies.two_stage.space import Space  # noqa: E402
from engine.suite.shape_groups import GROUPS  # noqa: E402
from sol.hardware import load  # noqa: E402
from tests.dsl.lower.cpp.own.emulated import HEADERS  # noqa: E402
from tests.engine.counting import PROGRAM  # noqa: E402

H200 = load("h200")
SMALL = {"merge_attention_states": (6, 4, 16), "cross_entropy": (7, 50)}  # 50: no whole vectors of 4 and 8
SOFTMAX = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x * 2.0, -1)
def get_inputs():
    return [torch.randn(5, 48)]
"""
LAUNCH = "rows_kernel<T, V, THREADS, WHOLE, PASS, FULL><<<grid, THREADS * ROWS, 0, stream>>>(a);"
RUNTIME = """
template <typename T, int V, int N, bool W, bool P, bool F>
void emulated(dim3 grid, int threads, cudaStream_t stream, const Arguments& a) {
  void* arguments[] = {const_cast<Arguments*>(&a)};
  cudaLaunchConfig_t c = {};
  c.gridDim = grid; c.blockDim = dim3(threads); c.stream = stream;
  auto* entry = &uc_cpu::Entry<&rows_kernel<T, V, N, W, P, F>>::call;
  cudaLaunchKernelExC(&c, reinterpret_cast<void const*>(entry), arguments);
}
"""
START = "\ntemplate <typename T, int V, int THREADS, bool WHOLE, bool PASS, bool FULL = false>\nvoid start("


def module(name, width=0):
    """`width`: of its rows; 0: one that no threads share evenly."""
    if name == "softmax":
        return SOFTMAX.replace("48", str(width or 48))
    *rows, wide = SMALL.get(name, (6, 48))
    return GROUPS[name].module((*rows, width or wide), "f16")


def space_of(source, cls="f16"):
    rows = rows_of(prepared(source, "module", (cls,), H200.title).graph)
    template = template_of(rows, "a test")
    return Space(KernelTemplate(language="cuda", cls=cls, change="", **template), H200)


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("shape", ctypes.c_int64 * 8),
        ("rank", ctypes.c_int),
        ("dtype", ctypes.c_int),
    )


def tensors(values):
    kinds = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2, torch.int64: 5}
    rows = [Tensor(t.data_ptr(), (ctypes.c_int64 * 8)(*t.shape), t.dim(), kinds[t.dtype]) for t in values]
    return (Tensor * len(rows))(*rows)


def emulated(text, name):
    """A kernel for the CPU in a name space of its own; its entry is run_NAME."""
    text = re.sub("(?m)^#include.*$", "", text).replace(START, RUNTIME + START).replace("int run(", f"int run_{name}(")
    assert LAUNCH in text
    text = text.replace(LAUNCH, "emulated<T, V, THREADS, WHOLE, PASS, FULL>(grid, THREADS * ROWS, stream, a);")
    return f"namespace space_{name} {{\n{text}\n}}"


NAMES = (*GROUPS, "softmax")
FULL = 64  # elements of a row of which each thread has as many as it may


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """All row kernels, each in its default and in two random configurations, the second past the caches, and those that
    reduce in one that was chosen for narrower rows and in one whose threads fill a row of FULL, by one g++."""
    if not shutil.which("g++"):
        pytest.skip("needs g++")
    head = ["#include <cuda_runtime.h>", "#include <cuda_bf16.h>", "#include <cuda_fp16.h>",
            "enum { cudaErrorInvalidValue = 1 };", nvcc_unit.PRELUDE.replace("#pragma once", "")]  # fmt: skip
    parts = []
    for name in NAMES:
        space = space_of(module(name), "f32" if name == "softmax" else "f16")
        threads, stream = space.names.index("row_threads"), space.names.index("stream")
        small = [c for c in space.allowed if c[threads] != space.default[threads] and c[threads] <= 128]
        drawn = [random.Random(name).choice([c for c in small if c[stream] == past]) for past in (0, 1)]
        configs = [space.default, *drawn]
        if "hold" in space.names:  # made for rows of half the width: twice the threads hold this one
            narrow = {"row_threads": 8, "vector": 2, "unroll": 2, "block_rows": 2, "hold": 1}
            for own in (narrow, narrow | {"unroll": FULL // 16}):
                configs.append(tuple(own.get(n, d) for n, d in zip(space.names, space.default, strict=True)))
        for number, config in enumerate(configs):
            parts.append(emulated(space.text(config), f"{name}_{number}"))
    folder = tmp_path_factory.mktemp("rows")
    (folder / "rows.cpp").write_text("\n".join([*head, *parts]))
    flags = ["-std=c++17", "-O0", "-fno-strict-aliasing", "-fPIC", "-shared", "-w", f"-I{HEADERS}"]
    subprocess.run(["g++", *flags, str(folder / "rows.cpp"), "-o", str(folder / "rows.so")], check=True)
    return ctypes.CDLL(str(folder / "rows.so"))


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("name", NAMES)
def test_a_row_kernel_computes_what_its_module_says_in_any_configuration(name, number, library):
    names = {}
    exec(compile(module(name, FULL if number == 4 else 0), "module", "exec"), names)
    torch.manual_seed(0)
    inputs = names["get_inputs"]()
    if name == "cross_entropy":
        inputs[1][0] = -100  # has no loss
    meant = names["Model"]()(*inputs)
    meant = list(meant) if isinstance(meant, tuple) else [meant]
    outputs = [torch.full_like(t, float("nan")) for t in meant]
    if not hasattr(library, f"run_{name}_{number}"):
        pytest.skip("it reduces nothing, so no configuration holds a row")
    run = library[f"run_{name}_{number}"]
    assert run(tensors(inputs), len(inputs), tensors(outputs), len(outputs), None) == 0
    for own, theirs in zip(outputs, meant, strict=True):
        torch.testing.assert_close(own.double(), theirs.double(), rtol=4e-3, atol=2e-3)


@pytest.mark.toolchain
def test_a_row_kernel_compiles_without_a_spill_and_within_the_registers_that_it_states(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = space_of(GROUPS["add_rms_norm"].module())
    config = space.config({"unroll": 2})
    log = nvcc_unit.nvcc_library(space.text(config), "k.so", compiler.find(), "sm_90a")
    kernels = nvcc_unit.resources(log)
    assert {k["spill_bytes"] for k in kernels} == {0}
    stated = space.needs["registers"].value({**space.hardware, **space.named(config)})
    assert max(k["registers"] for k in kernels) <= stated


@pytest.mark.parametrize("name", GROUPS)
def test_the_default_keeps_every_limit_at_each_shape_of_a_group(name):
    group = GROUPS[name]
    for shape in (None, *group.tuned, *group.unseen):
        space_of(group.module(shape))  # raises BadTemplate


@pytest.mark.parametrize("name", ["silu_and_mul", "merge_attention_states"])
def test_the_same_text_serves_every_shape_of_a_group(name):
    group, texts = GROUPS[name], set()
    for shape in (group.tuned[0], group.unseen[0]):
        space = space_of(group.module(shape))
        texts.add(space.template.text)
        assert complaint(space.text(space.default), "cuda") is None and len(space.allowed) > 50
    assert len(texts) == 1


@pytest.mark.parametrize("source", ["torch.cumsum(x, -1)", "x.sum(0)", "x.T @ x", "x[:, :3]"])
def test_other_work_is_refused_by_name(source):
    text = SOFTMAX.replace("torch.softmax(x * 2.0, -1)", source)
    with pytest.raises(NotRows):
        rows_of(prepared(text, "module", ("f32",), H200.title).graph)


def test_a_programs_template_has_instances_that_pass_their_checks():
    (drawn, *_) = pool(PROGRAM, "program", ("f16",), H200.title)
    template = ProgramTemplate.model_validate(templates.program_template(drawn, H200.title))
    space, rng = Space(template, H200), random.Random(0)
    assert check(space.text(space.default)).ok and len(space.allowed) > 500
    sources = [generate(c.program, H200.sms).sources for c in map(check, map(space.text, rng.sample(space.allowed, 30)))
             if c.ok]  # fmt: skip
    assert sum(map(bool, sources)) > 20  # the limits keep out most of what the language refuses


def test_a_cute_products_stages_are_left_to_the_compiler_and_a_cpp_products_are_a_parameter():
    (drawn, *_) = pool(PROGRAM, "program", ("f16",), H200.title)
    names = {}
    for backend in ("cute", "cpp"):
        text = drawn.text.replace("    epilogue", f"    backend {backend}\n    epilogue", 1)
        assert check(text).ok and text != drawn.text
        template = templates.program_template(replace(drawn, text=text), H200.title)
        names[backend] = {parameter["name"] for parameter in template["parameters"]}
    assert "stages" not in names["cute"] and "stages" in names["cpp"] and "tile_m" in names["cute"]
    space = Space(ProgramTemplate.model_validate(templates.program_template(drawn, H200.title)), H200)
    compiled = [generate(check(space.text(c)).program, H200.sms) for c in space.allowed[:40] if check(space.text(c)).ok]
    assert sum("cute" in c.sources for c in compiled) > len(compiled) / 2


def test_of_a_product_that_casts_its_weight_nearly_every_instance_passes():
    (drawn, *_) = pool(PROGRAM, "program", ("f16",), H200.title)
    text = (
        "program p(x: f16[512, 1024], w: f32[1024, 1024]) -> f16[512, 1024] {\n  y = gemm(x, w.T) { tile 64x64x64 }\n"
    )
    template = templates.program_template(replace(drawn, text=text + "  return y\n}"), H200.title)
    space = Space(ProgramTemplate.model_validate(template), H200)
    passes = [check(space.text(c)).ok for c in space.allowed]
    assert len(passes) > 100 and sum(passes) > 0.9 * len(passes)


def test_without_a_product_the_launch_is_the_parameter():
    text = "program p(x: f16[64, 64]) -> f16[64, 64] {\n  y = map(x) { epilogue relu(acc) }\n  return y\n}\n"
    (drawn, *_) = pool(text, "program", ("f16",), H200.title)
    space = Space(ProgramTemplate.model_validate(templates.program_template(drawn, H200.title)), H200)
    assert [check(space.text(c)).program.graph for c in space.allowed] == [False, True]


def prompt(form, source=PROGRAM, kind="program"):
    return (
        f"to be made faster on {H200.title}:\n<<<{kind} 0123456789abcdef\n{source}\n0123456789abcdef end>>>\n"
        f"Precision classes that count: f16.\n- tile_m: 64, 128 (default 64)\n- s: 1 (default 1)\n"
        f"Reply with one JSON object of the form {form} and nothing else:"
    )


@pytest.mark.parametrize("form", ["Findings", "Tuning", "TemplatePlan"])
def test_the_other_roles_reply_in_their_form(form):
    value = json.loads(Player().reply(prompt(form)))
    if form == "Tuning":
        assert value["order"] == ["tile_m", "s"] and value["starts"][0]["settings"][0]["name"] == "tile_m"
    assert value.get("decision", "template") == "template"


@pytest.mark.parametrize("mistake", [*templates.FLAT, *templates.OF_TEMPLATES])
@pytest.mark.parametrize("form", ["ProgramTemplate", "KernelTemplate"])
def test_each_mistake_spoils_a_template(form, mistake):
    source, kind = (PROGRAM, "program") if form == "ProgramTemplate" else (module("silu_and_mul"), "module")
    work = Work(form, kind, source, H200.title, ("f16",), "", None, 4)
    drawn = pool(source, kind, ("f16",), H200.title)
    right, wrong = (templates.reply_of(form, "", drawn, work, m, random.Random(0)) for m in ("", mistake))
    assert (right != wrong) is (mistake not in (("type", "slow") if kind == "module" else ("cheat",)))


def test_a_search_begins_at_the_planners_own_configurations_as_other_roles_propose_them():
    drawn = pool(PROGRAM, "program", ("f16",), H200.title)
    template = templates.program_template(drawn[0], H200.title)
    names = [p["name"] for p in template["parameters"]]
    listed = "\n".join(
        f"- {p['name']}: {', '.join(map(str, p['values']))} (default {p['default']})" for p in template["parameters"]
    )
    work = Work("Tuning", "program", PROGRAM, H200.title, ("f16",), "", None, 4)
    reply = templates.reply_of("Tuning", listed, drawn, work, "", random.Random(0))
    starts = [{s["name"]: str(s["value"]) for s in start["settings"]} for start in reply["starts"]]
    default = {p["name"]: str(p["default"]) for p in template["parameters"]}
    texts = [d.text for d in drawn]
    assert len(starts) == templates.STARTS and starts[0] != starts[1] and default not in starts
    for start in starts:
        assert {"tile_m", "tile_n", "tile_k", "schedule"} <= start.keys() <= set(names), "whole configurations"
        tile = "x".join(start[f"tile_{axis}"] for axis in "mnk")
        assert any(f"tile {tile}" in text and start["schedule"] in text for text in texts), start
    space = Space(ProgramTemplate.model_validate(template), H200)
    assert any(space.config({n: int(v) if v.isdigit() else v for n, v in start.items()}) for start in starts)


def test_a_search_of_a_row_kernel_starts_past_the_caches_and_with_more_threads():
    space = space_of(GROUPS["add_rms_norm"].module((4096, 4096)))
    lines = [
        f"- {p.name}: {', '.join(map(str, p.values))} (default {p.default}): {p.meaning}"
        for p in space.template.parameters
    ]
    work = Work("Tuning", "module", "", H200.title, ("f16",), "", None, 1)
    reply = templates.reply_of("Tuning", "\n".join(lines), [], work, "", random.Random(0))
    starts = [space.config({s["name"]: int(s["value"]) for s in start["settings"]}) for start in reply["starts"]]
    settings = [space.named(c) for c in starts]
    assert [s["stream"] for s in settings] == [1, 0]
    assert settings[1]["row_threads"] == 2 * settings[0]["row_threads"] and settings[1]["hold"] == 1
    assert settings[1]["row_threads"] * settings[1]["unroll"] * settings[1]["vector"] >= 4096
