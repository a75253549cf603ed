"""Wait for candidates of a person or a coding agent, and run each as a trial.

The strategy searches nothing: it takes each program or kernel that the owner of the session hands in, over MCP
(playground.mcp), the API or the page, and tries it. The session lasts until its budget of trials is spent or its owner
stops it. The stop rule (eps, window) does not end it, because the agent decides when to stop.

A module that no program covers is accepted, because a raw kernel can still replace it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.strategies.api import Receive, Script, Strategy, Try

if TYPE_CHECKING:
    from engine.strategies.problem import Prepared

UNNAMED = {"program": "a program that was handed in", "kernel": "a kernel that was handed in"}


class Agent(Strategy):
    """See engine.strategies.api.Strategy."""

    name = "agent"
    title = "Your own agent"
    about = (
        "Waits for programs and kernels that you or your coding agent hand in (over MCP, at /mcp), and tries each. "
        "Only the budget or a stop ends it."
    )
    forms = ("program", "kernel")
    programs = False
    receives = True

    def run(self, problem: Prepared) -> Script:
        state = problem.start
        while not state.stop:
            received = yield Receive()
            change = received.words or UNNAMED[received.candidate.form]
            trial = yield Try(received.candidate, change, f"handed in by the {received.by}")
            state = trial.state
        return state.stop


STRATEGY = Agent
