"""Prepare the next problem of a bench while this one is on the GPU: trace it, plan it, build its first programs.

It works one problem ahead, in one thread. The session that follows traces and plans again, which takes a few seconds,
and finds the builds in the cache, which would take minutes. Failures here do not matter, because the session reports
them again.
"""

from __future__ import annotations

import logging
import threading

from dsl.check.program import check
from dsl.compile import compile as generate
from engine.devices import Problem, SessionRefused
from engine.evaluate.evaluator import Evaluator
from engine.session.spec import SessionSpec
from engine.strategies import registry
from engine.strategies.problem import Prepared
from engine.trace import trace

logger = logging.getLogger(__name__)


class LookAhead:
    """Does nothing if the evaluator builds nothing ahead."""

    def __init__(self, evaluator: Evaluator):
        self.evaluator = evaluator
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def begin(self, spec: SessionSpec, memory: str) -> None:
        """Start on the next session. The previous one must have ended (`end`)."""
        if not self.evaluator.builds_ahead:
            return
        self._stop.clear()
        self._thread = threading.Thread(target=self._work, args=(spec, memory), name="look-ahead", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop the current work. Requested builds continue."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._thread = None

    def _work(self, spec: SessionSpec, memory: str) -> None:
        try:
            graph = trace(spec.source, cancelled=self._stop.is_set, local_user=True).graph
            task = Problem(spec.source, spec.source_kind, graph, spec.seed)
            problem = Prepared(
                task, spec.classes, self.evaluator.hw, self.evaluator.kind, self.evaluator.screens,
                memory=memory, cancelled=self._stop.is_set,
            )  # fmt: skip
            for candidate in registry.available()[spec.strategy](spec.options).ahead(problem):
                program = check(candidate.text).program
                if program is None or self._stop.is_set():
                    continue
                source = generate(program, self.evaluator.hw.sms).sources.get(candidate.backend)
                if source is not None:
                    self.evaluator.build_ahead(source)
        except SessionRefused:
            pass  # the session reports it
        except Exception:
            logger.exception("looking ahead at %s failed", spec.title)
