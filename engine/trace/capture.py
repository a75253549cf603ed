"""Turn an exported program into an op graph: ATen ops one to one, not decomposed.

Composite operations (`linear`, `gelu`, `layer_norm`) are kept, because lowering needs them. In-place ops become
functional. Ops that compute nothing (dropout in eval mode, detach, a cast to the same type) are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from engine.sandbox.channel import PASTED
from engine.trace import chance, exported
from engine.trace.explain import depends_on_values, quoted
from engine.trace.load import Bad
from engine.trace.names import aliases, foreign, padding, spellings
from engine.trace.strided import Step, as_views
from engine.trace.values import counts, empty, equal, masks, sizes
from engine.trace.values.plain import dtype_names, plain

MAX_OPS = 5000
_LINE = re.compile(rf'File "{re.escape(PASTED)}", line (\d+)')
_ALWAYS_NOTHING = {"detach", "detach_", "alias", "lift_fresh", "lift_fresh_copy", "lift"}
# These compute nothing if type, shape and layout stay the same; `x.T.contiguous()` is a copy.
_NOTHING_WHEN_SAME = {"to", "_to_copy", "type_as", "contiguous", "clone", "float", "half", "expand_as"}
_FILLED = ("f64", "f32", "f16", "bf16", "e4m3", "e5m2", "c64", "c128")  # other values are drawn for them
_DROPOUTS = {"dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "native_dropout"}


def _module(node: Any) -> str:
    """The outermost torch.nn module around a node, without containers, by its class name in the pasted text."""
    for _, kind in (node.meta.get("nn_module_stack") or {}).values():
        place, _, name = (kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}").rpartition(".")
        if place.startswith("torch.nn.") and place != "torch.nn.modules.container":
            return name[:80]
    return ""


class Capture:
    """Convert one exported graph. `graph()` returns the JSON form that sol.graph.OpGraph.from_json reads. `values`:
    path of a buffer or constant -> its real tensor, or None. `known`: symbol of a size that depends on values -> its
    value in a call."""

    def __init__(
        self, program: Any, values: Callable[[str], Any] | None = None, known: dict[Any, int] | None = None
    ):  # fmt: skip
        self.program, self.values, self.known = program, values, known or {}
        self.nodes: dict[str, Any] = {}  # operation -> its fx node
        self.dtypes = dtype_names()
        self.tensors: dict[str, dict] = {}
        self.ops: list[dict] = []
        self.names: dict[Any, Any] = {}  # fx node -> tensor name, or a tuple of names
        self.inputs: list[str] = []
        self.drawn: set[str] = set()  # operations that draw from PyTorch's generator
        self.module = program.graph_module  # whose nodes are read: the program's, or that of a block inside it

    def graph(self) -> dict:
        signature = self.program.graph_signature
        outputs, writes = list[str](), list[str]()
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, signature)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "get_attr":
                self._constant(node)
            elif node.op == "output":
                outputs, writes = self._results(node.args[0], signature)
        self._drop_unread(outputs)
        self.ops = list(aliases.plain(spellings.composites(self.ops, outputs), self.tensors))
        chance.refuse_chance(self.ops, self.drawn)
        constants = signature.inputs_to_buffers.keys() | signature.inputs_to_lifted_tensor_constants.keys()
        known = masks.Masks(self.program.graph, constants, self._known, self._loaded)
        ops = known.mark(self.ops, self.nodes, self.tensors, outputs)
        ops = equal.once(empty.without(ops, self.tensors, outputs), outputs)
        self.ops = padding.within(ops, self.tensors, outputs)
        self._drop_unread(outputs)
        read = {t for op in self.ops for t in op["inputs"]} | set(outputs) | set(self.inputs) | set(writes)
        written = {t for op in self.ops for t in op["outputs"]}
        tensors = [t for name, t in self.tensors.items() if name in read or name in written]
        return {"tensors": tensors, "ops": self.ops, "inputs": self.inputs, "outputs": outputs, "writes": writes}

    def _results(self, values: Any, signature: Any) -> tuple[list[str], list[str]]:
        """(what forward returns, then the new values of what it writes; the tensors that it writes)."""
        outputs, writes = [self._name(value) for value in exported.returned(values, signature)], []
        self._refuse_sizes(exported.returned(values, signature))
        places = {n.name: name for n, name in self.names.items() if n.op == "placeholder"}
        places |= {t["path"]: name for name, t in self.tensors.items() if t["path"]}
        for node, path in exported.writes(self.program):
            new, old = self._name(node), places[path]
            if new == old:
                continue  # its value is what it was
            if any(self.tensors[new][of] != self.tensors[old][of] for of in ("shape", "dtype")):
                new = self._copied(old, new, node)
            outputs.append(new)
            writes.append(old)
        return outputs, writes

    def _refuse_sizes(self, results: list[Any]) -> None:
        nodes = list(self.program.graph.nodes)
        kinds = {t["name"]: (t["kind"], t["dtype"]) for t in self.tensors.values()}
        filled = {
            n for n, name in self.names.items()
            if n.op == "placeholder" and kinds[name][0] in ("input", "parameter") and kinds[name][1] in _FILLED
        }  # fmt: skip
        for node in results:
            sizes.refuse_result(node, nodes, filled, self._line(node))

    def _copied(self, old: str, new: str, node: Any) -> str:
        """The value of `old` after `old.copy_(new)`, where PyTorch broadcasts or converts."""
        name, n = f"{old}_copied", 1
        while name in self.tensors:
            name, n = f"{old}_copied_{n}", n + 1
        self.tensors[name] = {**self.tensors[old], "name": name, "kind": "intermediate", "path": ""}
        self.ops.append({"name": name, "op": "copy", "inputs": [old, new], "outputs": [name],
                         "attrs": {"non_blocking": False}, "line": self._line(node), "module": ""})  # fmt: skip
        return name

    def _drop_unread(self, outputs: list[str]) -> None:
        """Remove ops whose results nothing reads, such as unused attention weights. All are functional here."""
        read, live = set(outputs), []
        for op in reversed(self.ops):
            if read.intersection(op["outputs"]):
                live.append(op)
                read.update(op["inputs"])
        written = {t for op in self.ops for t in op["outputs"]}
        self.ops = live[::-1]
        for name in written - {t for op in self.ops for t in op["outputs"]}:
            del self.tensors[name]

    def _known(self, node: Any) -> Any:
        """The tensor that a placeholder or constant is in every call, or None."""
        signature = self.program.graph_signature
        paths = signature.inputs_to_buffers | signature.inputs_to_lifted_tensor_constants
        path = paths.get(node.name) if node.op == "placeholder" else str(node.target)
        written = {path for _, path in exported.writes(self.program)}
        return None if path is None or path in written or self.values is None else self.values(path)

    def _loaded(self, node: Any) -> bool:
        """Return True but for a buffer that no state_dict replaces. (An attribute may be a state that begins at 0.)"""
        known = self.program.graph_signature
        return known.inputs_to_buffers.get(node.name) not in getattr(known, "non_persistent_buffers", ())

    def constants(self) -> dict[str, Any]:
        """The tensors that only the exported program names, by their paths: literals, and tensors in lists."""
        signature = self.program.graph_signature
        lifted = set(signature.inputs_to_lifted_tensor_constants.values())
        program = {n: t for n, t in getattr(self.program, "constants", {}).items() if n in lifted}
        nodes = [str(n.target) for n in self.program.graph.nodes if n.op == "get_attr"]
        return program | {n: getattr(self.program.graph_module, n, None) for n in nodes}

    # ---- tensors ----

    def _placeholder(self, node: Any, signature: Any) -> None:
        import torch

        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return  # a number or None among the inputs is an attribute of the ops that use it
        for kind, table in (
            ("parameter", signature.inputs_to_parameters),
            ("buffer", signature.inputs_to_buffers),
            ("constant", signature.inputs_to_lifted_tensor_constants),
        ):
            if node.name in table:
                path = table[node.name]
                self._tensor(node, re.sub(r"\W", "_", path), value, kind, path)
                return
        self._tensor(node, node.name, value, "input", "")
        self.inputs.append(self.names[node])

    def _constant(self, node: Any) -> None:
        import torch

        value = node.meta.get("val")
        if value is None:
            value = getattr(self.program.graph_module, str(node.target), None)
        if isinstance(value, torch.Tensor):
            self._tensor(node, str(node.target), value, "constant", str(node.target))

    def _tensor(self, node: Any, name: str, value: Any, kind: str, path: str) -> None:
        self.names[node] = self._add(name, value, kind, path, node)

    def _add(self, name: str, value: Any, kind: str, path: str, node: Any) -> str:
        name = name[:80] or "t"
        name, n = f"p_{name}" if name[0].isdigit() else name, 1  # of a Model that is an nn.Sequential itself
        base = name
        while name in self.tensors:
            name, n = f"{base}_{n}", n + 1
        import torch

        if value.layout != torch.strided:
            own_line = self._line(node)
            line = own_line or next((n for n in map(self._line, node.users) if n is not None), None)
            what = "makes a sparse tensor" if own_line else f"reads {path or name}, a sparse tensor"
            at, layout = quoted(line) if line else "The module", str(value.layout).removeprefix("torch.")
            reason = f"{at} {what} ({layout}); the engine supports dense tensors only: .to_dense()."
            raise Bad("not_covered", reason, line)
        dtype = self.dtypes.get(value.dtype)
        if dtype is None:
            line = self._line(node)
            at = f"{quoted(line)} makes" if line else f"The module's {kind} {path or name} is"
            known = ", ".join(str(d).removeprefix("torch.") for d in self.dtypes)
            raise Bad("element_type", f"{at} a tensor of {value.dtype}; the engine supports {known}.", line)
        try:
            shape = sizes.shape_in(self.known, value)
        except Exception:
            name = getattr(getattr(node.target, "_schema", None), "name", "").split("::")[-1]
            raise depends_on_values(name, self._line(node), "forward", resizes=True) from None
        self.tensors[name] = {"name": name, "shape": shape, "dtype": dtype, "kind": kind, "path": path}
        if sizes.varies(value):
            self.tensors[name]["varies"] = True
        elif strides := self._strides(value):
            self.tensors[name]["strides"] = strides
        return name

    def _name(self, node: Any) -> str:
        name = self.names.get(node)
        if isinstance(name, str):
            return name
        line, op = self._line(node), str(node.target).removeprefix("aten.").split(".")[0]
        if op in ("item", "_local_scalar_dense"):
            raise depends_on_values(op, line, "forward")
        at = quoted(line) if line else "The module"
        raise Bad("not_covered", f"{at} uses {op} in a way that the tracer does not follow; leave it out.", line)

    # ---- ops ----

    def _line(self, node: Any) -> int | None:
        lines = _LINE.findall(node.meta.get("stack_trace") or "")
        return int(lines[-1]) if lines else None

    def _line_within(self, node: Any) -> int | None:
        """The first line inside a node with a graph of its own (a `with` block)."""
        for value in node.args:
            inner = getattr(self.module, str(getattr(value, "target", "")), None)
            for inner_node in getattr(getattr(inner, "graph", None), "nodes", ()):
                line = self._line(inner_node)
                if line is not None:
                    return line
        return None

    def _call(self, node: Any) -> None:
        import operator

        import torch

        if node.target is operator.getitem:
            names = self.names.get(node.args[0])
            if isinstance(names, tuple):
                self.names[node] = names[node.args[1]]
            return
        value = node.meta.get("val")
        line = self._line(node)
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            name = foreign.name_of(node.target)
            if name == "set_grad_enabled" or (name == "autocast" and not node.args[2]):
                self._inline(node)
                return
            line = line or self._line_within(node)
            if getattr(node.target, "__module__", "") == "_operator" or "sym" in getattr(node.target, "__name__", ""):
                return  # arithmetic on a size that depends on values, which an operation may ask for
            raise foreign.refuse(foreign.construct(node.target), line, of_device=name == "autocast")
        library, _, op = schema.name.partition("::")
        if library != "aten":
            if not node.users and not schema.is_mutable:
                return  # what forward-mode derivatives look at for a type
            raise foreign.refuse(foreign.operator(library, op), line)
        tensors = (value,) if isinstance(value, torch.Tensor) else value
        if not isinstance(tensors, (list, tuple)) or not any(isinstance(t, torch.Tensor) for t in tensors):
            return  # asserts, for example, compute no tensor
        if (size := counts.range_of(node)) is not None:
            self._views(node, self._name(size.args[0]), counts.steps(size, whole=False), line, size.args[0])
            return
        inputs, attrs = self._arguments(node, schema)
        if op == "broadcast_tensors":
            self._broadcast(node, inputs, tensors, line)
            return
        if op == "as_strided" and (steps := as_views(node.args[0].meta["val"], *attrs.values())) is not None:
            self._views(node, inputs[0], steps, line)
            return
        if isinstance(value, torch.Tensor) and inputs and self._computes_nothing(op, attrs, inputs, value):
            self.names[node] = inputs[0]
            return
        if chance.random(node.target, attrs):
            self.drawn.add(node.name)
        self.nodes[node.name] = node
        if isinstance(value, torch.Tensor):
            outputs = (self._add(node.name, value, "intermediate", "", node),)
            self.names[node] = outputs[0]
        else:
            outputs = tuple(
                self._add(f"{node.name}_{i}", t, "intermediate", "", node)
                for i, t in enumerate(tensors)
                if isinstance(t, torch.Tensor)
            )
            self.names[node] = outputs
        op, attrs = sizes.spelled(op, attrs, value)
        self.ops.append(
            {"name": node.name, "op": op, "inputs": inputs, "outputs": list(outputs), "attrs": attrs, "line": line,
             "module": _module(node)}
        )  # fmt: skip
        if len(self.ops) > MAX_OPS:
            raise Bad("too_large", f"The module has more than {MAX_OPS} operations.", line)

    def _broadcast(self, node: Any, inputs: list[str], results: Any, line: int | None) -> None:
        """Write torch.broadcast_tensors, which every loss calls, as `expand` of the inputs whose shape it changes."""
        names = []
        for i, (name, result) in enumerate(zip(inputs, results, strict=True)):
            shape = sizes.shape_in(self.known, result)
            if shape != self.tensors[name]["shape"]:
                expand = f"{node.name}_{i}"
                attrs = {"size": shape, "implicit": False}
                read, name = name, self._add(expand, result, "intermediate", "", node)
                self.ops.append({"name": expand, "op": "expand", "inputs": [read], "outputs": [name], "attrs": attrs,
                                 "line": line, "module": _module(node)})  # fmt: skip
            names.append(name)
        self.names[node] = tuple(names)

    def _views(self, node: Any, name: str, steps: list[Step], line: int | None, source: Any = None) -> None:
        """Write an operation as a chain of views, or of other operations on one tensor: that of `source`, a node."""
        value = (source or node.args[0]).meta["val"]
        for i, (op, attrs, apply) in enumerate(steps):
            own = f"{node.name}_{i}"
            value = apply(value)
            read, name = name, self._add(own, value, "intermediate", "", node)
            self.ops.append({"name": own, "op": op, "inputs": [read], "outputs": [name], "attrs": attrs, "line": line,
                             "module": _module(node)})  # fmt: skip
        self.names[node] = name

    def _inline(self, node: Any) -> None:
        """Inline the graph of `with torch.enable_grad():`, or of autocast switched off, which computes the same without
        the block."""
        inner, *operands = node.args[next(i for i, a in enumerate(node.args) if getattr(a, "op", "") == "get_attr") :]
        outer, self.module = self.module, getattr(self.module, str(inner.target))
        arguments = iter(operands)
        for inner_node in self.module.graph.nodes:
            if inner_node.op == "placeholder":
                self.names[inner_node] = self.names[next(arguments)]
            elif inner_node.op == "call_function":
                self._call(inner_node)
            elif inner_node.op == "output":
                self.names[node] = tuple(self._name(value) for value in inner_node.args[0])
        self.module = outer

    def _computes_nothing(self, op: str, attrs: dict, inputs: list[str], value: Any) -> bool:
        if op in _ALWAYS_NOTHING:
            return True
        before = self.tensors[inputs[0]]
        same = before["dtype"] == self.dtypes.get(value.dtype) and before["shape"] == sizes.shape_in(self.known, value)
        if op in _DROPOUTS:
            return same and (attrs.get("train") is False or attrs.get("p") == 0)
        return same and op in _NOTHING_WHEN_SAME and self._strides(value) == before.get("strides", [])

    @staticmethod
    def _strides(value: Any) -> list[int]:
        """Strides in elements; an empty list if the tensor is contiguous."""
        return [] if value.is_contiguous() else [int(s) for s in value.stride()]

    def _arguments(self, node: Any, schema: Any) -> tuple[list[str], dict[str, Any]]:
        """Tensors in the schema's order, and every other argument by name, defaults filled in."""
        import torch.fx

        inputs: list[str] = []
        attrs: dict[str, Any] = {}
        for i, argument in enumerate(schema.arguments):
            if i < len(node.args) and not argument.kwarg_only:
                value = node.args[i]
            elif argument.name in node.kwargs:
                value = node.kwargs[argument.name]
            elif argument.has_default_value():
                value = argument.default_value
            else:
                continue
            if isinstance(value, torch.fx.Node):
                if "Generator" in str(argument.type):
                    raise chance.refuse_generator(schema.name.partition("::")[2], self._line(node))
                if counts.is_size(value) and "Tensor" in str(argument.type) and value not in self.names:
                    first = value.args[0]
                    self._views(value, self._name(first), counts.steps(value, whole=True), self._line(node), first)
                inputs.append(self._name(value))
            elif (sized := sizes.argument(schema.name, argument.name, value)) is not None:
                attrs[argument.name] = sized
            elif isinstance(value, (list, tuple)) and any(isinstance(v, torch.fx.Node) for v in value):
                inputs.extend(self._name(v) for v in value if isinstance(v, torch.fx.Node))
                lists = sum("List[" in str(a.type) and "Tensor" in str(a.type) for a in schema.arguments)
                if lists > 1 or not all(isinstance(v, torch.fx.Node) for v in value):
                    # Mark which entries are tensors and which are None: x[:, i] reads (None, i).
                    attrs[argument.name] = ["@" if isinstance(v, torch.fx.Node) else None for v in value]
            else:
                attrs[argument.name] = plain(value, self.dtypes)
        return inputs, attrs
