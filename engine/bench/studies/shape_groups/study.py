"""The sessions of one problem over its shapes, and the row that they come to."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from engine.bench.studies.shape_groups import folds, rows
from engine.bench.studies.shape_groups.copies import Copies
from engine.bench.studies.shape_groups.rivals import Rivals
from engine.bench.studies.shape_groups.rows import words
from engine.bench.studies.shape_groups.saved import Saved
from engine.llm import handler, settings
from engine.session import events
from engine.session.runner import run
from engine.session.spec import SessionSpec
from engine.strategies.problem import Prepared
from engine.suite.shape_groups import Shape, ShapeGroup
from sol.hardware import Hardware

Key = TypeVar("Key")
Write = Callable[[dict[str, Any]], None]
ARMS = ("own", "direct")  # that know one shape alone
CANDIDATES = 8  # configurations that may become the general one, at most


@dataclass(frozen=True)
class Study:
    """`form`: program | kernel; `trials`: of each session; `at_once`: sessions side by side; `candidates`: see
    CANDIDATES."""

    device: str
    form: str
    trials: int
    at_once: int
    seed: int
    models: settings.Settings
    hardware: Hardware
    compiled: bool = False
    sessions: Saved = field(default_factory=Saved)
    copies: Copies = field(default_factory=lambda: Copies(_untimed))
    candidates: int = CANDIDATES
    rivals: Rivals = field(default_factory=Rivals)

    def session(self, group: ShapeGroup, shape: Shape, cls: str, strategy: str, **options: Any) -> dict[str, Any]:
        """One session, played now or before; in kernel form the naive source is the owner's first trial, but where
        everything is preset."""
        name = f"{group.name} {cls} {words(shape)} {strategy} {events.blob_name(json.dumps(options))[:8]}"
        return self.sessions.once(name, lambda: self._play(group, shape, cls, strategy, options))

    def _play(
        self, group: ShapeGroup, shape: Shape, cls: str, strategy: str, options: dict[str, Any]
    ) -> dict[str, Any]:
        spec = SessionSpec(
            title=f"{group.name} {words(shape)}, {strategy}", source=group.module(shape, cls), strategy=strategy,
            options={"form": self.form, **options}, device=self.device, classes=(cls,), trials=self.trials, eps=0.0,
            window=self.trials, seed=self.seed, compile=self.compiled,
        )  # fmt: skip
        naive = {
            "program": group.naive(),
            "form": "kernel",
            "language": "cuda",
            "cls": cls,
            "change": "the naive source",
        }
        own = [("try", naive)] if self.form == "kernel" and "preset" not in options else []
        began = time.monotonic()
        log = [
            emitted.event
            for emitted in run(
                spec, device=self.device, local_user=True, teaches=False, memory="", control=_once(own),
                handlers=handler.handlers(self.models),
            )
        ]  # fmt: skip
        return {**folds.session_of(log, self.hardware), "seconds": round(time.monotonic() - began, 1)}

    def tuned(self, group: ShapeGroup, shape: Shape, cls: str) -> dict[str, Any]:
        options = {"rounds": 1, "evaluations": self.trials}
        return self.session(group, shape, cls, "two_stage", **options)

    def preset(
        self, group: ShapeGroup, shape: Shape, cls: str, template: dict[str, Any] | None, listed: Sequence[dict]
    ) -> dict[str, Any]:
        """The configurations of another session. A program's text holds its shape, so each session writes its own."""
        shared = template if self.form == "kernel" else None
        text = json.dumps({"template": shared, "configurations": list(listed)})
        return self.session(group, shape, cls, "two_stage", rounds=1, preset=text)

    def direct(self, group: ShapeGroup, shape: Shape, cls: str) -> dict[str, Any]:
        return self.session(group, shape, cls, "chain", attempts=self.trials)

    def over(self, keys: Iterable[Key], one: Callable[[Key], dict[str, Any]]) -> dict[Key, dict[str, Any]]:
        """The session of each, `at_once` side by side."""
        keys = list(keys)
        with ThreadPoolExecutor(self.at_once) as pool:
            return dict(zip(keys, pool.map(one, keys), strict=True))


