"""Tracing inside the confined child: takes pasted text, returns an op graph or one clear refusal.

The first attempt uses fake tensors, which have shapes but no memory, so that a large module costs nothing. If the text
needs more than fake tensors can do (for example, it reads a value in its constructor), a second attempt uses real
tensors, and its refusal is the one that the person reads.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from engine.sandbox.watch import Blocked, Watch
from engine.trace import capture, chance, exported, fx, results
from engine.trace.explain import data_dependent, explain, mixed_product
from engine.trace.fake import fake_tensors
from engine.trace.load import Bad, Loaded, in_training, line_of, load
from engine.trace.names import remarks
from engine.trace.values import choices, numbers, sizes
from engine.trace.values.recipes import Recipes
from engine.trace.writes import state
from engine.trace.writes.state import State

# Refusals that real tensors would not change.
_FINAL = ("syntax_error", "data_dependent", "random", "writes", "sandbox_file", "sandbox_network", "sandbox_process")
_MUTATED = re.compile(r"Constant (\S+) is mutated in the forward")  # torch.export's words
LONGEST_NAME = 60  # characters of a class's name in a title
REAL_BYTES = 1 << 30  # of weights, above which a module is not built in memory for a branch that depends on values
_bytes = 0  # of the weights of the module that was built last
_watch: Watch | None = None


def watch() -> None:
    """Install the audit hook, once per process."""
    global _watch
    if _watch is None:
        _watch = Watch()
        _watch.on()


def allow_compilers() -> None:
    """Let the module start programs from now on: torch.compile runs gcc and ptxas for it."""
    watch()
    _watch.allow("subprocess.Popen", "os.posix_spawn", "os.exec", "os.fork")


def serve(message: dict) -> dict:
    watch()
    try:
        return {"ok": _trace(message["source"], bool(message.get("fake", True)))}
    except Bad as e:
        return {"error": {"code": e.code, "reason": e.reason[:2000], "line": e.line}}


def _trace(source: str, fake: bool) -> dict:
    if fake:
        try:
            answer = _attempt(source, fake=True)
            if not _reads_a_cache(answer):
                return answer
        except Bad as e:
            if e.code == "data_dependent":
                return _with_values(source, e)
            if e.code in _FINAL:
                raise
    return _attempt(source, fake=False)


def _with_values(source: str, without: Bad) -> dict:
    """The trace with real tensors, for a module in which only sizes depend on values, or whether nothing is selected.
    Raises `without`, the refusal of the trace with fake tensors, where more does: that one knows the first such line,
    and a way out."""
    ways = [contextlib.nullcontext] if without.of_size else []
    if choices.may_ask(source) and _bytes < REAL_BYTES:
        ways += [functools.partial(choices.assumed, truth) for truth in (True, False)]
    for way in ways:
        try:
            answer = _attempt(source, fake=False, values=way)
        except Bad as e:
            if e.code == "varying_result":
                raise
            continue
        if answer["has"]["by"] == "torch.export":  # torch.fx takes a size for one of every call
            return answer
    raise without


def _reads_a_cache(answer: dict) -> bool:
    """Return True if forward reads a tensor that a function keeps (functools.lru_cache). A fake one is none of
    torch.export's own, so torch.fx traced the call, and a real module would know the tensor by another name."""
    paths = (t["path"] for t in answer["graph"]["tensors"] if t["kind"] == "constant")
    return answer["has"]["by"] == "torch.fx" and any(path.startswith("_tensor_constant") for path in paths)


