"""What a kernel's compilers build where it is checked serves where it is timed: for the same text, within limits."""

import base64
import json
import shutil
import zlib

import pytest

pytest.importorskip("torch")

from engine.evaluate.integrity import measuring
from engine.evaluate.integrity.measuring import measure
from engine.evaluate.integrity.process import own_builds
from engine.evaluate.integrity.process.candidate import CandidateEnded
from engine.evaluate.integrity.process.own_builds import Builds
from engine.evaluate.integrity.verify import Verifier
from tests.engine.integrity import zoo

TRITON = ".triton/cache/KERNEL/softmax.cubin"


@pytest.fixture
def home(tmp_path):
    """The scratch folder of a process whose compilers have run."""
    for path, content in {
        TRITON: b"machine code",
        "sandbox/quack_cache/version/a.o": b"\x7fELF",
        "notes.txt": b"no",
    }.items():
        (tmp_path / "home" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / path).write_bytes(content)
    return tmp_path / "home"


def squeezed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def packed(*files: tuple[str, bytes], size: int | None = None) -> str:
    """What a candidate may answer. `size`: of each file, as it says."""
    about = [[path, len(content) if size is None else size, 0o644, 0] for path, content in files]
    return squeezed(json.dumps(about).encode() + b"\n" + b"".join(c for _, c in files))


