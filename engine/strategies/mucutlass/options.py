"""The options of `mucutlass`: the study's numbers as defaults, and a switch for each phase."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engine.strategies import api
from engine.strategies.forms import CandidateForm
from engine.strategies.writing import FORM, OPINION, PROFILE, REFINE, RESERVE, SEED


class MucutlassOptions(api.Options):
    steering: Literal["orchestrated", "in_prompt"] = Field(
        "orchestrated", description="orchestrated: in phases, with triage; in_prompt: one role that has the report"
    )
    form: CandidateForm = FORM
    iterations: int = Field(5, ge=1, le=20, description="Iterations of the phases")
    hypotheses: int = Field(2, ge=1, le=6, description="Hypotheses that are implemented in an iteration")
    attempts: int = Field(4, ge=1, le=10, description="Attempts at a hypothesis; in_prompt has their product")
    analyze: bool = Field(True, description="Phase Analyze: a role says what limits the best candidate")
    nominate: bool = Field(
        True, description="Phase Nominate: a role proposes hypotheses; without it the report's levers"
    )
    triage: bool = Field(True, description="Phase Triage: by return on investment; without it in the nominated order")
    summarize: bool = Field(True, description="Phase Summarize: a role writes what an iteration taught")
    profile: bool = PROFILE
    report: bool = Field(True, description="Put the speed-of-light report into the prompts")
    seed: bool = SEED
    opinion: bool = OPINION
    refine: bool = REFINE
    reserve: int = RESERVE
