"""The forms of the API of rooms: what is asked, and what is answered."""

from __future__ import annotations

from typing import Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

from playground.learn.api import OutcomeOut
from playground.rooms import plan

# ---- what is asked ----


class RoomIn(Schema):
    """`lessons`: names of lessons; `own`: lessons of the teacher, as Markdown; `paced`: the teacher opens the steps;
    `test`: before and after the lessons each skill that they name is asked for, with modules that no lesson shows;
    `deadline`: seconds since the epoch, after which the room takes no answers."""

    model_config = ConfigDict(extra="forbid", strict=True)

    title: str = Field("", max_length=200)
    lessons: list[str] = Field([], max_length=100)
    own: list[str] = Field([], max_length=20)
    paced: bool = False
    test: bool = False
    seats: int = 40
    trials: int = Field(plan.TRIALS, ge=1, le=100, description="of one session of a seat, at most")
    deadline: float | None = None


class RoomMade(Schema):
    """Keep `teacher_token` (and `teacher_url`) secret: whoever has it reads every answer and may delete the room."""

    code: str
    join_url: str
    teacher_url: str
    teacher_token: str


class SeatIn(Schema):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(max_length=400, description="a nickname, at most 24 characters, unique in the room")


class SeatMade(Schema):
    """`token` is shown here only. Send it as `X-Seat-Token`."""

    seat: int
    name: str
    token: str


class StepIn(Schema):
    model_config = ConfigDict(extra="forbid", strict=True)

    step: str = Field(max_length=200, description="key of the step that the student looks at")


class RoomAnswerIn(Schema):
    """`answer`: an option's code, a number, or a list of codes; `attempt`: the sender's name for this answer, so that
    sending it twice counts once; `show`: say the right answer too, if the step is no test."""

    model_config = ConfigDict(extra="forbid")

    step: str = Field(max_length=200)
    answer: Any
    attempt: str = Field("", max_length=40)
    show: bool = False
    lang: Literal["en", "ko"] = Field("en", description="of the verdict's words")


class TeacherIn(Schema):
    """`data`: of `pace` {step}, or {} to open all; `message` {text}; `hint` {step}; `project` {seat}, or {} for none;
    `reset` {seat, keep}. The others need none."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["pause", "resume", "pace", "message", "hint", "project", "reset", "end"]
    data: dict[str, Any] = Field({})


# ---- what is answered ----


class StepOut(Schema):
    """`step`: of the lesson; in the test a skill, and `lesson` the first one that teaches it."""

    key: str
    part: Literal["before", "lesson", "after"]
    lesson: str
    step: str
    kind: str
    title: str
    question: bool


class LessonListed(Schema):
    slug: str
    title: str
    minutes: int


class RoomFields(Schema):
    """A room as everybody in it sees it. `seq`: the last event; `open_to`: the place of the last open step in `steps`,
    null if all are; `hints`: steps whose hints are shown to all."""

    code: str
    created: float
    paced: bool
    deadline: float | None
    seats_limit: int
    trials: int = Field(description="of one session of a seat, at most")
    seq: int
    title: str
    lessons: list[LessonListed]
    steps: list[StepOut]
    open_to: int | None
    paused: bool
    ended: bool
    message: str
    hints: list[str]


class RoomOut(RoomFields):
    seats: int = Field(description="that students have taken")


class AnswersOut(Schema):
    """The answers to one step. A seat reads no verdict of the test before the lessons."""

    tries: int
    first: Any
    first_right: bool | None = None
    last: Any
    right: bool | None = None
    why: str = Field("", description="the verdict as safe HTML")
    t: float


class SessionOfStep(Schema):
    session: str
    step: str


class SeatOut(Schema):
    """`at`: the step on the screen; `free`: the teacher reset it, and nobody took it again; `answers`: by step."""

    number: int
    name: str
    joined: float
    at: str
    free: bool
    answers: dict[str, AnswersOut]
    sessions: list[SessionOfStep]


class SessionNow(Schema):
    """The newest session of a seat, and its best gap of all. `gap`: a time over the limit; null without one."""

    session: str
    state: Literal["queued", "running", "ended"]
    trials: int
    gap: float | None
    speedup: float | None
    kind: Literal["", "measured", "predicted"]


class OwnSeat(RoomFields):
    seat: SeatOut
    session: SessionNow | None


class SkillMoved(Schema):
    """`before`, `after`, `both`: seats that answered; the others count among those that answered both times."""

    skill: str
    lesson: str
    title: str
    before: int
    after: int
    both: int
    right_before: int
    right_after: int
    gained: int
    lost: int


class SeatMoved(Schema):
    seat: int
    name: str
    both: int
    right_before: int
    right_after: int
    gained: list[str]
    lost: list[str]


class Drawn(Schema):
    variant: str
    values: dict[str, Any]


class TestOut(Schema):
    """The report of the test; all empty without one. `forms`: what was drawn for each of the two forms, by skill."""

    skills: list[SkillMoved]
    seats: list[SeatMoved]
    forms: list[dict[str, Drawn]]


class ResultsOut(RoomFields):
    seats: list[SeatOut]
    projected: int | None
    sessions: dict[str, SessionNow] = Field(description="by the seat's number")
    test: TestOut


class TestQuestion(Schema):
    """A question with its answer, as safe HTML but for `skill`, `title` and `blocks`."""

    skill: str
    title: str
    html: str
    blocks: list[dict[str, Any]]
    ask: str
    answer: str
    because: str


class FormsOut(Schema):
    forms: list[list[TestQuestion]]


class Answered(Schema):
    """`right`, `outcome`: not in the test before the lessons."""

    step: str
    tries: int
    answer: Any
    right: bool | None = None
    outcome: OutcomeOut | None = None


class AnswerCount(Schema):
    answer: Any
    seats: int


class Counts(Schema):
    """The first answers of all seats to a step, the most frequent first."""

    step: str
    answered: int
    right: int
    answers: list[AnswerCount]


class Commanded(Schema):
    """`seq`: the last event of the room's log after the command."""

    kind: str
    seq: int


class Looked(Schema):
    step: str
