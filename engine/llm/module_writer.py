"""A model writes the PyTorch module of a description, for the tab Words of the playground.

    written = write(models, "attention with four heads", cancelled=stop.is_set)

The description is a stranger's and the reply is a model's. The reply is parsed and looked at here and never run: the
person confirms the module, and then it runs in the sandbox of a session, like any pasted text. A reply that is no such
module is asked for again with the mistake named, at most twice.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.llm.prompts import render
from engine.llm.replies import MOST_MODULE, Module
from engine.session.script.turns import Handler, Turn
from engine.strategies.api import Ask

ROLE = "words"  # UCUTLASS_MODEL_WORDS names its model
AGAIN = 2  # further turns after a reply that is no such module
IMPORTS = ("torch", "math", "typing")
AGAIN_FOR = ("schema", "empty", "too_long", "broken")  # refusals after which another turn may help


@dataclass(frozen=True)
class Written:
    """What came of a description. `module`: "" if there is none; then `reason` says why. `model`: as the endpoint
    returned it; `turns`: how often it was asked."""

    module: str = ""
    sentence: str = ""
    assumed: tuple[str, ...] = ()
    model: str = ""
    reason: str = ""
    turns: int = 0

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"assumed": list(self.assumed)}


def write(ask: Handler, description: str, cancelled: Callable[[], bool] = lambda: False) -> Written:
    """The module of a description. `ask`: answers one turn (engine.llm.handler.Models), within its budgets. Blocks, and
    raises nothing that a model can cause. `cancelled` must not block."""
    mistake, model, turn = "", "", 0
    for turn in range(1, 2 + AGAIN):
        prompt = render(ROLE, Module, description=description, most=MOST_MODULE, imports=IMPORTS, mistake=mistake)
        verb = Ask(ROLE, prompt, Module)
        reply = ask(verb, Turn(str(turn), cancelled))
        model = reply.model or model
        value, unread = verb.parsed(reply.text) if not reply.refusal else (None, reply.reason)
        if reply.refusal and reply.refusal not in AGAIN_FOR:
            return Written(model=model, reason=reply.reason, turns=turn)
        mistake = objection(value.module) if isinstance(value, Module) else unread
        if isinstance(value, Module) and not mistake:
            assumed = tuple(line for text in value.assumptions if (line := _line(text)))
            return Written(value.module, _line(value.sentence), assumed, model, turns=turn)
    return Written(model=model, reason=f"The model wrote no module that can be read. {mistake}".strip(), turns=turn)


def objection(text: str) -> str:
    """Why a text is no module in the form that a session takes (engine.trace.load), in one line, or ""."""
    try:
        tree = ast.parse(text)
    except SyntaxError as e:
        return f"Line {e.lineno or 1} of the module is no Python: {e.msg}."
    except (ValueError, MemoryError, RecursionError):
        return "The module is no Python that can be read."
    for node in ast.walk(tree):
        if outside := _outside(node):
            return f"Line {node.lineno} imports {outside}: import {', '.join(IMPORTS)} and nothing else."
    top = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    model, inputs, init = top.get("Model"), top.get("get_inputs"), top.get("get_init_inputs")
    if not isinstance(model, ast.ClassDef) or not model.bases:
        return "The module has no `class Model(nn.Module)` at its top level."
    methods = {n.name: n for n in model.body if isinstance(n, ast.FunctionDef)}
    if "forward" not in methods:
        return "`Model` has no method `forward`."
    if not isinstance(inputs, ast.FunctionDef) or _required(inputs):
        return "The module has no `def get_inputs()` without arguments at its top level."
    if init is not None and (not isinstance(init, ast.FunctionDef) or _required(init)):
        return "`get_init_inputs` must be a function without arguments."
    if init is None and "__init__" in methods and _required(methods["__init__"]) > 1:
        return "`Model` takes arguments, and there is no `def get_init_inputs()` that returns them."
    return ""


def _outside(node: ast.AST) -> str:
    """The first package that a statement imports and that is not among IMPORTS, or ""."""
    names = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or "." * node.level]
    return next((n for n in names if n.partition(".")[0] not in (*IMPORTS, "__future__")), "")


def _required(function: ast.FunctionDef) -> int:
    """Arguments of a function that have no default."""
    a = function.args
    return len(a.posonlyargs) + len(a.args) - len(a.defaults) + sum(d is None for d in a.kw_defaults)


def _line(text: str) -> str:
    return " ".join(text.split())
