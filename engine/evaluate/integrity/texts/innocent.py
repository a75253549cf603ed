"""What the rules about Python texts leave alone: code that nothing calls, and harmless uses of what they look for.

    innocent = Innocent(source, entries)
    innocent.unreached(node)         # in a function that nothing mentions, or under `if __name__ == "__main__":`
    node in innocent.uses            # as print(file=sys.stderr), whatever sys.stderr is otherwise

A use is innocent by its form alone. What cannot be told from its form stays with the rules.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from engine.evaluate.integrity.texts.python_source import PythonSource, constant

EXAMPLES = ("get_inputs", "Model")  # what a text may have for a reader: the example inputs, a copy of the reference
PATHS = ("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu", "/sys/devices/system/node", "/dev/null")
_REFUSED = {"engine", "__main__", "faulthandler", "pytest", "multiprocessing", "_thread", "torch"}  # as imports
_COUNTS = {"multiprocessing.cpu_count"}
_OWN_FILES = {"tempfile.mkstemp", "os.open", "os.pipe"}
_ON_DESCRIPTORS = {"os.fdopen", "os.read", "os.write"}
_POOLS = {"multiprocessing.pool": {"ThreadPool"}, "multiprocessing.dummy": {"Pool"}}  # of threads, by module
# Bytes that stand in the text as letters, and what only reads them as numbers.
_UNPACKS = {"base64.b64decode", "zlib.decompress", "binascii.unhexlify", "codecs.decode"}
_COPIES = {*_UNPACKS, "bytearray", "bytes", "memoryview"}
_READS_NUMBERS = {"torch.frombuffer", "numpy.frombuffer", "struct.unpack", "struct.iter_unpack", "array.array"}
_SHOW_TRACEBACKS = {
    "traceback.format_exception", "traceback.print_exception", "traceback.format_tb", "traceback.print_tb",
    "traceback.TracebackException",
}  # fmt: skip
_OWN_FOLDER = {"os.path.dirname(__file__)", "os.path.dirname(os.path.abspath(__file__))"}
_SEEDS = {
    "torch.manual_seed",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "random.seed",
    "numpy.random.seed",
}
_DTYPES = re.compile(r"b?float(16|32|64)?|half|double|bfloat16|float8_\w+|u?int(8|16|32|64)?|bool|complex(64|128)")
_NO_HANDLERS = {"signal.SIG_DFL", "signal.SIG_IGN"}
_LOOPS = ("asyncio.new_event_loop", "asyncio.get_event_loop", "asyncio.create_subprocess", "asyncio.subprocess")
_STREAM_METHODS = {"flush", "isatty", "reconfigure"}
# With these a text may call functions that it does not name.
_LOOKS_UP = {
    "globals", "locals", "vars", "exec", "eval", "dir", "compile", "__import__", "__dict__", "modules", "__globals__",
    "f_globals", "__getattribute__", "pythonapi",
}  # fmt: skip
_LOOKING = {
    "inspect", "gc", "runpy", "importlib", "operator", "pkgutil", "pydoc", "doctest", "unittest", "code", "pickle",
    "marshal", "builtins",
}  # fmt: skip
_CONTAINERS = {
    "set",
    "list",
    "dict",
    "frozenset",
    "collections.deque",
    "collections.Counter",
    "collections.defaultdict",
}


class Innocent:
    """`uses`: nodes that no rule looks at; `containers`: names that hold nothing but sets, lists and dictionaries;
    `waited_for`: names of programs that the text waits for."""

    def __init__(self, source: PythonSource, entries: Iterable[str]):
        self.source = source
        nodes = list(ast.walk(source.tree))
        self._mentions: dict[str, list[ast.AST]] = {}
        for node in nodes:
            if isinstance(node, ast.Name):
                self._mentions.setdefault(node.id, []).append(node)
        self._names_itself = all(isinstance(n.ctx, ast.Load) for n in self._mentions.get("__name__", ()))
        self._values: dict[str, list[ast.AST | None]] = {}  # name -> what is assigned to it anywhere
        for node in nodes:
            self._note_values(node)
        self._values.pop("", None)
        self.containers = {
            name for name, values in self._values.items() if all(v is not None and self._container(v) for v in values)
        }
        self._reached = self._names_reached(nodes, entries)
        self.uses = {use for node in nodes for use in self._harmless(node)}
        self.waited_for = {
            short_name(n.func.value) for n in nodes
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in ("communicate", "wait")
            if not self.unreached(n)
        }  # fmt: skip

    # ---- code that nothing calls ----

    def unreached(self, node: ast.AST) -> bool:
        """Whether nothing that runs here comes to this node."""
        parent = self.source.parent
        while node in parent:
            below, node = node, parent[node]
            if isinstance(parent.get(node), ast.Module):
                if self._main_guard(node) and below in node.body:
                    return True
                if _may_rest(node) and node.name not in self._reached:
                    return below not in node.decorator_list
        return False

    def _main_guard(self, node: ast.AST) -> bool:
        test = node.test if isinstance(node, ast.If) else None
        return (
            self._names_itself and isinstance(test, ast.Compare) and isinstance(test.left, ast.Name)
            and test.left.id == "__name__" and isinstance(test.ops[0], ast.Eq) and len(test.ops) == 1
            and constant(test.comparators[0]) == "__main__"
        )  # fmt: skip

    def _names_reached(self, nodes: list[ast.AST], entries: Iterable[str]) -> set[str]:
        """Every word of the code that runs, from the top of the text on."""
        body = self.source.tree.body
        named = not any(_looks_up(n, self.source.parent.get(n)) for n in nodes)
        resting = {s.name: s for s in body if _may_rest(s) and s.name not in entries and (named or s.name in EXAMPLES)}
        words: set[str] = set()
        for statement in body:
            if getattr(statement, "name", None) not in resting:
                words |= _words(self._what_runs(statement))
        while called := [name for name in resting if name in words]:
            for name in called:
                words |= _words([resting.pop(name)])
        return words | {s.name for s in body if _may_rest(s) and s.name not in resting}

    def _what_runs(self, statement: ast.AST) -> list[ast.AST]:
        return [statement.test, *statement.orelse] if self._main_guard(statement) else [statement]

    # ---- harmless uses ----

    def _harmless(self, node: ast.AST) -> Iterator[ast.AST]:
        if isinstance(node, ast.Call):
            yield from self._harmless_call(node)
        elif isinstance(node, ast.Import):
            if all(a.name.split(".")[0] not in _REFUSED or self._only_counts(a) for a in node.names):
                yield node
        elif isinstance(node, ast.ImportFrom) and node.module == "multiprocessing":
            if all(a.name == "cpu_count" for a in node.names):
                yield node
        elif isinstance(node, ast.ImportFrom) and node.module in _POOLS:
            if {a.name for a in node.names} <= _POOLS[node.module]:
                yield node
        elif isinstance(node, ast.Attribute):
            yield from self._harmless_attribute(node)
        elif isinstance(node, ast.Constant) and str(node.value).startswith(PATHS) and ".." not in str(node.value):
            yield node

    def _harmless_call(self, node: ast.Call) -> Iterator[ast.AST]:
        name = self.source.dotted(node.func)
        first = node.args[0] if node.args else None
        innocent = name in _COUNTS or name == "atexit.register"  # nobody waits for what a process does at its end
        innocent |= name in _ON_DESCRIPTORS and isinstance(first, ast.Name) and self._opened(first.id)
        innocent |= name == "weakref.finalize" and self.own_object(first)
        innocent |= (
            name == "faulthandler.enable" and not node.args and {k.arg for k in node.keywords} <= {"all_threads"}
        )
        innocent |= name == "mmap.mmap" and first is not None and ast.unparse(first) == "-1"  # memory, no file
        innocent |= name in ("os.listdir", "os.scandir") and self._own_folder(first)
        innocent |= name == "signal.signal" and self.source.dotted((node.args[1:2] or [None])[0]) in _NO_HANDLERS
        # A loop of asyncio.run ends with the call, and with it all that works in it.
        innocent |= name.startswith("asyncio.") and not name.startswith(_LOOPS)
        innocent |= name in _SEEDS and self._at_the_top(node)
        innocent |= name in _UNPACKS and self._read_as_numbers(node)
        innocent |= name == "torch.set_default_dtype" and self.source.dotted(first) == "torch.float32"  # what it is
        if innocent:
            yield node
        elif name.startswith("subprocess.") and any(k.arg in ("input", "stdin") for k in node.keywords):
            values = self._values.get(first.id, ()) if isinstance(first, ast.Name) else [first]
            lists = [v for v in values if isinstance(v, (ast.List, ast.Tuple))]
            # of the program that it starts
            yield from (e for command in lists for e in command.elts if constant(e) == "/dev/stdin")
        elif isinstance(node.func, ast.Name) and node.func.id == "getattr":
            if len(node.args) > 1 and (self._plain_words(node.args[1]) or self._names_a_dtype(node)):
                yield node
        elif isinstance(node.func, ast.Name) and node.func.id == "print":
            streams = [k.value for k in node.keywords if k.arg == "file"]
            yield from (s for s in streams if self.source.dotted(s) in ("sys.stderr", "sys.stdout"))

    def _harmless_attribute(self, node: ast.Attribute) -> Iterator[ast.AST]:
        name, around = self.source.dotted(node), self.source.parent.get(node)
        if name in ("sys.stdout", "sys.stderr") and isinstance(around, ast.Attribute):
            line = name == "sys.stderr" or self._plain_line(self.source.parent.get(around))
            if around.attr in _STREAM_METHODS or (around.attr == "write" and line):
                yield node
        elif node.attr == "__traceback__" and self._shown(node, around):
            yield node
        elif name == "sys.modules" and isinstance(around, ast.Subscript) and isinstance(around.ctx, ast.Load):
            if self._names_itself and isinstance(around.slice, ast.Name) and around.slice.id == "__name__":
                yield node
        elif name == "sys.modules" and isinstance(around, ast.Compare):
            if all(isinstance(op, (ast.In, ast.NotIn)) for op in around.ops):
                yield node
        elif node.attr == "__dict__" and self.own_object(node.value):
            yield node
        if node.attr in ("__code__", "__dict__") and isinstance(node.ctx, ast.Load) and self._own_function(node.value):
            yield node

    @staticmethod
    def _own_folder(node: ast.AST | None) -> bool:
        """Whether a path is the text's own folder, or one below it."""
        if node is None or ast.unparse(node) in _OWN_FOLDER:
            return True
        path = constant(node)
        return isinstance(path, str) and not path.startswith(("/", "~")) and ".." not in path

    def _at_the_top(self, node: ast.Call) -> bool:
        """Whether a call with a constant is a statement of its own, outside of functions and loops: it runs once, when
        the text is loaded, and the judge draws its seeds afterwards."""
        around = self.source.parent.get(node)
        alone = isinstance(around, ast.Expr) and isinstance(self.source.parent.get(around), ast.Module)
        return alone and all(isinstance(a, ast.Constant) for a in node.args) and not node.keywords

    def _read_as_numbers(self, node: ast.AST) -> bool:
        """Whether bytes go into an array of numbers, and nowhere else."""
        while isinstance(around := self.source.parent.get(node), ast.Call) and node in around.args:
            name = self.source.dotted(around.func) or getattr(around.func, "id", "")
            if name in _READS_NUMBERS:
                return True
            if name not in _COPIES:
                return False
            node = around
        return False

    @staticmethod
    def _plain_line(call: ast.AST | None) -> bool:
        """Whether words are written, nothing in the form of an answer."""
        words = [constant(a) for a in call.args] if isinstance(call, ast.Call) else []
        return bool(words) and all(isinstance(w, str) and not set("{}[]") & set(w) for w in words)

    def _shown(self, node: ast.AST, around: ast.AST | None) -> bool:
        """Whether a traceback is only printed, or goes with the error that is raised."""
        if isinstance(around, ast.Tuple):
            node, around = around, self.source.parent.get(around)
        if isinstance(around, ast.keyword):
            return around.arg == "exc_info"
        if not isinstance(around, ast.Call) or around.func is node:
            return False
        method = around.func.attr if isinstance(around.func, ast.Attribute) else ""
        return self.source.dotted(around.func) in _SHOW_TRACEBACKS or method == "with_traceback"

    def _names_a_dtype(self, call: ast.Call) -> bool:
        """Whether getattr(torch, name) reads a dtype, since the text gives the name no other value."""
        values = self._values.get(short_name(call.args[1]), ())
        words = [constant(v) if v is not None else None for v in values]
        return (
            self.source.dotted(call.args[0]) == "torch"
            and bool(words)
            and all(isinstance(w, str) and _DTYPES.fullmatch(w) for w in words)
        )

    def _only_counts(self, imported: ast.alias) -> bool:
        """Whether `multiprocessing` is only asked for the number of cores, or `faulthandler` is only switched on."""
        use = {"multiprocessing": "cpu_count", "faulthandler": "enable"}.get(imported.name)
        mentions = self._mentions.get(imported.asname or imported.name, ())
        around = [self.source.parent.get(n) for n in mentions]
        return use is not None and all(isinstance(p, ast.Attribute) and p.attr == use for p in around)

    def _opened(self, name: str) -> bool:
        """Whether a name is never anything but a descriptor that this text opened."""
        values = self._values.get(name)
        return bool(values) and all(
            isinstance(v, ast.Call) and self.source.dotted(v.func) in _OWN_FILES for v in values
        )

    def own_object(self, node: ast.AST | None) -> bool:
        """Whether this is the first parameter of a method of a class of this text, which is not given another value."""
        if not isinstance(node, ast.Name) or node.id in self._values:
            return False
        at = node
        while at in self.source.parent:
            at = self.source.parent[at]
            if isinstance(at, (ast.FunctionDef, ast.Lambda)):
                names = [a.arg for a in at.args.args]
                in_class = isinstance(self.source.parent.get(at), ast.ClassDef)
                return in_class and names[:1] == [node.id] and not at.decorator_list
        return False

    def _own_function(self, node: ast.AST) -> bool:
        """Whether this is a function of the text, whose name is given nothing else."""
        name = node.id if isinstance(node, ast.Name) else ""
        function = self.source.functions.get(name)
        return function is not None and not function.decorator_list and name not in self._values

    def _plain_words(self, node: ast.AST) -> bool:
        """Whether a name is one of some words that stand in the text, as in `for name in ("float16", "float32")`."""
        if not isinstance(node, ast.Name) or len(self.values(node.id)) != 1 or self.values(node.id)[0] is not None:
            return False
        return bool(words := self.words(node)) and not any(w.startswith("_") for w in words)

    # ---- what names hold ----

    def values(self, name: str) -> list[ast.AST | None]:
        """What is assigned to a name anywhere; None for what cannot be told."""
        return self._values.get(name, [])

    def mentions(self, name: str) -> list[ast.Name]:
        return self._mentions.get(name, [])

    def words(self, node: ast.Name) -> list[str]:
        """The texts that a name may stand for, if it is given nothing but texts; else none."""
        for loop in self._loops(node):
            if isinstance(loop.target, ast.Name) and loop.target.id == node.id and len(self.values(node.id)) == 1:
                values = list(getattr(loop.iter, "elts", ()))
                break
        else:
            values = self.values(node.id)
        texts = [constant(v) if v is not None else None for v in values]
        return texts if all(isinstance(t, str) for t in texts) else []

    def _loops(self, node: ast.AST) -> Iterator[ast.For | ast.comprehension]:
        while node in self.source.parent:
            node = self.source.parent[node]
            yield from [node] if isinstance(node, ast.For) else getattr(node, "generators", [])

    def _note_values(self, node: ast.AST) -> None:
        """Note what a node assigns to names and to attributes of self; None for what cannot be told."""
        pairs: list[tuple[ast.AST, ast.AST | None]] = []
        if isinstance(node, ast.Assign):
            pairs = [(t, node.value) for t in node.targets]
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
            pairs = [(node.target, node.value)]
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension, ast.AugAssign)):
            pairs = [(node.target, None)]
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            pairs = [(node.optional_vars, node.context_expr)]
        elif isinstance(node, ast.arg) and node.arg != "self":
            self._values.setdefault(node.arg, []).append(None)
        for target, value in pairs:
            if isinstance(target, (ast.Tuple, ast.List)):
                first = target.elts[:1] if isinstance(value, ast.Call) else []  # (descriptor, path) of a file
                for one in target.elts:
                    self._values.setdefault(short_name(one), []).append(value if one in first else None)
            else:
                self._values.setdefault(short_name(target), []).append(value)

    def _container(self, value: ast.AST) -> bool:
        literal = (ast.Set, ast.List, ast.Dict, ast.SetComp, ast.ListComp, ast.DictComp)
        if not isinstance(value, ast.Call):
            return isinstance(value, literal)
        name = value.func.id if isinstance(value.func, ast.Name) else ""
        return (self.source.dotted(value.func) or name) in _CONTAINERS and name not in self.source.functions


def short_name(node: ast.AST) -> str:
    """`name` or `name.attribute`; "" for anything else."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _may_rest(node: ast.AST) -> bool:
    """Whether a statement is a function that only somebody who names it calls, or the copy of the reference."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return not node.decorator_list and "__" not in node.name
    return isinstance(node, ast.ClassDef) and node.name in EXAMPLES


def _looks_up(node: ast.AST, around: ast.AST | None) -> bool:
    """Whether a node may call a function of the text by another way than its name."""
    if isinstance(node, ast.Name) and node.id == "getattr":
        called = isinstance(around, ast.Call) and around.func is node and len(around.args) > 1
        return not (called and isinstance(around.args[1], ast.Constant))
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        return any(m.split(".")[0] in _LOOKING for m in modules)
    return (node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")) in _LOOKS_UP


def _words(nodes: Iterable[ast.AST]) -> set[str]:
    """The names and the words of the texts below these nodes."""
    words: set[str] = set()
    for node in (n for top in nodes for n in ast.walk(top)):
        if isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, ast.Attribute):
            words.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            words |= set(re.findall(r"\w+", text))
    return words
