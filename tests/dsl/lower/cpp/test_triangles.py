"""A product whose epilogue keeps one triangle computes the tiles that touch it, and clears the others."""

import shutil
import subprocess

import pytest

from dsl.lower.cpp import lower

from . import programs

TEXT = """
program p(a: f32[{m}, 512], b: f32[{k}]{r}) -> f32[{m}, {n}] {{
  arch sm_90a
  y = gemm(a, b{t}) {{
    compute tf32  tile {tile}  cluster {cluster}x1  schedule cooperative  scheduler {scheduler}
    epilogue {epilogue}
  }}
  return y
}}
"""


def text(**changed) -> str:
    clauses = {
        "m": 2048, "n": 2048, "t": ".T", "tile": "256x128x32", "cluster": "1x2", "scheduler": "persistent",
        "epilogue": "triu(acc + r[m, n])",
    } | changed  # fmt: skip
    clauses["k"] = f"{clauses['n']}, 512" if clauses["t"] else f"512, {clauses['n']}"
    clauses["r"] = f", r: f32[{clauses['m']}, {clauses['n']}]" if "r[" in clauses["epilogue"] else ""
    return lower(programs.program(TEXT.format(**clauses))).text


def test_the_scheduler_deals_eight_tiles_a_side_of_two_blocks_each():
    assert "using TileScheduler = Triangle<cutlass::gemm::PersistentScheduler, 8, true>" in text()
    assert "Triangle<cutlass::gemm::StreamKScheduler, 8, false>" in text(epilogue="tril(acc)", scheduler="stream_k")


def test_the_transposed_kernel_computes_the_other_triangle_and_clears_the_same():
    source = text(t="")
    assert "Triangle<cutlass::gemm::PersistentScheduler, 8, false>" in source
    assert "TriangleParams clear{static_cast<uint4*>(on.d), 512, 256, 1};" in source


@pytest.mark.parametrize(
    "changed",
    [
        {"epilogue": "relu(triu(acc))"},
        {"epilogue": "triu(acc, 1)"},
        {"cluster": "1x1"},  # 256 x 128: not square
        {"m": 2304, "n": 2304},  # nine tiles a side
        {"n": 4096},
    ],
)
def test_every_tile_is_computed_otherwise(changed):
    assert "Triangle<" not in text(**changed)


STUBS = """
#include <cassert>
#include <cstdint>
#include <cstdio>
#define CUTLASS_HOST_DEVICE
#define CUTLASS_DEVICE
namespace cute {
template <int M, int N> struct Shape2 { };
template <int I, int M, int N> constexpr int size(Shape2<M, N>) { return I == 0 ? M : N; }
}
"""
MAIN = """
struct Base {
  struct Params {}; struct Arguments {};
  struct WorkTileInfo { int M_idx, N_idx; bool is_valid() const { return true; } };
  Base(Params const&) {}
};
template <int Side, bool Upper, int CM, int CN>
void every_tile_once() {
  using S = TriangleScheduler<Base, cute::Shape2<8, 8>, cute::Shape2<CM, CN>, Side, Upper>;
  static bool seen[Side * CM][Side * CN]; int count = 0;
  for (int m = 0; m < Side / 2 * CM; ++m)
    for (int n = 0; n < (Side + 1) * CN; ++n) {
      auto const at = S::placed({m, n});
      assert(Upper ? at.N_idx / CN >= at.M_idx / CM : at.N_idx / CN <= at.M_idx / CM);
      assert(!seen[at.M_idx][at.N_idx]); seen[at.M_idx][at.N_idx] = true; ++count;
      auto const back = S::unplaced(at);
      assert(back.M_idx == m && back.N_idx == n);
    }
  assert(count == Side * (Side + 1) / 2 * CM * CN);
}
int main() {
  every_tile_once<2, true, 1, 1>(); every_tile_once<8, true, 1, 2>();
  every_tile_once<16, false, 2, 1>(); every_tile_once<6, false, 2, 2>();
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_each_tile_of_the_triangle_is_dealt_once_and_found_again(tmp_path):
    source = text()
    scheduler = source[source.index("template <class Base, class Tile, class Cluster, int Side, bool Upper>") :]
    head, tail = (
        scheduler[: scheduler.index("template <class Shape>")],
        scheduler[scheduler.index("CUTLASS_DEVICE static WorkTileInfo placed") :],
    )
    (tmp_path / "t.cpp").write_text(
        STUBS + head + tail[: tail.index("template <class Shape, class... Rest>")] + "};" + MAIN
    )
    built = subprocess.run(["g++", "-std=c++17", "-o", "t", "t.cpp"], cwd=tmp_path, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    ran = subprocess.run(["./t"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