class Row:
    """The row of one problem in one class, written after each shape. `write(row)` stores it as it is; `rewritten`: the
    shapes that are rewritten directly, None for all."""

    def __init__(
        self, study: Study, group: ShapeGroup, cls: str, write: Write, rewritten: Collection[Shape] | None = None
    ):
        self.study, self.group, self.cls, self._write, self._rewritten = study, group, cls, write, rewritten
        self.shapes: dict[Shape, dict[str, Any]] = {}
        self.row: dict[str, Any] = {
            "problem": group.name, "cls": cls, "general": None, "shapes": [], "why": "", "ended": False,
        }  # fmt: skip

    def run(self, say: Callable[[str], None]) -> dict[str, Any]:
        """Every arm at every shape: first all but the general configuration, shape by shape."""
        study, group, cls = self.study, self.group, self.cls
        self.row["why"] = why_not(study, group, cls)
        if not self.row["why"]:
            shapes = (*group.tuned, *group.unseen)
            together = max(1, study.at_once // len(ARMS))
            for place in range(0, len(shapes), together):
                self._alone(some := shapes[place : place + together])
                names = ", ".join(map(words, some))
                say(f"{group.name} {cls} {names}: one configuration and direct rewriting have ended")
            self._general()
            say(f"{group.name} {cls}: the general configuration is at every shape")
        self.row["ended"] = True
        self._write(self.row)
        return self.row

    def _alone(self, shapes: Sequence[Shape]) -> None:
        """The arms that know one shape alone; then the copies and torch.compile, with nothing beside them on a warm
        machine."""
        study, group, cls = self.study, self.group, self.cls
        arms = {"own": study.tuned, "direct": study.direct}
        rewritten = self._rewritten
        keys = [(s, arm) for s in shapes for arm in ARMS if arm == "own" or rewritten is None or s in rewritten]
        ended = study.over(keys, lambda key: arms[key[1]](group, key[0], cls))
        for shape in shapes:
            self._put(shape, **{arm: ended[key] for arm in ARMS if (key := (shape, arm)) in ended})
        for shape in shapes:
            source = group.module(shape, cls)
            self._put(shape, copy=study.copies.of(source))
            self._put(shape, rival=study.rivals.of(source, group.naive(), cls))

    def _general(self) -> None:
        """Choose the general configuration over the tuned shapes, and time it at the unseen ones."""
        study, group, cls = self.study, self.group, self.cls
        own = [self.shapes[s]["own"] for s in group.tuned]
        template = next((session["template"] for session in own if session["template"]), None)
        listed = folds.candidates(own, study.candidates)
        sessions = {}
        if listed:
            sessions = study.over(group.tuned, lambda shape: study.preset(group, shape, cls, template, listed))
        chosen = folds.general([sessions[s] for s in group.tuned]) if sessions else None
        if chosen is None:
            self.row["why"] = "no configuration has a time at every tuned shape"
            return
        settings_, over_own_best = chosen
        self.row["general"] = {
            "settings": settings_, "over_own_best": over_own_best, "of": len(listed), "template": template,
        }  # fmt: skip
        for shape in group.tuned:
            self._put(shape, general=_at(sessions[shape], settings_))
        unseen = study.over(group.unseen, lambda shape: study.preset(group, shape, cls, template, [settings_]))
        for shape in group.unseen:
            self._put(shape, general=_at(unseen[shape], settings_))

    def _put(self, shape: Shape, **results: Any) -> None:
        """Add results of a shape, and write the row with its means so far."""
        old = self.shapes.get(shape)
        new = old or {
            "shape": list(shape), "tuned": shape in self.group.tuned, "copy": None, "rival": None, "own": None,
            "direct": None, "general": None,
        }  # fmt: skip
        self.shapes[shape] = rows.with_shares(new | results)
        self.row["shapes"] = list(self.shapes.values())
        self.row["summary"] = rows.summary(self.row)
        self._write(self.row)


def why_not(study: Study, group: ShapeGroup, cls: str) -> str:
    """Why this problem is left out; "" if it runs. As a program it must be one of the language."""
    if study.form == "kernel":
        return ""
    from engine.devices import Problem
    from engine.trace import trace

    source = group.module(group.tuned[0], cls)
    prepared = Prepared(Problem(source, "module", trace(source, local_user=True).graph), (cls,), study.hardware)
    return "" if prepared.parts else f"no program of the language: {prepared.refusal.reason}"


def _at(session: dict[str, Any], chosen: dict[str, int | str]) -> dict[str, Any] | None:
    """A configuration's times in a session."""
    key = folds.key_of(chosen)
    return next((r for r in session["configurations"] if folds.key_of(r["settings"]) == key), None)


def _once(commands: list) -> Callable[[], list]:
    """The owner's commands, once."""
    waiting = list(commands)

    def control() -> list:
        now = list(waiting)
        waiting.clear()
        return now

    return control


def _untimed(moved: int) -> dict[str, Any]:
    return {"bytes": moved, "ms": None, "why": "no copy was asked for"}
