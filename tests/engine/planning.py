"""A planner on a problem, for tests of the search without a session."""

from engine.devices import Problem
from engine.strategies.planner.memory import Memory, known
from engine.strategies.planner.planner import Planner
from engine.strategies.problem import prepare
from sol.hardware import Hardware


def planned(
    problem: Problem,
    classes: tuple[str, ...],
    hardware: Hardware,
    kind: str = "predicted",
    memory: Memory | None = None,
) -> Planner:
    """`memory`: None is what is known of a measured device, and nothing where times are predicted."""
    if memory is None:
        memory = known(hardware.name, hardware.sms) if kind == "measured" else Memory()
    return Planner(prepare(problem, classes, hardware, device_kind=kind), memory)
