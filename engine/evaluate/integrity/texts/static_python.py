"""Findings in the text of a Python kernel file before it runs, by its syntax tree.

    found, facts = check(text)      # Findings; what it launches, what library routines it calls

No rule here is a wall, because text can hide anything. A finding names a line and a reason. The run has its own checks
(see `verify`), and both detect most tricks. Rules look at what a name was imported as, so `import torch as t` hides
nothing, and at functions that the entry (`ModelNew.forward`, `kernel`) calls as well as at the entry itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.evaluate.integrity.findings import NOTE, Finding
from engine.evaluate.integrity.texts import kept_results, names, static_cuda
from engine.evaluate.integrity.texts.innocent import Innocent, short_name
from engine.evaluate.integrity.texts.joined import WAITS, Joined
from engine.evaluate.integrity.texts.own_names import WAYS_OUT, Looked
from engine.evaluate.integrity.texts.python_source import PythonSource, constant, imported_by_call
from engine.sandbox import pasted
from engine.session.kernel_text import no_entry

ENTRIES = ("forward", "kernel")
_JOINS = {"wait_stream", "synchronize", "wait_event", "record_stream"}
_TF32 = {"NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"}


@dataclass
class Facts:
    """`kernels`: names of Triton or CuTe kernels, and of constants that hold CUDA or C; `gpu`: those that only a GPU
    can run; `contractions` and `compute`: (routine, line) of the library; `native`: a shared library or an extension is
    loaded; `narrow`: named types."""

    kernels: list[str] = field(default_factory=list)
    gpu: list[str] = field(default_factory=list)
    contractions: list[tuple[str, int]] = field(default_factory=list)
    compute: list[tuple[str, int]] = field(default_factory=list)
    native: bool = False
    narrow: list[str] = field(default_factory=list)


def check(text: str, cls: str = "f32", entry: str = "") -> tuple[list[Finding], Facts]:
    """Findings and facts of a candidate that declares class `cls`. A text that is not Python gives `not_loaded`.
    `entry`: the called function, if it is not `kernel`."""
    try:
        tree = ast.parse(pasted.normal(text))
    except SyntaxError as e:
        return [Finding("not_loaded", f"line {e.lineno}: {e.msg}" if e.lineno else e.msg, e.lineno)], Facts()
    except (ValueError, RecursionError, MemoryError) as e:
        return [Finding("not_loaded", f"Python's parser refuses it: {type(e).__name__}")], Facts()
    try:
        reader = _Reader(tree, cls, entry)
        reader.read()
    except RecursionError:
        return [Finding("hidden_code", "the text is nested so deeply that it cannot be checked")], Facts()
    return reader.findings, reader.facts


class _Reader(PythonSource):
    def __init__(self, tree: ast.Module, cls: str, entry: str):
        super().__init__(tree)
        self.cls, self.entry = cls, entry
        self.entries = (*ENTRIES, entry) if entry else ENTRIES
        self.innocent = Innocent(self, (*self.entries, "get_init_inputs"))
        self.looked, self.joined = Looked(self, self.innocent), Joined(self, self.innocent)
        self.findings: list[Finding] = []
        self.facts = Facts()

    def add(self, code: str, node: ast.AST, evidence: str, severity: str = "") -> None:
        self.findings.append(Finding(code, evidence[:200], getattr(node, "lineno", None), severity=severity))

    def read(self) -> None:
        if not self._has_entry():
            self.findings.append(Finding("no_entry", no_entry(ast.unparse(self.tree), "python", self.entry).evidence))
        for node in ast.walk(self.tree):
            if node in self.innocent.uses or self.innocent.unreached(node):
                continue
            for rule in _RULES:
                rule(self, node)
        self._streams_and_graphs()
        self._kernels()
        for code, node, evidence in kept_results.find(self, self.entries):
            self.add(code, node, evidence)

    def _has_entry(self) -> bool:
        """Return True if the text binds the judge's entry outside of functions and classes. A text that imports every
        name of a module may do so."""
        names = module_names(self.tree.body)
        return "*" in names or bool(names & ({self.entry} if self.entry else {"ModelNew", "kernel"}))

    # ---- rules about one node ----

    def _rule_calls(self, node: ast.AST) -> None:
        if not isinstance(node, ast.Call):
            return
        name = self.dotted(node.func)
        last = name.rpartition(".")[2]
        if name in names.HARNESS_CALLS or name.startswith(("faulthandler.", "ctypes.pythonapi", "gc.get_", "atexit.")):
            self.add("harness_access", node, f"{name}()")
        elif module := imported_by_call(node):
            self._imports_a_module(node, module)
        elif name in names.HIDDEN and not (name.endswith("compile") and name != "builtins.compile"):
            self.add("hidden_code", node, f"{last}()")
        elif name in names.THREADS or name.startswith(
            ("multiprocessing.", "concurrent.futures", "asyncio.", "_thread.")
        ):
            if name not in WAITS:
                self.add("joined_threads" if self.joined.ends(node, name) else "threads", node, f"{name}()")
        elif name in names.TIMERS:
            self.add("timer", node, f"{name}()")
        elif name in names.SEEDS or (isinstance(node.func, ast.Attribute) and node.func.attr == "manual_seed"):
            self.add("seeded", node, f"{name or 'manual_seed'}()")
        elif name == "torch.set_float32_matmul_precision":
            self._precision(node, ast.unparse(node))
        elif name.startswith("torch.library.") and any(
            "aten" in str(constant(a)).split("::")[:1] for a in node.args[:1]
        ):
            self.add("patched_module", node, f"another kernel for PyTorch's operators: {ast.unparse(node)[:60]}")
        elif name in names.DEFAULTS or name.startswith("unittest.mock"):
            self.add("patched_module", node, f"{name}()")
        self._rule_calls_of_builtins(node, name)

    def _rule_calls_of_builtins(self, node: ast.Call, name: str) -> None:
        plain = node.func.id if isinstance(node.func, ast.Name) else ""
        if plain in ("getattr", "hasattr") or name == "operator.attrgetter":
            read = [constant(a) for a in node.args if constant(a) in names.FRAMES]
            if read and read != ["__dict__"]:
                self.add("harness_access", node, f"reads {', '.join(map(str, read))}")
        if plain in ("setattr", "delattr") and node.args and self._module(node.args[0]):
            self.add("patched_module", node, ast.unparse(node)[:80])
        elif plain == "getattr" and len(node.args) > 1 and self._module(node.args[0]):
            if not isinstance(node.args[1], ast.Constant):
                self.add("hidden_code", node, f"a name made at run time: {ast.unparse(node)[:80]}")
        elif plain in ("globals", "vars") and plain not in self.functions:
            if (plain == "globals" or node.args) and (judgement := self.looked.judge(node)):
                self.add(judgement[0], node, judgement[1])
        elif name == "importlib.import_module" and not (node.args and isinstance(node.args[0], ast.Constant)):
            self.add("hidden_code", node, ast.unparse(node)[:80])

    def _module(self, node: ast.AST) -> bool:
        """An imported module, or a shared part of torch (torch.Tensor)."""
        return bool(self.dotted(node))

    def _rule_names(self, node: ast.AST) -> None:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            for m in modules:
                self._imports_a_module(node, m)
        elif isinstance(node, ast.Attribute):
            if node.attr in names.FRAMES:
                self.add("harness_access", node, f".{node.attr}")
            name = self.dotted(node)
            if name in names.PROCESS:
                self.add("harness_access", node, name)
        elif isinstance(node, ast.Name) and node.id in WAYS_OUT:
            self.add("harness_access", node, node.id)
        elif isinstance(node, ast.Constant) and node.value in WAYS_OUT:  # as the key of some table
            self.add("harness_access", node, repr(node.value))
        elif isinstance(node, ast.Constant) and str(node.value)[:200].startswith(names.PATHS):
            self.add("harness_access", node, f"the path {str(node.value)[:60]!r}")

    def _imports_a_module(self, node: ast.AST, name: str) -> None:
        top = name.split(".")[0]
        if top in ("engine", "__main__", "faulthandler", "pytest"):
            self.add("harness_access", node, f"import {name}")
        elif top in ("multiprocessing", "_thread") or name == "torch.multiprocessing":
            self.add("threads", node, f"import {name}")

    def _rule_patches(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        elif isinstance(node, ast.Delete):
            targets = node.targets
        else:
            return
        for target in [t for group in targets for t in (group.elts if isinstance(group, ast.Tuple) else [group])]:
            if isinstance(target, ast.Attribute) and target.attr == "__class__":
                self.add("tensor_subclass", node, ast.unparse(target))
            base = target.value if isinstance(target, ast.Subscript) else target
            name = self.dotted(base)
            if name.startswith("torch.backends"):
                strict = isinstance(node, ast.Assign) and ast.unparse(node.value) in ("False", "'highest'", "'ieee'")
                if not strict and re.search("tf32|reduced_precision|fp32_precision", name):
                    self._precision(node, ast.unparse(node))
            elif name.startswith("os.environ"):
                if any(key in ast.unparse(target) for key in _TF32):
                    self._precision(node, ast.unparse(node))
                elif "LD_" in ast.unparse(target):
                    self.add("patched_module", node, ast.unparse(target))
            elif name and isinstance(target, (ast.Attribute, ast.Subscript)):
                self.add("patched_module", node, f"{ast.unparse(target)[:80]} is assigned")

    def _precision(self, node: ast.AST, evidence: str) -> None:
        if "'highest'" not in evidence:
            self.add("precision_flag", node, evidence, "" if self.cls == "f32" else NOTE)

    def _rule_classes(self, node: ast.AST) -> None:
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                name = self.dotted(base)
                if name in ("torch.Tensor", "torch.nn.Parameter", "torch.nn.parameter.Parameter") or name.endswith(
                    ("TorchDispatchMode", "TorchFunctionMode", "FakeTensor")
                ):
                    self.add("tensor_subclass", node, f"class {node.name}({ast.unparse(base)})")
        elif isinstance(node, ast.FunctionDef) and node.name in ("__torch_dispatch__", "__torch_function__"):
            self.add("tensor_subclass", node, node.name)
        elif isinstance(node, ast.Attribute) and node.attr in ("_make_subclass", "_make_wrapper_subclass"):
            self.add("tensor_subclass", node, node.attr)

    def _rule_fallback(self, node: ast.AST) -> None:
        if isinstance(node, ast.Try):
            inside = any(isinstance(self.functions.get(n), ast.FunctionDef) for n in self.within(node))
            for handler in node.handlers:
                routine = self._computes(handler.body)
                if inside and routine and not any(isinstance(s, ast.Raise) for s in handler.body):
                    self.add("fallback", handler, f"except: {routine}")
                for name in self._set_in(handler):
                    self._conditional_fallback(name)
        suppressing = isinstance(node, ast.With) and any("suppress" in ast.unparse(i.context_expr) for i in node.items)
        if suppressing and self.within(node):
            function = self.functions.get(self.within(node)[0])
            routine = function and self._computes([s for s in function.body if s is not node])
            if routine:
                self.add("fallback", node, f"suppresses errors, then {routine}")

    def _set_in(self, handler: ast.ExceptHandler) -> list[str]:
        return [t.id for s in handler.body if isinstance(s, ast.Assign) for t in s.targets if isinstance(t, ast.Name)]

    def _conditional_fallback(self, name: str) -> None:
        for node in ast.walk(self.tree):
            if not isinstance(node, (ast.If, ast.IfExp)) or not self.within(node):
                continue
            if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node.test)):
                branches = [*node.body, *node.orelse] if isinstance(node, ast.If) else [node.body, node.orelse]
                routine = self._computes(branches)
                if routine:
                    self.add("fallback", node, f"where {name!r} was set on an error: {routine}")

    def _computes(self, body: list[ast.AST], depth: int = 0) -> str:
        """The first library routine that the code calls, itself or through a function of the file; "" for none."""
        for statement in body:
            for node in ast.walk(statement):
                name = self._routine(node)
                if name:
                    return name
                if isinstance(node, ast.Call) and depth < 3:
                    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                    function = self.functions.get(called)
                    if (
                        function is not None
                        and called not in self.entries
                        and (inner := self._computes(function.body, depth + 1))
                    ):
                        return inner
        return ""

    def _routine(self, node: ast.AST) -> str:
        """The name of the library routine that this node calls, or ""."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return "@"
        if not isinstance(node, ast.Call):
            return ""
        name = self.dotted(node.func)
        last = name.rpartition(".")[2] if name else getattr(node.func, "attr", "")
        if isinstance(node.func, ast.Attribute) and short_name(node.func.value) in self.innocent.containers:
            return ""
        if name.split(".")[0] in ("torch", "numpy", "scipy") and (last in names.COMPUTE or last in names.CONTRACTIONS):
            return name
        if not name and isinstance(node.func, ast.Attribute) and (last in names.CONTRACTIONS or last in names.COMPUTE):
            return f".{last}"
        if isinstance(node.func, ast.Attribute) and self._is_self(node.func.value) and node.func.attr in self._layers():
            return f"self.{node.func.attr}"
        return ""

    @staticmethod
    def _is_self(node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == "self"

    def _layers(self) -> set[str]:
        """Attributes of self that hold layers of torch.nn, which compute when called."""
        if not hasattr(self, "_held_layers"):
            self._held_layers = {
                t.attr
                for n in ast.walk(self.tree) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)
                for t in n.targets if isinstance(t, ast.Attribute) and self._is_self(t.value)
                if self.dotted(n.value.func).startswith("torch.nn.") and "Parameter" not in ast.unparse(n.value.func)
            }  # fmt: skip
        return self._held_layers

    # ---- rules about the whole ----

    def _streams_and_graphs(self) -> None:
        calls = [n for n in ast.walk(self.tree) if isinstance(n, ast.Call)]
        attributes = {n.func.attr for n in calls if isinstance(n.func, ast.Attribute)}
        streams = [n for n in calls if self.dotted(n.func) in names.STREAMS]
        if streams:
            joined = bool(attributes & _JOINS)
            self.add("own_stream" if joined else "side_stream", streams[0], ast.unparse(streams[0])[:80])
        graphs = [n for n in calls if self.dotted(n.func).rpartition(".")[2] in ("CUDAGraph", "make_graphed_callables")]
        if graphs:
            self.add("graph" if "copy_" in attributes else "graph_replay", graphs[0], ast.unparse(graphs[0])[:80])

    def _kernels(self) -> None:
        read = [n for n in ast.walk(self.tree) if isinstance(n, ast.Name | ast.Attribute)]
        loads = {n.id if isinstance(n, ast.Name) else f".{n.attr}" for n in read if isinstance(n.ctx, ast.Load)}
        methods = {f for c in ast.walk(self.tree) if isinstance(c, ast.ClassDef) for f in c.body}
        text_kernels: list[tuple[str, ast.AST]] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef):
                for d in node.decorator_list:
                    name = self.dotted(d.func if isinstance(d, ast.Call) else d)
                    if name in ("triton.jit", "triton.autotune", "cutlass.cute.kernel", "cute.kernel"):
                        text_kernels.append((node.name, node))
                        self.facts.gpu.append(node.name)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                value = node.value.value
                if isinstance(value, str) and _is_kernel(value):
                    constants = [t.id for t in node.targets if isinstance(t, ast.Name)]
                    text_kernels += [(name, node) for name in constants]
                    self.facts.gpu += constants if "__global__" in value else []
                    self.findings += static_cuda.check(value, first_line=node.value.lineno)
                    self.facts.narrow += static_cuda.narrow_types(value)
            elif isinstance(node, ast.Call):
                last = (self.dotted(node.func) or getattr(node.func, "attr", "")).rpartition(".")[2]
                self.facts.native |= last in ("CDLL", "LoadLibrary", "load_inline", "load", "load_library", "RawKernel")
        for name, node in text_kernels:
            if name not in self.facts.kernels:
                self.facts.kernels.append(name)
                if (f".{name}" if node in methods else name) not in loads:
                    self.add("dressed", node, f"{name} is never used")
        for node in ast.walk(self.tree):
            if not self.within(node) or self.innocent.unreached(node):
                continue
            routine = self._routine(node)
            if routine:
                kind = routine.rpartition(".")[2]
                many = kind in names.CONTRACTIONS or routine == "@" or routine.startswith("self.")
                (self.facts.contractions if many else self.facts.compute).append((routine, node.lineno))
            if isinstance(node, ast.Attribute) and node.attr in ("half", "bfloat16", "float16"):
                self.facts.narrow.append(node.attr)


def module_names(body: Iterable[ast.AST]) -> set[str]:
    """Names that these statements bind, except inside functions and classes."""
    names: set[str] = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {a.asname or a.name for a in node.names}
        else:
            names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            for part in ("body", "orelse", "finalbody", "handlers"):
                names |= module_names(getattr(node, part, ()))
    return names


_FUNCTION = re.compile(r"^\s*(extern\s+\"C\"\s+)?[\w:*<>\s]+\s+\*?\w+\s*\([^;{}]*\)\s*\{", re.MULTILINE)


def _is_kernel(text: str) -> bool:
    """A constant that holds CUDA or C: a kernel, or a function with a body."""
    return "__global__" in text or bool(_FUNCTION.search(text))


_RULES = (
    _Reader._rule_calls, _Reader._rule_names, _Reader._rule_patches, _Reader._rule_classes, _Reader._rule_fallback,
)  # fmt: skip
