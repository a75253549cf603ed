"""The engine process, the only link between the database and engine.session.runner."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from engine import cores, descriptors, sandbox, trace
from engine.devices import SessionRefused, registry
from engine.executors.local import cores_here, tracers
from engine.llm import handler, module_writer
from engine.llm.settings import BadSettings
from engine.llm.visitor import Postbox, VisitorsModels
from engine.session import runner
from engine.session.spec import device_error
from engine.strategies.planner import memory
from playground import conf, engines, retention
from playground.adapter import Adapter
from playground.live.desk import Desk
from playground.reading import modules
from sol.hardware import HardwareError

logger = logging.getLogger("playground.engine")
FALLBACK = "modelled:h200"
SWEEP_EVERY = 3600.0  # seconds
MOST_GRAPH = 1 << 20  # characters


class Command(BaseCommand):
    help = "Take queued sessions and run them, side by side if no GPU is measured. SIGTERM ends it cleanly."
    requires_system_checks = ()  # they import every page, a second of a core

    def add_arguments(self, parser) -> None:
        parser.add_argument("--device", default=conf.get("UCUTLASS_DEVICE"), help="auto, cuda, or modelled:h200")
        parser.add_argument("--once", action="store_true", help="end when no session waits")

    def handle(self, *, device: str, once: bool, **options) -> None:
        descriptors.allow_many()  # each session's processes have several
        try:
            models = handler.of_environment()
        except BadSettings as e:
            raise CommandError(str(e), returncode=engines.CANNOT) from None
        serves, about = self._open(device)
        about["device"] |= {"model": models.describe(), "words": models.describe(module_writer.ROLE)}

        def run(spec: dict[str, Any], *, postbox: Postbox | None = None, **more: Any) -> Iterator[Any]:
            if postbox is not None:
                answers = {"ask": VisitorsModels(models, spec["endpoint"], spec["model"], postbox)}
            else:
                share = more.get("share")
                answers = handler.handlers(models, address=share.address if share is not None else "")
            return runner.run(spec, handlers=answers, **more)

        def write(text: str, address: str, cancelled: Callable[[], bool]) -> dict[str, Any]:
            return module_writer.write(handler.Models(models, address=address), text, cancelled).to_json()

        name = about["device"].get("title") or about["device"].get("name")
        logger.info("engine on %s (%s), sandbox %s", name, about["device"]["kind"], about["sandbox"])
        if (worth := cores.worth()) is not None:
            logger.info("its %d cores do together what %d do alone", cores_here(), worth)
        threading.Thread(target=_sweep, name="retention", daemon=True).start()
        desks = [] if models.why_not(module_writer.ROLE) else [lambda engine_id: Desk(engine_id, write)]
        desks.append(lambda engine_id: Desk(engine_id, _trace, "module", modules.AT_ONCE, modules.EVERY))
        Adapter(run, serves=serves, about=about, warm=lambda: _warm(serves), desks=desks).serve(once=once)

    @staticmethod
    def _open(wanted: str) -> tuple[str, dict]:
        """What this engine serves and its description; `auto` is the GPU if one can be used."""
        if wanted != "auto" and (wrong := device_error(wanted)):
            raise CommandError(f"{wrong}.", returncode=engines.CANNOT)
        reasons = []
        for name in ("cuda", FALLBACK) if wanted == "auto" else (wanted,):
            try:
                device = registry.get(name)
                facts = {**device.describe(), "kind": device.kind, "hardware": device.hardware}
                facts.setdefault("name", device.name)
                break
            except (SessionRefused, HardwareError, ImportError) as e:
                reasons.append(f"{name}: {e}")
        else:
            raise CommandError("No device to run on. " + " ".join(reasons), returncode=engines.CANNOT)
        if reasons:
            logger.info("no GPU to measure on (%s); times will be predictions", "; ".join(reasons))
        strength = sandbox.confine.strength(gpu=name == "cuda")
        toolchain = str(facts.pop("toolchain", "") or "")
        return name, {"device": facts, "sandbox": strength[:200], "toolchain": toolchain[:200]}


def _trace(text: str, address: str, cancelled: Callable[[], bool]) -> dict[str, Any]:
    """The graph of a module that somebody types, or the mistake."""
    try:
        traced = trace.trace(text, cancelled=cancelled)
    except SessionRefused as e:
        return {"reason": e.reason, "code": e.code, "line": e.line}
    graph = traced.graph.to_json()
    if len(graph) > MOST_GRAPH:
        return {
            "reason": "This module has too many operations for a report while you type. Run shows it.",
            "code": "too_large",
        }
    return {"graph": graph, "title": traced.title, "seconds": traced.seconds}


def _warm(name: str) -> None:
    """Prepare in advance, so that nobody waits: torch in the sandbox that traces, CuTe in the worker that compiles, and
    what is known of the GPU."""
    try:
        trace.warm(many=tracers())
        devices = import_module("engine.devices.cuda" if name == "cuda" else "engine.devices.offline")
        ahead = getattr(devices, "warm", None)
        if ahead is not None:
            ahead()
        if name == "cuda":
            gpu = devices.least_used()
            memory.committed(gpu.hardware, gpu.hw.sms)
    except SessionRefused as e:
        logger.warning("%s", e)  # no sandbox: pasted modules will be refused with this reason
    except Exception:
        logger.exception("preparing ahead failed; sessions start more slowly")


def _sweep() -> None:
    while True:
        try:
            sessions, texts = retention.sweep()
            if sessions or texts:
                logger.info("retention: %d sessions and %d texts deleted", sessions, texts)
        except Exception:
            logger.exception("retention failed; it runs again later")
        connection.close()  # a connection may break within an hour
        time.sleep(SWEEP_EVERY)
