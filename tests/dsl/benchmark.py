"""How long the language takes: `python -m tests.dsl.benchmark`. Medians in milliseconds; not a test."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from dsl.check.program import check
from dsl.compile import compile
from dsl.resolve import resolve
from dsl.syntax import MAX_TOKENS, parse

LAYER = "  h{i} = gemm({x}, w.T) {{\n{config}    epilogue gelu_tanh(acc * 2.0 + b[n]) + r[m, n]\n  }}\n"
SAID = "    tile 128x128x64\n    cluster 2x1x1\n    schedule pingpong\n    stages auto\n"
AUTO = "    tile auto\n    cluster auto\n    schedule auto\n    stages auto\n"
HEAD = (
    "program deep(x: bf16[1024, 1024], w: bf16[1024, 1024], b: f32[1024], r: bf16[1024, 1024]) -> bf16[1024, 1024] {\n"
)


def layers(count: int, config: str) -> str:
    body = "".join(LAYER.format(i=i, x="x" if i == 0 else f"h{i - 1}", config=config) for i in range(count))
    return f"{HEAD}  arch sm_90a\n{body}  return h{count - 1}\n}}\n"


def median(work: Callable[[], object], runs: int = 50) -> float:
    work()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main() -> None:
    for name, text in (("written out", layers(5, SAID)), ("all auto", layers(5, AUTO))):
        program = check(text).program
        times = {
            "parse": lambda text=text: parse(text),
            "check": lambda text=text: check(text),
            "resolve": lambda program=program: resolve(program),
            "resolve and generate": lambda program=program: compile(program),
        }
        shown = ", ".join(f"{what} {median(work):.2f}" for what, work in times.items())
        print(f"{text.count(chr(10)) + 1} lines, {name}: {shown} ms")
    longest = layers(40, "")
    wrong = longest.replace("epilogue", "epilog")
    print(f"{len(longest):,} characters ({MAX_TOKENS:,} words at most): {median(lambda: check(longest), 10):.1f} ms,")
    print(f"the same with an unknown clause in each stage: {median(lambda: check(wrong), 10):.1f} ms")
    print(f"64 KiB of brackets: {median(lambda: check('(' * 65_536), 10):.1f} ms")
    print(f"64 KiB of words: {median(lambda: check('ab ' * 21_845), 10):.1f} ms")


if __name__ == "__main__":
    main()
