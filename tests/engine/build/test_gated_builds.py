"""The machine code of products behind a gate: the plain kernel's, after a gate that every thread meets first."""

import re
import struct
from dataclasses import replace

import pytest

from dsl.check.program import check
from dsl.lower.cute import lower
from dsl.lower.plan.rescue import chosen
from dsl.resolve import resolve
from engine.build import cubin
from engine.build.cache import Cache
from engine.build.cute import CuteBuilder
from tests.dsl.lower.cute.gated import texts

pytestmark = pytest.mark.toolchain
SAME = ("registers", "shared_bytes", "spill_bytes", "stages", "threads")
MORE = 16  # instructions of a gate, with the padding of the code's end

# Of the low 12 bits of an instruction on sm_90; the next four are its predicate.
EXIT, LOAD, BRANCH, WAIT = 0x94D, 0x981, 0x947, 0x82E
MEETING = {0x5B2, 0xB1D, 0x9C7, 0x3C7}  # SYNCS (a barrier in shared memory), BAR, UCGABAR of arrival and waiting
ALWAYS = 7


@pytest.fixture(scope="module")
def builder(tmp_path_factory):
    cute_builder = CuteBuilder(Cache(tmp_path_factory.mktemp("cache")))
    cute_builder.warm()
    yield cute_builder
    cute_builder.close()


def program(name: str):
    return resolve(check(texts()[name]).program)


def resources(builder, p) -> dict[str, dict]:
    return {r["stage"]: r for r in builder.build(lower(p)).resources}


@pytest.mark.parametrize("name", ["clusters of two rows", "clusters of two columns, pingpong", "conv stride"])
def test_a_gate_costs_no_register_no_stage_and_no_byte(builder, name):
    p = program(name)
    guarded = resources(builder, p)
    half, wide = resources(builder, replace(p, guard=False)), resources(builder, resolve(chosen(p)))
    for gated, plain in ((guarded["y"], half["y"]), (guarded["y_f32"], wide["y"])):
        assert {k: gated.get(k) for k in SAME} == {k: plain.get(k) for k in SAME}
        assert 0 <= gated["instructions"] - plain["instructions"] <= MORE


def test_all_threads_wait_read_the_flag_and_leave_before_anything_else(builder):
    for name in ("clusters of two rows", "conv stride"):
        resources(builder, program(name))
    first = [gate for path in builder.cache.folder("quack").rglob("*.o") for gate in gates(path.read_bytes())]
    assert len(first) >= 4  # each of the two in f16 and in tf32
    for before, predicate in first:
        assert predicate != ALWAYS
        assert before.index(WAIT) < before.index(LOAD) and BRANCH not in before and not MEETING & set(before)


def gates(data: bytes):
    """The instructions before the first exit of each tensor-core kernel with a gate, and the predicate of that exit."""
    for code in cubin.code(data).values():
        words = [struct.unpack_from("<H", code, at)[0] for at in range(0, len(code), cubin.INSTRUCTION)]
        opcodes = [w & 0xFFF for w in words]
        end = opcodes.index(EXIT)
        if MEETING & set(opcodes) and WAIT in opcodes[:end]:
            yield opcodes[:end], words[end] >> 12 & 7


def test_a_kernel_without_a_guard_has_no_gate(builder):
    fresh = set(builder.cache.folder("quack").rglob("*.o"))
    text = texts()["ragged"].replace("tile 256x128x64", "tile 128x128x64")
    text = re.sub(r"  guard f32\n", "", text)
    builder.build(lower(resolve(check(text).program)))
    built = set(builder.cache.folder("quack").rglob("*.o")) - fresh
    assert built and not [g for path in built for g in gates(path.read_bytes())]