def _attempt(source: str, fake: bool, values: Callable[[], Any] = contextlib.nullcontext) -> dict:
    """The answer for a text. `values`: a context in which its graph is traced."""
    global _bytes
    import torch

    torch.compiler.set_stance("force_eager")  # run torch.compile's functions uncompiled: same results
    remarks.forget()
    recipes = Recipes()
    pretending = _pretending(recipes) if fake else contextlib.nullcontext()
    with torch.no_grad(), exported.traceable(), pretending:  # also while the module is built
        recipes.read = True
        loaded = stage("the text", lambda: load(source))
        model = stage(f"{loaded.cls.__name__}()", loaded.build)
        _bytes = sum(t.numel() * t.element_size() for t in (*model.parameters(), *model.buffers()))
        inputs = stage(f"{loaded.inputs_from}()", loaded.inputs)
        recipes.read = False
        numbers.remember(model, recipes)
        _check_tensors(loaded, inputs)
        start = State(model)
        with chance.outside_of_torch(source, line_of(loaded.cls.forward) or 1):
            result = stage("forward", lambda: model(*inputs), calls_data=True)
        _check_result(loaded, result)
        copies = [v.clone() if isinstance(v, torch.Tensor) else v for v in inputs]  # a module may keep an input

        def again() -> None:
            values = results.split(stage("forward", lambda: model(*copies), calls_data=True))[1]
            if values != results.split(result)[1]:
                reason = "forward returns other plain values at each call; return them as tensors, or leave them out."
                raise Bad("not_a_tensor", reason, forward_return_line(loaded))

        every = state.every_call(model, start, again)
    with values():
        graph, by = _graph_of_every_call(model, inputs, fake, every, recipes)
    if chance.may_change(source):
        traced = functools.partial(_traced, model, inputs, fake, lambda read: (read.graph(), read.constants()))
        chance.refuse_change(traced()[0], lambda: traced()[0])
    if mixed := mixed_product(graph):
        raise Bad("module_raised", *mixed)
    if not graph["ops"]:
        raise Bad(
            "nothing_computed", "The module computes nothing: its outputs are its inputs.", forward_return_line(loaded)
        )
    return {
        "graph": graph,
        "title": _summary(graph, loaded.cls.__name__),
        "has": {
            "class": loaded.cls.__name__,
            "inputs_from": loaded.inputs_from,
            "init_inputs": "get_init_inputs" in loaded.namespace,
            "fake": fake,
            "by": by,
            "values": _plain_values(inputs),
            "in_training": in_training(model),
            **remarks.every(),
            "torch": torch.__version__,
        },
    }


def _plain_values(inputs: tuple[Any, ...]) -> str:
    """The arguments that are no tensors, whose values the graph holds, as a JSON list; "" if one is no plain value."""
    import torch
    from torch.utils._pytree import tree_leaves

    values = [v for v in tree_leaves(inputs) if not isinstance(v, torch.Tensor)]
    plain = all(isinstance(v, (bool, int, float, str, type(None))) for v in values)
    return json.dumps(values) if plain else ""


@contextlib.contextmanager
def _pretending(recipes: Recipes) -> Iterator[None]:
    """Fake tensors whose values can be made later."""
    with fake_tensors(), recipes:
        yield


def _graph_of_every_call(
    model: Any, inputs: tuple[Any, ...], fake: bool, every: state.EveryCall, recipes: Recipes
) -> tuple[dict, str]:
    """The graph, with the tensor attributes that it reads and calls change as buffers, and the name of its tracer.
    Raises Bad if later calls compute something else."""
    left = set(every.tensors)
    while True:  # the new value of one may be the old value of another, which the graph reads only then
        try:
            graph, by = _graph(model, inputs, fake, recipes)
            read = left & {t["path"] for t in graph["tensors"] if t["kind"] == "constant"}
        except Bad as e:
            # torch.export takes such a tensor for a constant; with a fake one it then fails in several ways.
            if e.code not in ("changed_constant", "cannot_trace") or not left:
                raise
            read = left
        if not read:
            break
        if resized := sorted(read & set(every.resized)):
            raise state.refuse_resized(resized[0], *every.resized[resized[0]])
        state.promote(model, read)
        left -= read
    if every.others:
        import torch

        paths = {t["path"] for t in graph["tensors"] if t["kind"] == "constant"}
        if state.reads(model, paths, every.others):
            raise state.refuse(every.others)
        with torch.no_grad(), fake_tensors() if fake else contextlib.nullcontext():
            stage("forward", lambda: model(*inputs), calls_data=True)
        if _graph(model, inputs, fake, recipes)[0] != graph:
            raise state.refuse(every.others)
    return {**graph, "settled": every.settled}, by


def _graph(model: Any, inputs: tuple[Any, ...], fake: bool, recipes: Recipes) -> tuple[dict, str]:
    """The graph and the name of its tracer."""

    def values(path: str) -> Any:
        try:
            return recipes.value(functools.reduce(getattr, path.split("."), model))
        except AttributeError:
            return None  # a literal in forward

    return _traced(model, inputs, fake, capture.Capture.graph, values)


def constants(model: Any, inputs: tuple[Any, ...]) -> dict[str, Any]:
    """The tensors that only the graph names (engine.trace.capture.Capture.constants), of a module that is not fake.
    Raises Bad."""
    return _traced(model, inputs, False, capture.Capture.constants)[0]


