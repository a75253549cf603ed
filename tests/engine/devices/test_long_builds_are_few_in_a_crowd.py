"""Where several sessions share a machine, each lets nvcc build at most one unit of CUTLASS's templates ahead."""

from types import SimpleNamespace

import pytest

from dsl.lower import Source
from engine.build.limited import BuildError
from engine.devices.cuda import GpuBuilds
from sol.hardware import load


class Pool:
    def __init__(self, crowded):
        self.crowded, self.asked = lambda: crowded, []

    def submit(self, source, priority):
        self.asked.append((source.text.split()[-1], priority))
        raise BuildError("cancelled", "nothing is built here")


def candidate(name, backend, text=""):
    source = Source(backend, "python" if backend == "cute" else "cuda", f"{text}\n// {name}", "", name, ())
    return SimpleNamespace(backend=backend, sources={backend: source})


LONG = '#include "cutlass/cutlass.h"'
UPCOMING = [candidate("a", "cpp", LONG), candidate("b", "cpp", LONG), candidate("c", "cute"), candidate("d", "cpp")]


@pytest.mark.parametrize(("crowded", "built"), [(False, "abcd"), (True, "acd")])
def test_only_the_first_long_one_is_built_ahead_in_a_crowd(crowded, built):
    pool = Pool(crowded)
    GpuBuilds(SimpleNamespace(pool=pool), load("h200"), "NVIDIA H200").prefetch(UPCOMING)
    assert pool.asked == [(name, 10 + "abcd".index(name)) for name in built]
