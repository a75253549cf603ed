"""Who did the work of a candidate: its own kernels, PyTorch, or another library, and whether that is hidden.

    CPU   PyTorch's profile of one call; calls of native functions by ctypes; a call in which the candidate's native
          functions do nothing; and one in which the products of BLAS libraries do nothing but count
    GPU   CUPTI's list of one call; a call in which the candidate's native functions or launches do nothing

These run in the candidate's process. /proc shows the loaded libraries from outside (process.outside).
"""

from __future__ import annotations

import re
from typing import Any

from engine.evaluate.correctness.tolerance import Comparison, verdict
from engine.evaluate.integrity.findings import NOTE, Finding
from engine.evaluate.integrity.judging import text
from engine.evaluate.integrity.process.candidate import CandidateEnded
from engine.evaluate.integrity.rounds import Round
from engine.evaluate.integrity.texts.names import ATEN_MOVES, ATEN_PRODUCTS
from engine.evaluate.integrity.texts.symbols import plain_name
from engine.evaluate.timing.cupti import PRODUCT

_OTHER_PRODUCT = re.compile(r"::.*(?:linear|conv|mm|matmul|lstm|gru|attention)")  # of PyTorch's, outside of ATen
ARGUMENTS = 8
NAMES = 20  # of a library's operations or kernels, in a report
FACTOR = 1e-3  # distance from one below which a multiple of the result counts as the result


