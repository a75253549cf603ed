"""The modelled machine without its compilers, which take most of its time; numbers are verified in full."""

from __future__ import annotations

from engine.devices.modelled import Modelled
from engine.evaluate.evaluator import Evaluator
from engine.session import events
from engine.session.runner import run
from engine.session.spec import SessionSpec
from tests.engine.priced import NotRun


class Unbuilt(Modelled):
    """Machine of an Evaluator."""

    def open(self, problem, cancelled, loaded=None):
        workbench = super().open(problem, cancelled, loaded)
        workbench.programs.builds = NotRun()
        return workbench


def session(source: str, title: str = "", **changes) -> list:
    """The events of a session on a pasted module; by default one trial in class tf32."""
    changes = {"classes": ("tf32",), "trials": 1, "eps": 0.0} | changes
    spec = SessionSpec(title=title or "a module", source=source, device="modelled:h200", **changes)
    return [e.event for e in run(spec, device=Evaluator(Unbuilt("h200")), teaches=False)]


def assert_judged_clean(log: list) -> None:
    """The session's one trial was verified against the module in float64, judged clean, and ended it."""
    (validated,) = (e for e in log if isinstance(e, events.TrialValidated))
    assert validated.error <= validated.tolerance and "the module in float64" in validated.scope
    (judged,) = (e for e in log if isinstance(e, events.TrialJudged))
    assert judged.verdict == "clean" and log[-1].state == "done"