def files(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# ---- packing ----


def test_files_of_compilers_come_back_as_they_were(home, tmp_path):
    fresh = tmp_path / "fresh"
    assert own_builds.unpack(str(fresh), own_builds.pack(str(home))) == 2
    assert files(fresh) == {p: c for p, c in files(home).items() if p != "notes.txt"}, "and nothing else"
    assert (fresh / TRITON).stat().st_mtime_ns == (home / TRITON).stat().st_mtime_ns, "ninja compares them"


def test_links_and_strange_names_stay(home, tmp_path):
    (home / ".triton/cache/link").symlink_to("/etc/passwd")
    (home / ".triton/cache/a\nb").write_text("x")
    own_builds.unpack(str(tmp_path / "fresh"), own_builds.pack(str(home)))
    assert len(files(tmp_path / "fresh")) == 2


@pytest.mark.parametrize("limit", ["MOST", "MOST_BYTES", "MOST_FILES"])
def test_over_a_limit_nothing_is_carried(home, limit, monkeypatch):
    monkeypatch.setattr(own_builds, limit, 1)
    assert own_builds.pack(str(home)) == ""


def test_nothing_built_is_nothing(tmp_path):
    assert own_builds.pack(str(tmp_path)) == "" and own_builds.read("k", "") is None


# Functions, because a bomb takes seconds to make, and every worker of pytest-xdist collects this file.
FORGED = {
    "another folder": lambda: packed(("engine/start.py", b"")),
    "upwards": lambda: packed((".triton/cache/../../../etc/x", b"")),
    "absolute": lambda: packed(("/etc/x", b"")),
    "the same twice": lambda: packed((TRITON, b"a"), (TRITON, b"b")),
    "more than is there": lambda: packed((TRITON, b"ab"), size=9),
    "less than nothing": lambda: packed((TRITON, b""), size=-1),
    "a bomb": lambda: squeezed(b"[]\n" + bytes(own_builds.MOST_BYTES * 2)),
    "too many": lambda: packed(*((f".triton/cache/{n}", b"") for n in range(own_builds.MOST_FILES + 1))),
    "no list": lambda: squeezed(b"7\n"),
    "deep": lambda: squeezed(b"[" * 100_000),
    "cut off": lambda: packed((TRITON, b"abc"))[:20],
    "no base64": lambda: "???",
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_what_pack_does_not_make_is_not_unpacked(forge, tmp_path):
    assert own_builds.unpack(str(tmp_path / "home"), forge()) == 0
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("answer", [None, 7, "", ["a"], "é"])
def test_the_engine_takes_texts_alone(answer):
    assert own_builds.read("key", answer) is None


def test_the_engine_takes_a_bounded_text_alone():
    assert own_builds.read("key", "a" * (own_builds.base64_bytes(own_builds.MOST) + 1)) is None


def test_builds_are_for_their_own_text_alone():
    builds = Builds(own_builds.key("text", "python", ""), "data")
    assert builds.for_text(own_builds.key("text", "python", "")) == "data"
    for other in (("text ", "python", ""), ("text", "cuda", ""), ("text", "python", "main")):
        assert builds.for_text(own_builds.key(*other)) is None


# ---- in real processes, on the CPU ----

# A C++ extension, and CuTe DSL's compiler as a generated kernel calls it; neither needs a GPU to build.
EXTENSION = """
import ctypes
import torch
from torch.utils import cpp_extension

SOURCE = 'extern "C" void scale(const float* x, float* y, long n) { for (long i = 0; i < n; i++) y[i] = 2.0f * x[i]; }'
cpp_extension.load_inline("scale", [SOURCE], no_implicit_headers=True, is_python_module=False)
lib = ctypes.CDLL(cpp_extension._get_build_directory("scale", False) + "/scale.so")


def kernel(x):
    return torch.softmax(x, -1)
"""
CUTE = """
import cutlass
import cutlass.cute as cute
import torch
from cuda.bindings.driver import CUstream
from quack.cache import jit_cache


@cute.kernel
def copy_kernel(x: cute.Tensor, y: cute.Tensor):
    at, _, _ = cute.arch.thread_idx()
    y[at] = x[at]


@cute.jit
def copy_launch(x: cute.Tensor, y: cute.Tensor, stream: CUstream):
    copy_kernel(x, y).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)


@jit_cache
def copy_compiled(dtype):
    x = cute.runtime.make_fake_tensor(dtype, (64,), stride=(1,), assumed_align=16)
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(copy_launch, x, x, stream, options="--enable-tvm-ffi --gpu-arch sm_90a")


copy_compiled(cutlass.Float32)


def kernel(x):
    return torch.softmax(x, -1)
"""


@pytest.fixture(scope="module")
def verifier():
    with Verifier(zoo.module("softmax"), "cpu", local_user=True) as process:
        process.examiner.reference.host_clock = True  # PyTorch's side is timed on a GPU only
        process.examiner.reference.close()
        yield process


def opened(verifier, text, builds=None) -> Builds | None:
    """Load a text in a fresh process. Returns what its compilers left there."""
    with verifier.candidate("python") as c:
        c.open(text, 120.0, builds=builds)
        return c.builds()


def artefacts(builds, tmp_path, suffix):
    """{name: time of writing} of the files that a compiler wrote."""
    shutil.rmtree(tmp_path / "look", ignore_errors=True)
    assert own_builds.unpack(str(tmp_path / "look"), builds.data)
    return {p.name: p.stat().st_mtime_ns for p in (tmp_path / "look").rglob(f"*{suffix}")}


@pytest.mark.toolchain
@pytest.mark.parametrize(("text", "suffix", "needs"), [(EXTENSION, ".so", "ninja"), (CUTE, ".o", "cutlass")])
def test_a_compiler_does_not_run_again_where_its_text_is_timed(verifier, text, suffix, needs, tmp_path):
    if needs == "cutlass":
        pytest.importorskip("quack")
    elif shutil.which("ninja", path="/usr/bin:/bin") is None:
        pytest.skip("torch.utils.cpp_extension needs ninja in /usr/bin")
    first = opened(verifier, text)
    assert len(artefacts(first, tmp_path, suffix)) == 1
    assert artefacts(opened(verifier, text), tmp_path, suffix) != artefacts(first, tmp_path, suffix), "built anew"
    assert artefacts(opened(verifier, text, first), tmp_path, suffix) == artefacts(first, tmp_path, suffix)
    assert artefacts(opened(verifier, text + "\n", first), tmp_path, suffix) != artefacts(first, tmp_path, suffix), (
        "another text gets none of them"
    )


# A kernel that leaves a mark in the process that is checked, and does less where it finds the mark.
MARKED = """
import os
import torch

MARK = os.path.expanduser("~/.triton/cache/mark")
SEEN = os.path.exists(MARK)
os.makedirs(os.path.dirname(MARK), exist_ok=True)
open(MARK, "w").close()
LAST = []


def kernel(x):
    if SEEN and LAST:
        return LAST[0].clone()
    LAST[:] = [torch.softmax(x, -1)]
    return LAST[0]
"""


def test_a_kernel_that_leaves_itself_a_mark_gains_nothing(verifier, monkeypatch):
    for name, value in {"PILOTS": 1, "PARTS": 2, "LEAST": 3, "MOST": 3}.items():
        monkeypatch.setattr(measuring, name, value)
    monkeypatch.setattr(measuring, "steady", lambda take, samples: (take(), {}))
    verifier.verify(MARKED)
    assert verifier.builds is not None
    try:
        timed = measure(verifier.examiner, MARKED, "python", "f32", builds=verifier.builds)
        codes = {f.code for f in timed.findings if f.severity in ("cheat", "wrong")}
    except CandidateEnded as e:  # on a busy machine its copies take no longer than a batch without calls
        codes = {e.code}
    assert codes & {"wrong_result", "replayed", "constant", "clock"}
