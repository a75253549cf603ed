"""The cells of a comparison, played in this process or in several.

With the rehearsal on a modelled device, workers are processes of their own, because most of a session is Python of one
core. A worker keeps to one problem while it has cells left, so that the problem's processes stay warm. On a GPU, and
with a real model (whose key leaves this process for nobody), sessions run here, one after the other.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine import jsonprocess, start
from engine.bench.compare import models, order, row
from engine.bench.compare.play import Playing
from engine.bench.compare.request import Cell, Request, of_settings
from engine.bench.compare.sharing import Shared
from engine.devices import registry as devices
from engine.llm.settings import Settings
from engine.session import events

UNIT_SECONDS = 3600.0  # for the sessions of one unit in a worker
NO_COMPILERS = {"UCUTLASS_COMPILERS": "none"}  # of a modelled device: a compiler changes no time there


class Room:
    """What the sessions of one process share. `store`: of verified programs (engine.bench.compare.sharing)."""

    def __init__(self, request: Request, settings: Settings, store: Path | None = None):
        self.request, self.settings = request, settings
        _, _, hardware = request.device.partition(":")
        self.shared = Shared(hardware or "h200", store) if request.device.startswith("modelled") else None

    def play(self, unit: Sequence[Cell], lessons: dict[str, str]) -> list[dict[str, Any]]:
        """The rows of cells that are played together. `lessons`: cell key -> the memory of its session."""
        request = self.request
        playing = [self._playing(cell, lessons.get(cell.key, "")) for cell in unit]
        turns: list[str] = []
        try:
            if request.order == "each":
                for p in playing:
                    while p.step():
                        continue
            else:
                many = len(request.problems)
                turns = order.spend(
                    playing, many * request.trials, many * request.tokens, request.order, request.eps,
                    request.window or request.most_trials,
                )  # fmt: skip
            rows = [self._row(p) for p in playing]
            if turns:
                rows[0]["turns_of"] = turns
            return rows
        finally:
            for p in playing:
                p.close()

    def close(self) -> None:
        if self.shared is not None:
            self.shared.close()

    def _playing(self, cell: Cell, memory: str) -> Playing:
        r = self.request
        device = self.shared.device() if self.shared is not None else devices.get(r.device, local_user=True)
        tokens = r.tokens if r.order == "each" else r.tokens * len(r.problems)
        skill = (1.0 if cell.skill is None else cell.skill) if r.rehearsed else None
        return Playing(
            cell, r.spec(cell), device, models.handlers(self.settings, tokens, skill, cell.seed), r.most_trials,
            memory, self.shared.trace if self.shared is not None else None,
        )  # fmt: skip

    def _row(self, p: Playing) -> dict[str, Any]:
        cell, arm = p.cell, self.request.arm(p.cell.arm)
        about = {
            "arm": cell.arm, "strategy": arm.strategy, "problem": cell.problem, "skill": cell.skill, "seed": cell.seed,
        }  # fmt: skip
        would = getattr(getattr(p.device, "machine", None), "would", {})
        used, so_far = [], 0
        for e in p.emitted:
            if isinstance(e.event, events.TrialProposed) and e.event.by == "strategy":
                so_far += 1
            elif isinstance(e.event, events.Screened) and p.device.screens:
                so_far += len(e.event.quick)
            used.append(so_far)
        return row.row_of(about, self.request.cls, p.emitted, used, would, p.lesson)


def here(
    request: Request, settings: Settings, units: Sequence[list[Cell]], lessons: Callable[[Cell], str],
    put: Callable[[list[dict[str, Any]]], None], stop: threading.Event, store: Path | None,
) -> None:  # fmt: skip
    """Play the units in this process."""
    room = Room(request, settings, store)
    try:
        for unit in units:
            if stop.is_set():
                return
            put(room.play(unit, {cell.key: lessons(cell) for cell in unit}))
    finally:
        room.close()


def apart(
    request: Request, units: Sequence[list[Cell]], lessons: Callable[[Cell], str],
    put: Callable[[list[dict[str, Any]]], None], stop: threading.Event, store: Path | None, jobs: int,
) -> None:  # fmt: skip
    """Play the units in `jobs` processes. Raises WorkerLost for one that was lost twice."""
    waiting, lock, errors = list(units), threading.Lock(), []
    broken = threading.Event()

    def over() -> bool:
        return stop.is_set() or broken.is_set()

    results: queue.Queue[list[dict[str, Any]] | None] = queue.Queue()

    def take(problem: str, others: Sequence[str]) -> list[Cell] | None:
        with lock:
            mine = [u for u in waiting if u[0].problem == problem]
            fresh = [u for u in waiting if u[0].problem not in others]
            chosen = next(iter(mine or fresh or waiting), None)
            if chosen is not None:
                waiting.remove(chosen)
            return chosen

    at: dict[int, str] = {}

    def work(number: int) -> None:
        process, problem = None, ""
        try:
            while not over() and (unit := take(problem, [p for n, p in at.items() if n != number])) is not None:
                problem = at[number] = unit[0].problem
                message = {
                    "op": "play", "request": request.settings, "folder": str(request.folder),
                    "store": str(store) if store is not None else "",
                    "cells": [[c.arm, c.problem, c.skill, c.seed] for c in unit],
                    "lessons": {c.key: lessons(c) for c in unit},
                }  # fmt: skip
                for again in (True, False):
                    process = process if process is not None and process.alive else _worker()
                    try:
                        answer = process.request(message, timeout=UNIT_SECONDS, cancelled=over)
                        break
                    except jsonprocess.WorkerLost as e:
                        if over():
                            return
                        if e.why != "died" or not again:
                            raise
                if "error" in answer:
                    raise RuntimeError(f"{unit[0].key}: {answer['error']}: {answer['message']}")
                results.put(answer["rows"])
        except BaseException as e:
            errors.append(e)
            broken.set()
        finally:
            if process is not None:
                process.close()
            results.put(None)

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(jobs)]
    for thread in threads:
        thread.start()
    running = len(threads)
    try:
        while running:
            rows = results.get()
            if rows is None:
                running -= 1
            else:
                put(rows)
    finally:
        broken.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def _worker() -> jsonprocess.JsonProcess:
    env = {**NO_COMPILERS, **os.environ, "PYTHONPATH": jsonprocess.python_path()}
    return jsonprocess.JsonProcess(start.command(__name__), env=env, name="process that plays sessions")


_rooms: dict[str, Room] = {}  # of a worker: one


def _play(message: dict[str, Any]) -> dict[str, Any]:
    key = json.dumps([message["request"], message["folder"], message["store"]])
    if key not in _rooms:
        import tempfile

        for room in _rooms.values():
            room.close()
        _rooms.clear()
        folder = Path(tempfile.mkdtemp(prefix="ucutlass-compare-"))
        request = of_settings(message["request"], Path(message["folder"]))
        _rooms[key] = Room(request, models.rehearsal(folder), Path(message["store"]) if message["store"] else None)
    return {"rows": _rooms[key].play([Cell(*c) for c in message["cells"]], message["lessons"])}


def main() -> None:
    """A worker."""
    try:
        jsonprocess.serve({"play": _play})
    finally:
        for room in _rooms.values():
            room.close()
