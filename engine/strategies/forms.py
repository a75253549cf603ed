"""The forms that a candidate of a model may have, for strategies and for the page that offers them."""

from __future__ import annotations

from typing import Literal, get_args

CandidateForm = Literal["auto", "program", "kernel"]


def form_on(form: CandidateForm, device_kind: str) -> str:
    """What a form means on a device of this kind (measured | predicted): program | kernel."""
    if form != "auto":
        return form
    return "kernel" if device_kind == "measured" else "program"


def meanings() -> dict[str, dict[str, str]]:
    """What each form means, for a page: kind of a device -> form -> program | kernel."""
    return {kind: {form: form_on(form, kind) for form in get_args(CandidateForm)} for kind in ("measured", "predicted")}