def _traced(
    model: Any,
    inputs: tuple[Any, ...],
    fake: bool,
    read: Callable[[capture.Capture], Any],
    values: Callable[[str], Any] | None = None,
) -> tuple[Any, str]:
    """What `read` gives for the capture of torch.export or, if that fails and fx works, of torch.fx."""
    try:
        program = _exported(model, inputs)
        return read(capture.Capture(program, values, sizes.of_one_call(program, inputs))), "torch.export"
    except Bad as e:
        if e.code not in ("not_covered", "cannot_trace") or e.of_device:
            raise
        try:
            with fake_tensors() if fake else contextlib.nullcontext():
                return read(capture.Capture(fx.record(model, inputs), values)), "torch.fx"
        except Exception:
            raise e from None


def _exported(model: Any, inputs: tuple[Any, ...]) -> Any:
    try:
        program = exported.export(model, inputs)
        choices.check(program, model, inputs)
    except Exception as e:
        if data_dependent(e):
            raise explain(e, "forward") from None
        if constant := _MUTATED.search(str(e)):
            raise Bad("changed_constant", f"forward changes the tensor {constant[1]} in place.") from None
        why = explain(e, "torch.export")
        if why.code in ("not_covered", "leaves_torch"):
            raise why from None
        raise Bad("cannot_trace", f"PyTorch cannot export this module: {why.reason}", why.line) from None
    placeholders = program.graph_signature.user_inputs
    if exported.twins(inputs) and any(path in placeholders for _, path in exported.writes(program)):
        reason = "forward writes an input, and one tensor is given for two: give a copy of it, such as x.clone()."
        raise Bad("bad_inputs", reason)
    return program


def stage(doing: str, what: Any, calls_data: bool = False) -> Any:
    """Call `what` and turn any exception of the pasted text into a Bad with its line."""
    try:
        return what()
    except (Bad, Blocked) as e:
        raise explain(e, doing) from None
    except BaseException as e:
        bad = explain(e, doing)
        # Outside forward the text may read values. Fake tensors have none, so the next attempt uses real ones.
        if bad.code == "data_dependent" and not calls_data:
            bad = Bad("needs_values", bad.reason, bad.line)
        raise bad from None


def _check_tensors(loaded: Loaded, inputs: tuple[Any, ...]) -> None:
    import torch

    for i, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.layout != torch.strided:
            reason = f"Input {i + 1} of {loaded.inputs_from} is a sparse tensor; give a dense one: .to_dense()."
            raise Bad("bad_inputs", reason, line_of(loaded.namespace.get(loaded.inputs_from)))


def _check_result(loaded: Loaded, result: Any) -> None:
    if why := results.why_not(result):
        raise Bad("not_a_tensor", f"forward returns {why}", forward_return_line(loaded))


def forward_return_line(loaded: Loaded) -> int | None:
    """The line of the last `return` in forward, or of its `def`."""
    import ast
    import linecache

    from engine.sandbox.channel import PASTED

    tree = ast.parse("".join(linecache.getlines(PASTED)))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == loaded.cls.__name__:
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name == "forward":
                    returns = [n.lineno for n in ast.walk(item) if isinstance(n, ast.Return)]
                    return max(returns, default=item.lineno)
    return None


def _summary(graph: dict, cls: str) -> str:
    """A title from the operations: `linear 8192x8192, mul, leaky_relu on 1,024 rows`, after the name of a class that is
    not called Model. A docstring gives none: its sizes may be those of an earlier text."""
    shapes = {t["name"]: t["shape"] for t in graph["tensors"]}
    words: list[str] = []
    for module, run in itertools.groupby(graph["ops"], key=lambda op: op["module"]):
        ops = list(run)
        whole = module and any(op["op"].replace("_", "") not in module.lower() for op in ops)
        # nn.LSTM and nn.MultiheadAttention are named as modules, since their first operations only make zeros.
        words += [module] if whole else [_word(op, shapes) for op in ops]
    rows = shapes[graph["inputs"][0]][0] if graph["inputs"] and shapes[graph["inputs"][0]] else 0
    more = f" and {len(words) - 5} more operations" if len(words) > 5 else ""
    name = "" if cls == "Model" or len(cls) > LONGEST_NAME else f"{cls}: "
    return name + ", ".join(words[:5]) + more + (f" on {rows:,} rows" if rows > 1 else "")


def _word(op: dict, shapes: dict[str, list[int]]) -> str:
    sizes = [shapes[i] for i in op["inputs"]]
    if op["op"] == "linear" and len(sizes) > 1 and len(sizes[1]) == 2:
        return f"linear {sizes[1][1]}x{sizes[1][0]}"
    if op["op"] in ("matmul", "mm", "bmm", "addmm", "baddbmm") and len(sizes) > 1:
        return f"{op['op']} {' @ '.join('x'.join(map(str, s)) for s in sizes[-2:])}"
    return op["op"].rstrip("_")
