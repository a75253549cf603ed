"""Words for a model over HTTP: an engine asks it for the module of a description.

The rules are in playground.language.api.
"""

from __future__ import annotations

from typing import Literal

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema, Status
from pydantic import Field

from playground.access import limits, requests, sessions
from playground.access.answers import Refused
from playground.live import descriptions, desk
from playground.models import Description
from playground.words import writer

router = Router(tags=["language"])


class WordsIn(Schema):
    text: str = Field(description="What the module computes, in English")


class Asked(Schema):
    """`id` is known to the sender alone. Ask for /api/words/model/<id> every second; the model stops if nobody does."""

    id: str
    model: str
    host: str = Field(description="where the description is sent to")


class Writing(Schema):
    """A module for the reader to confirm, once `state` is done. Nothing runs before it is sent to /api/sessions."""

    state: Literal["waiting", "writing", "done", "failed"]
    module: str = Field("", description="a PyTorch module: class Model, get_inputs, get_init_inputs")
    sentence: str = Field("", description="what the module computes, in the model's words")
    assumed: list[str] = Field([], description="what the description left open")
    model: str = Field("", description="what wrote the module; `rehearsed`: a rule, and no model")
    error: str = Field("", description="why there is no module, once `state` is failed")
    fix: str = ""


@router.post("/words/model", response={202: Asked}, summary="Let a model write a module from a description")
def ask(request: HttpRequest, asked: WordsIn):
    """The description, and nothing else, is sent to the model's host (GET /api/engines names it: `device.words`)."""
    requests.limit_text(asked.text, "The description")
    if not asked.text.strip():
        raise Refused(422, "There is no description yet.", writer.SAY)
    if len(asked.text) > writer.LONGEST:
        raise Refused(413, f"The description has over {writer.LONGEST:,} characters.", "Describe only the module.")
    known = descriptions.model()
    if "missing" in known:
        raise Refused(503, known["missing"], known["fix"])
    sessions.limited(limits.writings, [limits.address(request)], "descriptions for a model")
    row = descriptions.ask(limits.origin(request), asked.text)
    limits.guesses.right(limits.address(request), f"words {row.id}")
    return Status(202, {"id": row.id, **known})


@router.get(
    "/words/model/{description_id}", response=Writing, summary="The module that a model writes, once it is there"
)
def read(request: HttpRequest, description_id: str):
    return descriptions.look(_mine(request, description_id))


@router.delete(
    "/words/model/{description_id}", response={204: None}, summary="Stop the model and forget the description"
)
def cancel(request: HttpRequest, description_id: str):
    desk.cancel(_mine(request, description_id))
    return HttpResponse(status=204)


def _mine(request: HttpRequest, description_id: str) -> Description:
    """The description of an id, which only its sender knows. Raises Refused."""
    rows = Description.objects.filter(kind="words", id=description_id)
    row = limits.guesses.look(limits.address(request), f"words {description_id}", rows.first)
    if row is None:
        raise Refused(
            404, "There is no such description.", "Descriptions are kept for a quarter of an hour. Ask again."
        )
    return row
