"""The contract of the house: no circle of imports, and limits for folders, modules and lines.

Each rule returns the places that break it, with a detail for the message. `OPEN` lists the places that are still
broken, as names or patterns of `fnmatch`. An entry that no longer matches a broken place fails the test, so the list
cannot rot. The rules hold for the Python of the five rooms and for static/js; those of length also for the Python of
tests.
"""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("dsl", "sol", "engine", "playground", "ucutlass_web")
DATA = ("playground/migrations", "engine/problems")  # no code of ours to lay out
MODULES_IN_A_FOLDER = 15  # besides __init__.py
LINES_IN_A_MODULE = 400
CHARACTERS_IN_A_LINE = 120
PARTICIPLES = frozenset(("found", "made", "told", "said", "held", "heard", "kept", "given", "taken"))
FIELDS_OF_FILES = frozenset({("engine/evaluate/reference/baseline_cache.py", "taken")})  # keys of stored JSON
PASTED = ("tests/engine/integrity/*/*.py", "tests/engine/trace/hostile/*.py")  # texts for a sandbox, no code of ours
NAME = re.compile(r"[A-Za-z_$][\w$]*")
# What stands between a keyword and its value, in a function's parentheses, alone before an arrow, after `this.`
DECLARATION = re.compile(
    r"\b(?:const|let|var)\s+([\w$]+|[{[][^=]*?[}\]])\s*(?:=|;|of\b|in\b)"
    r"|\bfunction\s*[\w$]*\s*\(([^()]*)\)"
    r"|^\s+(?:async\s+|static\s+)*(?!if\b|for\b|while\b|switch\b|catch\b)[\w$]+\(([^()]*)\)\s*\{"
    r"|\bcatch\s*\(([^()]*)\)"
    r"|\(([^()]*)\)\s*=>"
    r"|([\w$]+)\s*=>"
    r"|,\s*([\w$]+)\s*=(?![=>])"
    r"|\bthis\.([\w$]+)\s*=(?!=)",
    re.M,
)

OPEN: dict[str, tuple[str, ...]] = {}


def python_modules(root: Path) -> Iterator[Path]:
    """Every Python module of the five rooms, in order of its path."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            if not path.relative_to(root).as_posix().startswith(DATA):
                yield path


def scripts(root: Path) -> Iterator[Path]:
    """Every JavaScript module of ours."""
    return iter(sorted((root / "static/js").rglob("*.js")))


def files_of_tests(root: Path) -> list[Path]:
    """Every Python file of the tests."""
    return sorted((root / "tests").rglob("*.py"))


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n")


def dotted(path: Path, root: Path) -> str:
    """engine/build/nvcc.py -> engine.build.nvcc; a package's __init__.py has the package's name."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(tree: ast.Module, module: str, is_package: bool) -> Iterator[tuple[str, ...]]:
    """What each import of a module may name, the longest first: `from a.b import c` is a.b.c or else a.b.

    Imports inside functions and under TYPE_CHECKING count: a module that needs one to load needs it to work.
    """
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name,) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((f"{source}.{alias.name}", source) for alias in node.names)


def import_graph(root: Path) -> dict[str, set[str]]:
    """Module -> the modules of ours that it imports. A package that is only passed through is not imported."""
    paths = {dotted(path, root): path for path in python_modules(root)}
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        candidates = imported_names(tree, module, path.name == "__init__.py")
        targets = (next((name for name in names if name in paths), None) for names in candidates)
        graph[module] = {target for target in targets if target is not None and target != module}
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan 1972), each sorted, in order."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in sorted(graph[module]):
            if target not in index:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], index[target])
        if low[module] == index[module]:
            at = stack.index(module)
            components.append(sorted(stack[at:]))
            del stack[at:]

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return sorted(component for component in components if len(component) > 1)


def circles_of_imports(root: Path) -> dict[str, str]:
    graph = import_graph(root)
    return {
        " <-> ".join(circle): "; ".join(
            f"{module} imports {', '.join(sorted(graph[module].intersection(circle)))}" for module in circle
        )
        for circle in circles(graph)
    }


def full_folders(root: Path) -> dict[str, str]:
    folders: dict[Path, int] = {}
    for path in (*python_modules(root), *scripts(root)):
        folders[path.parent] = folders.get(path.parent, 0) + (path.name != "__init__.py")
    return {
        folder.relative_to(root).as_posix(): f"{count} modules, at most {MODULES_IN_A_FOLDER}"
        for folder, count in folders.items()
        if count > MODULES_IN_A_FOLDER
    }


def long_modules(root: Path) -> dict[str, str]:
    lengths = {path: len(lines(path)) for path in (*python_modules(root), *files_of_tests(root), *scripts(root))}
    return {
        path.relative_to(root).as_posix(): f"{length} lines, at most {LINES_IN_A_MODULE}"
        for path, length in lengths.items()
        if length > LINES_IN_A_MODULE
    }


def long_lines(root: Path) -> dict[str, str]:
    places: dict[str, str] = {}
    for path in (*python_modules(root), *files_of_tests(root), *scripts(root)):
        long = [str(n) for n, line in enumerate(lines(path), 1) if len(line) > CHARACTERS_IN_A_LINE]
        if long:
            places[path.relative_to(root).as_posix()] = (
                f"more than {CHARACTERS_IN_A_LINE} characters in {', '.join(long)}"
            )
    return places


