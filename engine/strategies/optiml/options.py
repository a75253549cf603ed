"""The options of `optiml`. C, the depth and the widening with its levels are ours: the study's are not known to us."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engine.strategies import api
from engine.strategies.forms import CandidateForm
from engine.strategies.writing import FORM, OPINION, PROFILE, REFINE, RESERVE, SEED


class OptimlOptions(api.Options):
    start: Literal["words", "given"] = Field(
        "words",
        description="words: a mixture of strategy proposals gives a first candidate; given: only optimise your kernel "
        "or program",
    )
    form: CandidateForm = FORM
    evaluations: int = Field(40, ge=1, le=200, description="Trials at most, beside the budget")
    proposals: int = Field(4, ge=1, le=8, description="Strategies in the mixture")
    choose: Literal["sampled", "best"] = Field(
        "sampled", description="sampled: a proposal is drawn by its weight and the seed; best: the one with most weight"
    )
    exploration: int = Field(100, ge=0, le=1000, description="PUCT's constant C in hundredths: 100 is C = 1.0")
    depth: int = Field(8, ge=1, le=32, description="Edits from the first candidate at most")
    widen_base: int = Field(2, ge=1, le=32, description="Right children that a node may have before it has a visit")
    widen_growth: int = Field(
        3, ge=0, le=32, description="Further children for each unit of the square root of its visits"
    )
    levels: int = Field(
        3, ge=1, le=8,
        description="Levels of edits for which the evaluations shall do: fewer evaluations, fewer children of a node; "
        "1: as the two numbers say",
    )  # fmt: skip
    judge: bool = Field(True, description="A role says what limits a candidate before it is edited")
    reference: Literal["start", "parent", "incumbent"] = Field(
        "start", description="What a reward compares with: the first candidate, the edited one or the best so far"
    )
    weight_time: int = Field(70, ge=1, le=100, description="Weight of the run time in the reward")
    weight_memory: int = Field(10, ge=0, le=100, description="Weight of the memory traffic")
    weight_compute: int = Field(10, ge=0, le=100, description="Weight of the arithmetic")
    weight_occupancy: int = Field(10, ge=0, le=100, description="Weight of the occupancy")
    bound: int = Field(4, ge=2, le=64, description="Speedup at which a part of the reward is full")
    tolerance: int = Field(5, ge=0, le=100, description="Percent slower than the best that is no regression yet")
    profile: bool = PROFILE
    report: bool = Field(False, description="Put the speed-of-light report into the prompts")
    seed: bool = SEED
    opinion: bool = OPINION
    refine: bool = REFINE
    reserve: int = RESERVE
