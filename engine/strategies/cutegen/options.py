"""The options of `cutegen`, with the study's numbers as defaults."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engine.strategies import api
from engine.strategies.forms import CandidateForm
from engine.strategies.writing import FORM_ABOUT, OPINION, REFINE, RESERVE, SEED


class CutegenOptions(api.Options):
    form: CandidateForm = Field("auto", description=FORM_ABOUT)
    depths: int = Field(10, ge=1, le=40, description="Optimisations at most, one a step, after the first kernel")
    fixes: int = Field(5, ge=0, le=20, description="Fixes of a failed candidate before it is written anew")
    regenerations: int = Field(3, ge=0, le=10, description="Times that a step is written anew before it is left out")
    profile: Literal["late", "never", "always"] = Field(
        "late", description="late: the model sees the profile from the depth of the workload's class on"
    )
    report: bool = Field(False, description="Put the speed-of-light report into the prompts")
    seed: bool = SEED
    opinion: bool = OPINION
    refine: bool = REFINE
    reserve: int = RESERVE
