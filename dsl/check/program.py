"""The checker: from a syntax tree to the typed IR, or to every error of the program, in one pass.

This module checks names, the pipeline and its results (E1xx, E4xx). `dsl.check.families` checks the stages,
`dsl.check.expressions` the expressions (E3xx) and `dsl.check.configure` the configurations (E2xx). A part with an error
stays untyped, and the parts that depend on it report nothing, so each mistake is reported once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from dsl import arch as arches
from dsl import guard as guards
from dsl.check.configure import check_guarded, check_one_back_end
from dsl.check.context import Context
from dsl.check.families import FAMILIES, OPS
from dsl.check.promises import mismatch
from dsl.check.stages.gemm import GEMM_CLAUSES
from dsl.check.stages.transform import CHANGES, IN_TWO, TRANSFORM_CLAUSES
from dsl.check.tail import RESERVED, another_name
from dsl.diagnostics import MAX_LISTED, Diagnostic, ProgramError, closest, listing
from dsl.fixes import (
    ChangeStage,
    Help,
    LeaveOut,
    MoveUp,
    ReturnLast,
    Rewrite,
    SetArch,
    did_you_mean,
    help_of,
    leave_clause,
    or_else,
)
from dsl.ir import Operand, Param, Program, Span, Stage, TensorType
from dsl.syntax import parse
from dsl.tree import ArchNode, GuardNode, LaunchNode, OperandNode, ProgramNode, ReturnNode, StageNode, Word, head_of

__all__ = ["GEMM_CLAUSES", "OPS", "TRANSFORM_CLAUSES", "Checked", "check"]

LAUNCHES = ("stream", "graph")
_ONE_OUT, _IT_OUT = help_of("leave one out", LeaveOut()), help_of("leave it out", LeaveOut())
_UNREAD = or_else(_IT_OUT, "return it")
# PyTorch's names of the stages.
_ALIASES = {
    "matmul": "gemm", "linear": "gemm", "bmm": "gemm", "cast": "transform", "permute": "transform", "pad": "transform",
    "softmax": "normalize", "layernorm": "normalize", "layer_norm": "normalize", "rmsnorm": "normalize",
    "groupnorm": "normalize", "group_norm": "normalize", "batchnorm": "normalize", "batch_norm": "normalize",
    "max_pool2d": "pool", "avg_pool2d": "pool", "sum": "reduce", "mean": "reduce", "max": "reduce", "argmax": "reduce",
    "lstm": "recurrent", "gru": "recurrent", "rnn": "recurrent",
    "cumsum": "scan", "cumprod": "scan",
    "sdpa": "attention", "scaled_dot_product_attention": "attention",
    "cat": "concat", "relu": "map", "conv": "conv2d", "moe": "grouped_gemm",
}  # fmt: skip


@dataclass(frozen=True)
class Checked:
    """The result of `check`. `program` is None if there is any diagnostic."""

    program: Program | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def ok(self) -> bool:
        return self.program is not None


@lru_cache(maxsize=32)  # a session asks about each of its programs several times, and again where it goes on
def check(text: str) -> Checked:
    """Parse and check a program. It raises nothing, for any text."""
    try:
        tree = parse(text)
    except ProgramError as error:
        return Checked(None, error.diagnostics)
    checker = _Checker(tree)
    program = checker.run()
    diagnostics = tuple(sorted(checker.diagnostics, key=lambda d: (d.span.line, d.span.col, d.code)))
    return Checked(None if diagnostics else program, diagnostics)


def partial(text: str) -> tuple[dict[str, TensorType | None], list[Stage]]:
    """The types of the names and the typed stages of a text with errors; both are empty if it does not parse."""
    try:
        tree = parse(text)
    except ProgramError:
        return {}, []
    checker = _Checker(tree)
    checker.run()
    return checker.ctx.types, checker.stages


class _Checker:
    def __init__(self, tree: ProgramNode):
        self.tree = tree
        self.diagnostics: list[Diagnostic] = []
        self.ctx = Context(self.diagnostics.append)
        self.error = self.ctx.error
        self.stages: list[Stage] = []

    # ---- the program ----

    def run(self) -> Program:
        tree, ctx = self.tree, self.ctx
        params: list[Param] = []
        for p in tree.params:
            t = ctx.type(p.type)
            if self.declare(p.name):
                ctx.types[p.name.text] = t
                ctx.params.add(p.name.text)
                params.append(Param(p.name.text, t, p.name.span))
        arch, arch_span = self.read_arch()
        graph = self.read_launch()
        guard = self.read_guard()
        nodes = [i for i in tree.items if isinstance(i, StageNode)]
        ctx.later = {n.text for s in nodes for n in (s.name, *_also(s))}
        for node in nodes:
            self.stage(node)
        result_types = tuple(ctx.type(t) for t in tree.results)
        results = self.results(result_types)
        self.unused(nodes, results)
        if not self.diagnostics and ctx.arch is not None:
            check_one_back_end(ctx.arch, self.stages, ctx.types, self.error)
        program = Program(
            tree.name.text, tuple(params), tuple(self.stages), results, result_types, arch, graph, guard is not None,
            span=tree.name.span, arch_span=arch_span,
        )  # fmt: skip
        if guard is not None and not self.diagnostics:
            for message, span, help in guards.objections(program):
                self.error("E409", message, guard.span if span is None else span, help)
            if not self.diagnostics and ctx.arch is not None:
                check_guarded(program, ctx.arch, guards.writers(program)[0], guard.span, self.error)
        return program

    def declare(self, name: Word) -> bool:
        """Add the name of a parameter or result; False, with an error reported, if it cannot be one."""
        types = self.ctx.types
        if name.text in RESERVED:
            types[name.text] = None
            self.error("E114", f"`{name.text}` is a word of the language", name.span, another_name(name.text))
            return False
        if name.text in types:
            types[name.text] = None  # a reader of this name may mean either of the two
            self.error("E102", f"`{name.text}` is already defined", name.span, "each name is written once")
            return False
        return True

    def head(self, kind: type, word: str) -> Word | None:
        """The value of the program's `arch`, `launch` or `guard` line, which must be before the stages."""
        values: list[Word] = []
        before = True
        for item in self.tree.items:
            if isinstance(item, kind):
                name = head_of(item)[1]
                if values:
                    self.error("E408", f"{word} is given twice", name.span, _ONE_OUT)
                elif not before:
                    help = help_of("move it to the first line", MoveUp())
                    self.error("E408", f"{word} stands before the stages", name.span, help)
                values.append(name)
            before &= head_of(item) is not None
        return values[0] if values else None

    def read_arch(self) -> tuple[str | None, Span]:
        name = self.head(ArchNode, "arch")
        self.ctx.arch = arches.ARCHS[arches.DEFAULT]
        if name is None or name.text == "auto":
            return None, name.span if name else self.tree.name.span
        known = arches.ARCHS.get(name.text)
        self.ctx.arch = known if known is not None and known.generates else None
        if known is None:
            near = closest(name.text, arches.ARCHS) or arches.DEFAULT
            notes = (f"architectures are {listing(arches.ARCHS)}",)
            self.error("E201", f"`{name.text}` is not an architecture", name.span, did_you_mean(near), notes)
        elif not known.generates:
            help = help_of("arch sm_90a", SetArch("sm_90a"))
            self.error("E201", f"{name.text} is not covered yet; covered is sm_90a", name.span, help)
        return name.text, name.span

    def read_launch(self) -> bool:
        how = self.head(LaunchNode, "launch")
        if how is not None and how.text not in (*LAUNCHES, "auto"):
            message = f"`{how.text}` is not a way to launch; those are {listing(LAUNCHES)}"
            near = closest(how.text, LAUNCHES)
            example = help_of("launch graph", Rewrite("graph", title="launch graph"))
            self.error("E120", message, how.span, did_you_mean(near) or example)
        return how is not None and how.text == "graph"

    def read_guard(self) -> Word | None:
        """The value of `guard f32`; None if it is absent or auto."""
        to = self.head(GuardNode, "guard")
        if to is not None and to.text not in ("f32", "auto"):
            help = help_of("guard f32", Rewrite("f32", title="guard f32"))
            self.error("E120", f"a guard falls back to f32, not to `{to.text}`", to.span, help)
        return to if to is not None and to.text == "f32" else None

    # ---- stages ----

    def stage(self, node: StageNode) -> None:
        ctx = self.ctx
        fresh = self.declare(node.name)
        ctx.later -= {n.text for n in (node.name, *_also(node))}
        ctx.reads[node.name.text] = set()
        family = FAMILIES.get(node.op.text)
        operands = [self.operand(node.name.text, o) for o in node.operands]
        stage = None
        if family is None:
            self.unknown_op(node.op)
        else:
            clauses = self.clauses(node, family.clauses)
            if not family.least <= len(operands) <= family.most:
                few = family.least == family.most
                takes = f"{family.least}" if few else f"{family.least} to {family.most}"
                message = f"{node.op.text} takes {takes} tensor{'s'[: family.most > 1]}; {len(operands)} given"
                self.error("E104", message, node.span, f"for example {family.example}")
            else:
                stage = family.check(ctx, node, operands, clauses)
                if stage.type is not None and ctx.sized(stage.type, node.span) is not None:
                    self.stages.append(stage)
        if fresh:
            ctx.types[node.name.text] = stage.type if stage else None
            ctx.writer[node.name.text] = node.name.text
        types = {a.name: a.type for a in stage.also} if stage else {}
        for name in _also(node):
            if self.declare(name):
                ctx.types[name.text] = types.get(name.text)
                ctx.writer[name.text] = node.name.text

    def unknown_op(self, op: Word) -> None:
        near = _ALIASES.get(op.text) or closest(op.text, OPS)
        help: Help | str | None = did_you_mean(near)
        if op.text in _ALIASES:
            family = FAMILIES[near]
            help = f"`{near}` does it: {family.example}"
            if family.block:
                help = help_of(help, ChangeStage(near, family.block))
        self.error("E007", f"`{op.text}` is not a stage; stages are {listing(OPS)}", op.span, help)

    def operand(self, stage: str, node: OperandNode) -> tuple[Operand, TensorType | None]:
        ctx, name = self.ctx, node.name.text
        operand = Operand(name, node.transposed, node.span)
        ctx.reads[stage].add(name)
        if name in ctx.types:
            ctx.used.add(name)
            return operand, ctx.types[name]
        if name == stage or name in ctx.later:
            description = "its own result" if name == stage else f"{name}, which a later stage writes"
            self.error(
                "E401", f"{stage} reads {description}", node.name.span, "a stage reads parameters and earlier stages"
            )
        else:
            near = ctx.closest(name, ctx.types)
            ctx.used |= {near}
            self.error(
                "E101", f"`{name}` names no parameter or stage", node.name.span,
                did_you_mean(near), (f"in scope are {listing(ctx.types, MAX_LISTED)}",),
            )  # fmt: skip
        return operand, None

    def clauses(self, node: StageNode, allowed: tuple[str, ...]) -> dict:
        """The clauses of a stage by keyword, without let and also, which may be repeated."""
        out: dict = {}
        for c in node.clauses:
            word = c.keyword.text
            if word not in allowed:
                self.error(
                    "E006", f"{word} is not a clause of {node.op.text}; those are {listing(allowed)}", c.keyword.span
                )
            elif word in ("let", "also"):
                continue
            elif word in out:
                chained = word in CHANGES and node.op.text == "transform"
                self.error("E005", f"{word} is given twice", c.keyword.span, IN_TWO if chained else _ONE_OUT)
            else:
                out[word] = c
        return out

    # ---- the pipeline's end ----

    def results(self, types: tuple[TensorType | None, ...]) -> tuple[str, ...]:
        tree, ctx = self.tree, self.ctx
        returns = [i for i in tree.items if isinstance(i, ReturnNode)]
        if not returns:
            help = help_of("add: return and a stage's name", ReturnLast())
            self.error("E406", "the program returns nothing", tree.end, help)
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
        written = {**dict.fromkeys(ctx.reads), **ctx.writer}
        for i, name in enumerate(names):
            if name.text in {n.text for n in names[:i]}:
                self.error("E404", f"{name.text} is returned twice", name.span, "each stage is one result")
            elif name.text in written:
                ctx.used.add(name.text)
                if name.text in ctx.prepacked:
                    help = or_else(leave_clause("prepack"), "return another stage")
                    self.error("E407", f"{name.text} is prepacked, so it is not computed in each call", name.span, help)
                actual, declared = ctx.types.get(name.text), types[i] if i < len(types) else None
                if actual is not None and declared is not None and actual != declared:
                    writer = ctx.writer.get(name.text, name.text)
                    stage = next((s for s in self.stages if s.name == writer), None)
                    mismatch(ctx, stage, name, actual, declared)
            elif name.text in ctx.types:
                ctx.used.add(name.text)
                self.error("E404", f"{name.text} is a parameter; results are stages", name.span)
            else:
                near = ctx.closest(name.text, written)
                self.error("E404", f"`{name.text}` is not a stage", name.span, did_you_mean(near))
        return tuple(n.text for n in names)

    def unused(self, nodes: list[StageNode], results: tuple[str, ...]) -> None:
        ctx = self.ctx
        for p in self.tree.params:
            if p.name.text not in ctx.used and p.name.text in ctx.types:
                self.error("E402", f"parameter {p.name.text} is never read", p.name.span, _IT_OUT)
        reached: set[str] = set()  # results that are returned or that a reached stage reads
        todo = list(results)
        while todo:
            name = todo.pop()
            if name not in reached:
                reached.add(name)
                todo += ctx.reads.get(ctx.writer.get(name, name), ())
        for s in nodes:
            extras = [n for n in _also(s) if n.text not in reached]
            own = s.name.text in reached
            if results and not own and len(extras) == len(_also(s)):
                self.error("E403", f"no result needs stage {s.name.text}", s.name.span, _UNREAD)
            elif results:
                if not own and s.op.text != "recurrent":  # only the last states of its sequence may matter
                    message = f"no result needs {s.name.text}, only the second results of the stage"
                    self.error("E403", message, s.name.span, "make a second result the epilogue")
                for n in extras:
                    self.error("E403", f"no result needs {n.text}", n.span, _UNREAD)


def _also(node: StageNode) -> list[Word]:
    return [c.value.name for c in node.clauses if c.keyword.text == "also"]
