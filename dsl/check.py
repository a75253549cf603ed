"""The checker: syntax tree -> typed IR, or every reason why not, in one pass.

Names, types, shapes and the pipeline are judged here (E1xx, E4xx); epilogues in `dsl.epilogue` (E3xx);
configurations in `dsl.configure` (E2xx). A part that failed is left untyped and whatever depends on it stays quiet,
so each mistake is reported once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from . import arch as arches
from .configure import check_gemm_config, check_one_back_end, read_config
from .diagnostics import Diagnostic, ProgramError, closest, listing
from .epilogue import EpilogueChecker
from .ir import Acc, DType, Gemm, Operand, Param, Program, Span, TensorType, Transform, loads
from .shapes import MAX_DIM, aligned, product_shape
from .syntax import parse
from .tree import ArchNode, OperandNode, ProgramNode, ReturnNode, StageNode, TypeNode, Word

OPS = ("gemm", "transform")
LATER_OPS = (
    *("grouped_gemm", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    *("map", "reduce", "normalize", "pool"),
)
RESERVED = ("acc", "auto", "program", "arch", "return")
MAX_ELEMENTS = 2**40
MAX_RANK = 6
GEMM_CLAUSES = (
    *("compute", "tile", "cluster", "schedule", "scheduler", "stages", "swizzle", "backend", "store", "epilogue"),
)
TRANSFORM_CLAUSES = ("to", "prepack")
LATER_CLAUSES = ("layout", "stride", "padding", "dilation", "groups")


@dataclass(frozen=True)
class Checked:
    """`program` is None when there is any diagnostic."""

    program: Program | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def ok(self) -> bool:
        return self.program is not None


def check(text: str) -> Checked:
    """Parse and judge a program. Never raises on any text."""
    try:
        tree = parse(text)
    except ProgramError as error:
        return Checked(None, error.diagnostics)
    checker = _Checker(tree)
    program = checker.run()
    found = tuple(sorted(checker.found, key=lambda d: (d.span.line, d.span.col, d.code)))
    return Checked(None if found else program, found)


class _Checker:
    def __init__(self, tree: ProgramNode):
        self.tree = tree
        self.found: list[Diagnostic] = []
        self.types: dict[str, TensorType | None] = {}
        self.params: list[Param] = []
        self.stages: list[Gemm | Transform] = []
        self.used: set[str] = set()
        self.reads: dict[str, set[str]] = {}
        self.prepacked: set[str] = set()
        self.later: set[str] = set()

    def error(self, code: str, message: str, span: Span, help: str | None = None, notes: tuple[str, ...] = ()) -> None:
        self.found.append(Diagnostic(code, message, span, notes, help))

    # ---- the program ----

    def run(self) -> Program:
        tree = self.tree
        for p in tree.params:
            t = self.type(p.type)
            if self.declare(p.name):
                self.types[p.name.text] = t
                self.params.append(Param(p.name.text, t, p.name.span))
        self.arch = self.read_arch()
        stage_nodes = [i for i in tree.items if isinstance(i, StageNode)]
        self.later = {s.name.text for s in stage_nodes}
        for node in stage_nodes:
            self.stage(node)
        result_types = tuple(self.type(t) for t in tree.results)
        results = self.results(result_types)
        self.unused(stage_nodes, results)
        if not self.found:
            gemms = [s for s in self.stages if isinstance(s, Gemm)]
            check_one_back_end(arches.ARCHS[self.arch[0] or arches.DEFAULT], gemms, self.types, self.error)
        return Program(
            tree.name.text, tuple(self.params), tuple(self.stages), results, result_types,
            self.arch[0], span=tree.name.span, arch_span=self.arch[1],
        )  # fmt: skip

    def declare(self, name: Word) -> bool:
        """A new parameter or stage name; False where it may not be."""
        if name.text in RESERVED:
            self.types[name.text] = None
            self.error("E114", f"`{name.text}` is a word of the language", name.span, f"for example `{name.text}_`")
            return False
        if name.text in self.types:
            self.types[name.text] = None  # which of the two is meant is unknown
            self.error("E102", f"`{name.text}` is already defined", name.span, "each name is written once")
            return False
        return True

    def read_arch(self) -> tuple[str | None, Span]:
        found: list[ArchNode] = []
        for i, item in enumerate(self.tree.items):
            if isinstance(item, ArchNode):
                if found:
                    self.error("E408", "arch is given twice", item.name.span, "leave one out")
                elif i:
                    self.error("E408", "arch stands before the stages", item.name.span, "move it to the first line")
                found.append(item)
        if not found or found[0].name.text == "auto":
            return None, found[0].name.span if found else self.tree.name.span
        name = found[0].name
        known = arches.ARCHS.get(name.text)
        if known is None:
            near = closest(name.text, arches.ARCHS) or arches.DEFAULT
            notes = (f"architectures are {listing(arches.ARCHS)}",)
            self.error("E201", f"`{name.text}` is not an architecture", name.span, f"did you mean `{near}`?", notes)
        elif not known.generates:
            self.error("E201", f"{name.text} is not covered yet; covered is sm_90a", name.span, "arch sm_90a")
        return name.text, name.span

    # ---- types ----

    def dtype(self, word: Word) -> DType | None:
        for t in arches.COVERED:
            if word.text == t.value:
                return t
        covered = listing([t.value for t in arches.COVERED])
        if word.text == "tf32":
            self.error("E106", "tf32 is a precision of the tensor cores, not a type in memory", word.span, "write f32")
        elif word.text in arches.LATER:
            self.error("E106", f"{word.text} is not covered yet; covered are {covered}", word.span)
        else:
            alias = {"float": "f32", "float32": "f32", "half": "f16", "float16": "f16", "bfloat16": "bf16"}
            near = alias.get(word.text) or closest(word.text, [t.value for t in arches.COVERED])
            help = f"did you mean `{near}`?" if near else None
            self.error("E106", f"`{word.text}` is not an element type; types are {covered}", word.span, help)
        return None

    def type(self, node: TypeNode) -> TensorType | None:
        dtype = self.dtype(node.dtype)
        ok = True
        for d in node.shape:
            if not 1 <= d.value <= MAX_DIM:
                self.error("E113", f"a dimension of {d.value:,}; each is from 1 to {MAX_DIM:,}", d.span)
                ok = False
        if len(node.shape) > MAX_RANK:
            self.error("E113", f"{len(node.shape)} dimensions; at most {MAX_RANK}", node.span)
            ok = False
        if not ok or dtype is None:
            return None
        t = TensorType(dtype, tuple(d.value for d in node.shape))
        if t.elements > MAX_ELEMENTS:
            self.error("E113", f"{t.elements:,} elements; at most {MAX_ELEMENTS:,}", node.span)
            return None
        return t

    # ---- stages ----

    def stage(self, node: StageNode) -> None:
        fresh = self.declare(node.name)
        op = node.op
        self.later.discard(node.name.text)
        self.reads[node.name.text] = set()
        result: TensorType | None = None
        if op.text in OPS:
            operands = [self.operand(node.name.text, o) for o in node.operands]
            clauses = self.clauses(node, GEMM_CLAUSES if op.text == "gemm" else TRANSFORM_CLAUSES)
            want = 2 if op.text == "gemm" else 1
            if len(operands) != want:
                example = "gemm(x, w.T)" if want == 2 else "transform(x) { to f16 }"
                message = f"{op.text} takes {want} tensor{'s'[: want > 1]}; {len(operands)} given"
                self.error("E104", message, node.span, f"for example {example}")
            elif op.text == "gemm":
                result = self.gemm(node, operands, clauses)
            else:
                result = self.transform(node, operands[0], clauses)
        else:
            self.unknown_op(op)
            for o in node.operands:
                self.operand(node.name.text, o)
        if fresh:
            self.types[node.name.text] = result

    def unknown_op(self, op: Word) -> None:
        covered = f"covered are {listing(OPS)}"
        if op.text in LATER_OPS:
            self.error("E007", f"{op.text} is not covered yet; {covered}", op.span)
        else:
            near = closest(op.text, (*OPS, *LATER_OPS)) or {
                "matmul": "gemm",
                "linear": "gemm",
                "cast": "transform",
            }.get(op.text)
            self.error(
                "E007", f"`{op.text}` is not a stage; {covered}", op.span, f"did you mean `{near}`?" if near else None
            )

    def operand(self, stage: str, node: OperandNode) -> tuple[Operand, TensorType | None]:
        name = node.name.text
        operand = Operand(name, node.transposed, node.span)
        if name in self.types:
            self.used.add(name)
            self.reads[stage].add(name)
            return operand, self.types[name]
        self.reads[stage].add(name)
        if name == stage or name in self.later:
            what = "its own result" if name == stage else f"{name}, which a later stage writes"
            self.error("E401", f"{stage} reads {what}", node.name.span, "a stage reads parameters and earlier stages")
        else:
            near = closest(name, self.types)
            self.used |= {near}
            self.error(
                "E101", f"`{name}` names no parameter or stage", node.name.span,
                f"did you mean `{near}`?" if near else None, (f"in scope are {listing(self.types)}",),
            )  # fmt: skip
        return operand, None

    def clauses(self, node: StageNode, allowed: tuple[str, ...]) -> dict:
        out: dict = {}
        for c in node.clauses:
            word = c.keyword.text
            if word in LATER_CLAUSES:
                covered = listing(allowed)
                self.error(
                    "E006", f"{word} is not covered yet; clauses of {node.op.text} are {covered}", c.keyword.span
                )
            elif word not in allowed:
                self.error(
                    "E006", f"{word} is not a clause of {node.op.text}; those are {listing(allowed)}", c.keyword.span
                )
            elif word in out:
                self.error("E005", f"{word} is given twice", c.keyword.span, "leave one out")
            else:
                out[word] = c
        return out

    def word_clause(self, clauses: dict, name: str) -> Word | None:
        c = clauses.get(name)
        return c.value if c is not None and c.value.text != "auto" else None

    def transform(self, node: StageNode, operand, clauses: dict) -> TensorType | None:
        x, t = operand
        spans = tuple((k, c.span) for k, c in clauses.items())
        prepack = "prepack" in clauses
        if x.transposed:
            self.error("E007", "transform changes the element type alone; layouts are not covered yet", x.span,
                       f"write .T where {node.name.text} is read")  # fmt: skip
        if prepack:
            if x.name in {p.name for p in self.params}:
                self.prepacked.add(node.name.text)
            elif x.name in self.types:
                self.error("E407", f"prepack is for parameters; {x.name} changes at every call",
                           clauses["prepack"].span, "leave prepack out")  # fmt: skip
        word = self.word_clause(clauses, "to")
        to = self.dtype(word) if word else None
        if word is None:
            self.error("E116", "this transform changes nothing", node.span, "say to what: { to f16 }")
        if to is None or t is None:
            return None
        if to is t.dtype:
            self.error("E116", f"{x.name} is {t.dtype.value} already", word.span, f"read {x.name} itself")
        result = TensorType(to, t.shape)
        self.stages.append(Transform(node.name.text, x, to, prepack, type=result, span=node.span, clauses=spans))
        return result

    def gemm(self, node: StageNode, operands, clauses: dict) -> TensorType | None:
        (a, ta), (b, tb) = operands
        spans = tuple((k, c.span) for k, c in clauses.items())
        shape = None if ta is None or tb is None else product_shape(a, ta, b, tb, self.error)
        word = self.word_clause(clauses, "store")
        store = self.dtype(word) if word else None
        epilogue = Acc(span=node.span)
        c = clauses.get("epilogue")
        if c is not None and not _is_auto(c.value):
            checker = EpilogueChecker(node.name.text, dict(self.types), self.later, shape, self.found.append)
            epilogue = checker.check(c.value)
            self.used |= checker.used
            self.reads[node.name.text] |= checker.used
        config = read_config(clauses, self.error)
        stage = Gemm(node.name.text, a, b, config, epilogue=epilogue, store=store, span=node.span, clauses=spans)
        if shape is None or (word and store is None):
            return None
        result = TensorType(store or ta.dtype, shape)
        stage = replace(stage, type=result)
        ready = all(self.types.get(load.name) is not None for load in loads(epilogue))
        if aligned(stage, self.types, self.error) and ready:
            name = self.arch[0] or arches.DEFAULT
            check_gemm_config(arches.ARCHS.get(name), stage, self.types, self.error)
        self.stages.append(stage)
        return result

    # ---- the pipeline's end ----

    def results(self, types: tuple[TensorType | None, ...]) -> tuple[str, ...]:
        tree = self.tree
        returns = [i for i in tree.items if isinstance(i, ReturnNode)]
        if not returns:
            self.error("E406", "the program returns nothing", tree.end, "add: return and a stage's name")
            return ()
        for extra in returns[1:]:
            self.error("E406", "a program returns once", extra.span, "return y, z gives several results")
        if tree.items[-1] is not returns[0] and len(returns) == 1:
            self.error("E406", "return is the last line", returns[0].span, "move it below the stages")
        names = returns[0].names
        if len(names) != len(types):
            self.error(
                "E405", f"{len(names)} result{'s'[: len(names) > 1]} returned, {len(types)} type"
                f"{'s'[: len(types) > 1]} after ->", returns[0].span, "one type a result",
            )  # fmt: skip
        stages = self.reads
        for i, name in enumerate(names):
            if name.text in {n.text for n in names[:i]}:
                self.error("E404", f"{name.text} is returned twice", name.span, "each stage is one result")
            elif name.text in stages:
                self.used.add(name.text)
                if name.text in self.prepacked:
                    help = "leave prepack out, or return another stage"
                    self.error("E407", f"{name.text} is prepacked, so no call computes it anew", name.span, help)
                have, want = self.types.get(name.text), types[i] if i < len(types) else None
                if have is not None and want is not None and have != want:
                    self.mismatch(name, have, want)
            elif name.text in self.types:
                self.used.add(name.text)
                self.error("E404", f"{name.text} is a parameter; results are stages", name.span)
            else:
                near = closest(name.text, stages)
                help = f"did you mean `{near}`?" if near else None
                self.error("E404", f"`{name.text}` is not a stage", name.span, help)
        return tuple(n.text for n in names)

    def mismatch(self, name: Word, have: TensorType, want: TensorType) -> None:
        if have.shape != want.shape:
            self.error("E110", f"{name.text} is {have}; the program promises {want}", name.span, f"-> {have}")
        else:
            gemms = {s.name for s in self.stages if isinstance(s, Gemm)}
            help = f"store {want.dtype.value} in {name.text}" if name.text in gemms else f"to {want.dtype.value}"
            self.error(
                "E110", f"{name.text} is {have}; the program promises {want}", name.span, f"{help}, or -> {have}"
            )

    def unused(self, stage_nodes: list[StageNode], results: tuple[str, ...]) -> None:
        for p in self.tree.params:
            if p.name.text not in self.used and p.name.text in self.types:
                self.error("E402", f"parameter {p.name.text} is never read", p.name.span, "leave it out")
        reached, todo = set(), [r for r in results if r in self.reads]
        while todo:
            name = todo.pop()
            if name not in reached:
                reached.add(name)
                todo += [n for n in self.reads[name] if n in self.reads]
        for s in stage_nodes:
            if results and s.name.text not in reached:
                self.error("E403", f"no result needs stage {s.name.text}", s.name.span, "leave it out, or return it")


def _is_auto(node) -> bool:
    word = getattr(node, "name", None)
    return word is not None and word.text == "auto" and getattr(node, "axes", None) is None