def bound_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """(name, line) of each variable, loop name, parameter, attribute and field that the module binds."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name, node.lineno


def declared_names(text: str) -> Iterator[tuple[str, int]]:
    """(name, line) of each constant, variable, parameter and field that a script declares."""
    for declaration in DECLARATION.finditer(text):
        for name in NAME.finditer(next(group for group in declaration.groups() if group is not None)):
            yield name[0], text.count("\n", 0, declaration.start()) + 1


def bare_participles(root: Path) -> dict[str, str]:
    """Variables are nouns: `found` says that something was found, `diagnostics` says what it is."""
    places: dict[str, str] = {}
    modules = (*sorted(root.glob("*.py")), *python_modules(root), *sorted((root / "tests").rglob("*.py")))
    for path in (*modules, *scripts(root)):
        text, place = path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()
        if any(fnmatch(place, pattern) for pattern in PASTED):
            continue
        names = declared_names(text) if path.suffix == ".js" else bound_names(ast.parse(text, str(path)))
        participles = [
            f"{name} in line {line}"
            for name, line in names
            if name.strip("_") in PARTICIPLES and (place, name) not in FIELDS_OF_FILES
        ]
        if participles:
            places[place] = ", ".join(participles)
    return places


RULES = {rule.__name__: rule for rule in (circles_of_imports, full_folders, long_modules, long_lines, bare_participles)}


@pytest.mark.parametrize("name", RULES)
def test_the_house_keeps_its_rules(name):
    broken, listed = RULES[name](ROOT), OPEN.get(name, ())
    new = {place: detail for place, detail in broken.items() if not any(fnmatch(place, entry) for entry in listed)}
    assert not new, f"{name}: " + "\n".join(f"{place}: {detail}" for place, detail in new.items())
    mended = [entry for entry in listed if not any(fnmatch(place, entry) for place in broken)]
    assert not mended, f"mended, so remove from OPEN[{name!r}]: {mended}"


@pytest.fixture
def house(tmp_path):
    """A small house that breaks every rule once."""
    for folder in ("dsl", "sol/cost", "engine/problems", "playground", "ucutlass_web", "tests", "static/js"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "sol/cost/__init__.py").write_text("from .needed import kept\n")
    (tmp_path / "sol/cost/needed.py").write_text("def kept():\n    from sol.cost import ops\n    return ops\n")
    (tmp_path / "sol/cost/ops.py").write_text("if TYPE_CHECKING:\n    import sol.cost.needed\n")
    (tmp_path / "dsl/syntax.py").write_text("import os\n" * 401)
    (tmp_path / "tests/test_syntax.py").write_text("import os\n" * 401 + "#" * 121)
    (tmp_path / "static/js/page.js").write_text("//" + "-" * 119 + "\n")
    (tmp_path / "tests/test_words.py").write_text("made = [word for word in words]\n")
    for number in range(16):
        (tmp_path / f"playground/view{number}.py").write_text("from sol.cost import kept, needed\n")
        (tmp_path / f"engine/problems/problem{number}.py").write_text("x = 1\n" * 500)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("circles_of_imports", ["sol.cost.needed <-> sol.cost.ops"]),
        ("full_folders", ["playground"]),
        ("long_modules", ["dsl/syntax.py", "tests/test_syntax.py"]),
        ("long_lines", ["tests/test_syntax.py", "static/js/page.js"]),
        ("bare_participles", ["tests/test_words.py"]),
    ],
)
def test_each_rule_finds_what_breaks_it(name, places, house):
    assert list(RULES[name](house)) == places


@pytest.mark.parametrize(
    "text",
    [
        "found = 1", "x, (found, *y) = z", "self._found: int = 1", "found += 1", "def f(found): pass",
        "def f(*, found=0): pass", "def f(*found): pass", "lambda found: 0", "[x for found in y]", "(found := 1)",
        "for found in x: pass", "with x as found: pass", "try: pass\nexcept E as found: pass",
        "class A:\n    found: int", "match x:\n    case [1, *found]: pass", "match x:\n    case A() as found: pass",
    ],
)  # fmt: skip
def test_each_way_to_bind_a_name_is_seen(text):
    assert "found" in {name.strip("_") for name, _ in bound_names(ast.parse(text))}


@pytest.mark.parametrize(
    "text",
    [
        "const found = 1;", "let found;", "for (const found of x) f();", "const { a, b: found } = x;",
        "const [a, found] = x;", "const a = 1, found = 2;", "function f(a, found) {}",
        "export async function f(found = 1) {}", "  take(found) {", "x.map((a, found) => a)", "x.map(found => 1)",
        "try {} catch (found) {}", "this.found = 1;",
    ],
)  # fmt: skip
def test_each_way_to_declare_a_name_is_seen(text):
    assert "found" in {name for name, _ in declared_names(text)}


@pytest.mark.parametrize("text", ["f(x.found);", "f({ found: 1 });", "// as found here", "if (x.found === 1) f();"])
def test_a_field_that_is_read_is_no_declaration(text):
    assert "found" not in {name for name, _ in declared_names(text)}