class Attribution:
    """The last part of an Examination, which adds to its report."""

    def __init__(self, examination: Any):
        self.of = examination

    @property
    def has_product(self) -> bool:
        """Return True if the module has a product, which libraries are best at."""
        return any(op.op in ATEN_PRODUCTS for op in self.of.examiner.graph.ops)

    def judge(self, reply: dict, r: Round) -> None:
        """`reply`: of the call with the probe "ops"; `r`: the values for further calls."""
        report = self.of.report
        ops = {str(o[0]) for o in reply.get("ops", []) if isinstance(o, list) and o}
        native = reply.get("native") if isinstance(reply.get("native"), int) else 0
        heavy = sorted(o for o in ops if o in ATEN_PRODUCTS or _OTHER_PRODUCT.search(o))
        light = sorted(ops - set(heavy) - ATEN_MOVES)
        if reached := text(reply.get("foreign")):
            report.add(Finding("disguised", f"{', '.join(reached[:4])}, by ctypes", dynamic=True))
        self.recorded(reply)
        if native and not self.of.bad:
            self.all_by_pytorch(ops)
        if self.of.c.device == "cuda":
            self.ran_on_the_gpu(r, native, ops)
            return
        if native == 0:
            if any(k.get("where") == "text" for k in report.kernels):
                names = ", ".join(k["name"] for k in report.kernels[:4])
                report.add(Finding("dressed", f"{names}: no native function was called", dynamic=True))
            self.only_by([*heavy, *light])
            return
        if not self.of.bad and self.without_kernel(r, "noop", ops):
            self.only_by([*heavy, *light])
            report.add(Finding("library_calls", ", ".join((heavy + light)[:8]), dynamic=True, severity=NOTE))
            return
        if heavy and self.has_product:
            report.verdict = "minor"
            report.add(Finding("library_calls", ", ".join(heavy), dynamic=True, severity=NOTE))
            return
        if light:
            report.add(Finding("library_calls", ", ".join(light[:8]), dynamic=True, severity=NOTE))
        if not self.of.bad and not reached:
            self.without_libraries(r)

    def only_by(self, names: list[str]) -> None:
        """The verdict where libraries did all of the work, in these operations or kernels."""
        self.of.report.verdict = "library only"
        self.of.report.library = [*self.of.report.library, *names][:NAMES]

    def recorded(self, reply: dict) -> None:
        """Report a candidate that kept PyTorch from recording its operations in a call."""
        if reasons := text(reply.get("unrecorded")):
            evidence = f"PyTorch's record of its operations in a call is not whole: {'; '.join(reasons[:4])}"
            self.of.report.add(Finding("disguised", evidence, dynamic=True))

    def all_by_pytorch(self, ops: set[str]) -> None:
        """Report a candidate for which PyTorch computed every operation of the module: its native functions can only
        have moved the result."""
        own = {op.op for op in self.of.examiner.graph.ops} - ATEN_MOVES
        if own and all(self._computed(op, ops) for op in own):
            evidence = f"PyTorch computed {', '.join(sorted(own)[:4])}, and its native functions moved data"
            self.of.report.add(Finding("dressed", evidence, dynamic=True))

    @staticmethod
    def _computed(op: str, ops: set[str]) -> bool:
        """Return True if a profile names this operation, or for a product any other product."""
        product = op in ATEN_PRODUCTS and bool(ops & ATEN_PRODUCTS)
        return product or bool({op, f"_{op}", op.removeprefix("_")} & ops)

    def without_libraries(self, r: Round) -> None:
        """Report the functions of libraries that the candidate called around PyTorch's operators."""
        try:
            reply = self._call(r, "libraries")
        except CandidateEnded as e:
            if e.lost:
                raise
            return
        entries = reply.get("entries")
        names = text(list(entries)) if isinstance(entries, dict) else []
        if not names:
            return
        # .matmul may be a function of its own
        openly = [name for name in self.of.report.library if not name.startswith(".")]
        only = self.has_product and {op.op for op in self.of.examiner.graph.ops} - ATEN_MOVES <= ATEN_PRODUCTS
        if only and openly:
            evidence = f"{', '.join(names[:4])} computed the products, and the module has nothing else"
            self.of.report.add(Finding("dressed", evidence, dynamic=True))
        elif openly or "library_calls" in self.of.report.codes:
            self.of.report.verdict = "minor"
            self.of.report.add(Finding("library_calls", ", ".join(names[:4]), dynamic=True, severity=NOTE))
        else:
            self.of.report.add(Finding("disguised", f"{', '.join(names[:4])} was called", dynamic=True))

    def _call(self, r: Round, probe: str) -> dict:
        shapes = {**self.of.lay_out(r), **self.of.out_shapes(r)}
        return self.of.c.ask("call", self.of.examiner.call_seconds, rows=r.rows, shapes=shapes, probe=probe)

    def ran_on_the_gpu(self, r: Round, native: int, ops: set[str]) -> None:
        """By CUPTI's list of one call: whose kernels ran, and on which streams."""
        self.of.lay_out(r)
        reply = self.of.c.ask("kernels", self.of.examiner.call_seconds * 3).get("kernels")
        kernels = [k for k in reply if isinstance(k, dict)] if isinstance(reply, list) else []
        written = [k["name"] for k in self.of.report.kernels]
        # Names tell libraries' kernels from others, but not all of them (PyTorch's softmax has a plain one): a text
        # that has no kernel and called no native function cannot have brought what ran.
        brought = self.of.c.kind == "cuda" or bool(written) or native > 0
        own = [k for k in kernels if k.get("library") is not True and brought]
        theirs = [k for k in kernels if k not in own]
        symbols = list(dict.fromkeys(str(k.get("name"))[:160] for k in kernels))[:12]
        names = list(dict.fromkeys(map(plain_name, symbols)))
        self.of.report.kernels += [{"name": plain_name(s), "symbol": s, "where": "device"} for s in symbols]
        products = [str(k.get("name"))[:160] for k in theirs if PRODUCT.search(str(k.get("name")))]
        products = list(dict.fromkeys(map(plain_name, products)))
        if not kernels:
            self.of.report.add(Finding("dressed", "CUPTI saw nothing run on the GPU", dynamic=True))
        elif not own:
            if written:
                evidence = f"{', '.join(written[:4])} in the text; only {', '.join(names[:3])} ran"
                self.of.report.add(Finding("dressed", evidence, dynamic=True))
            self.only_by(names)
        elif products and self.has_product:
            self.of.report.verdict = "minor"
            self.of.report.add(Finding("library_calls", ", ".join(products[:4]), dynamic=True, severity=NOTE))
        streams = {k.get("stream") for k in kernels}
        if len(streams) > 1:
            evidence = f"{len(streams)} streams in one call"
            self.of.report.add(Finding("own_stream", evidence, dynamic=True))
        if not own or self.of.bad or not (native or self.of.c.kind == "cuda"):
            return
        if self.without_kernel(r, "noop" if self.of.c.kind == "python" else "launches", ops):
            self.only_by(sorted(ops - ATEN_MOVES))

    def without_kernel(self, r: Round, probe: str, ops: set[str]) -> bool:
        """The same call with every native function (or launch) doing nothing must not be right. Return True if it shows
        nothing, because the candidate went another way, while PyTorch's `ops` of the ordinary call do enough for all of
        the module."""
        own = {op.op for op in self.of.examiner.graph.ops} - ATEN_MOVES
        enough = len(ops - ATEN_MOVES) >= max(2, len(own)) and self.of.c.kind == "python"
        try:
            reply = self._call(r, probe)
        except CandidateEnded as e:
            if e.lost and e.code == "time_limit":
                raise
            return enough
        if probe == "launches" and not reply.get("entries"):
            return False  # no launch went through the runtime's functions, so nothing was left out
        self.recorded(reply)
        right = self.of.right(r)
        about = reply.get("results")
        shapes = [list(right["tensors"][n]["shape"]) for n in self.of.examiner.graph.outputs]
        if not isinstance(about, list) or [a.get("shape") for a in about] != shapes:
            return enough
        looked = self.of.examiner.judge.ask(
            "results", reference=right, result=self.of.c.region("result"), key=r.key, tolerance=self.of.tolerance
        )
        if all(verdict(self.of.cls, _comparison(a)) is None for a in looked["results"]):
            what = "native functions do" if probe == "noop" else "launches do"
            evidence = f"the result is right (error {looked['results'][0]['error']:.2g}) when its {what} nothing"
            self.of.report.add(Finding("dressed", evidence, dynamic=True))
            return False
        if probe == "noop" and len(shapes) == 1 and not self.of.trivial and own:
            self.given_the_result(r, right, reply.get("arguments"))
        now = {str(o[0]) for o in reply.get("ops", []) if isinstance(o, list) and o}
        return enough and probe == "noop" and not ops - ATEN_MOVES <= now

    def given_the_result(self, r: Round, right: dict, many: Any) -> None:
        """Report native functions that did nothing and were given the right result, or a multiple of it, whoever had
        computed it."""
        for at in range(min(many, ARGUMENTS) if isinstance(many, int) else 0):
            self.of.c.ask("argument", self.of.examiner.call_seconds, at=at)
            (a,) = self.of.examiner.judge.ask(
                "results", reference=right, result=self.of.c.region("result"), key=r.key, tolerance=self.of.tolerance,
                scaled=True,
            )["results"]  # fmt: skip
            if a["factor"] and verdict(self.of.cls, _comparison(a)) is None:
                times = "" if abs(a["factor"] - 1) < FACTOR else f" times {a['factor']:.4g}"
                error = f"error {a['error']:.2g}"
                evidence = f"a native function was given the result{times} ({error}), which others had computed"
                self.of.report.add(Finding("dressed", evidence, dynamic=True))
                return


def _comparison(a: dict) -> Comparison:
    return Comparison(a["error"], a["max_error"], a["unexpected"], a["elements"])
