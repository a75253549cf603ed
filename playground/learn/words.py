"""The words of the lessons' pages in a reader's language, by Django's translations (playground/learn/locale).

A message without a translation stays in English. No cookie holds the language: the address does (`?lang=ko`), else the
browser's own list of languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.http import HttpRequest
from django.utils import translation
from django.utils.translation import gettext, gettext_noop

from playground.learn.writing.reader import LANGUAGES

NAMES = {"en": "English", "ko": "한국어"}

# Keys of static/js/learn -> English words. Names in braces are filled in by the page.
SCRIPT = {
    "steps": gettext_noop("Steps"),
    "read": gettext_noop("Read"),
    "predict": gettext_noop("Predict"),
    "run": gettext_noop("Run"),
    "replay": gettext_noop("Replay"),
    "compare": gettext_noop("Compare"),
    "why": gettext_noop("Why"),
    "back": gettext_noop("Back"),
    "next": gettext_noop("Next"),
    "wait": gettext_noop("Wait for the teacher"),
    "end": gettext_noop("End of the lesson"),
    "go_on": gettext_noop("Go on: {title}"),
    "done": gettext_noop("done"),
    "not_yet": gettext_noop("not right yet"),
    "hint": gettext_noop("Show a hint"),
    "check": gettext_noop("Check"),
    "show_answer": gettext_noop("Show the answer"),
    "several": gettext_noop("Choose all that apply."),
    "right": gettext_noop("Right."),
    "wrong": gettext_noop("Not right."),
    "think_again": gettext_noop("Read the step once more, or take a hint."),
    "the_answer": gettext_noop("The answer"),
    "your_prediction": gettext_noop("Your prediction"),
    "no_prediction": gettext_noop("You made no prediction yet. Go back and make one."),
    "work": gettext_noop("Work"),
    "program": gettext_noop("Program"),
    "predict_time": gettext_noop("Predict its time"),
    "as_it_was": gettext_noop("As it was"),
    "stage": gettext_noop("Stage"),
    "time": gettext_noop("Time"),
    "binds": gettext_noop("Bound by"),
    "note": gettext_noop("Note"),
    "as_table": gettext_noop("As a table"),
    "gpu": gettext_noop("GPU"),
    "class": gettext_noop("Precision"),
    "shape": gettext_noop("Shape"),
    "intensity": gettext_noop("Intensity"),
    "limit": gettext_noop("limit"),
    "roofline": gettext_noop("Roofline"),
    "ridge": gettext_noop("ridge point"),
    "axis_x": gettext_noop("FLOP for each byte moved"),
    "axis_y": gettext_noop("FLOP/s"),
    "no_class": gettext_noop("{gpu} has no matrix units for {cls}."),
    "point_says": gettext_noop(
        "{label}: {intensity} FLOP/byte; the ridge point is {ridge}. It is {binds}, and takes at least {time}."
    ),
    "binds_memory": gettext_noop("memory-bound"),
    "binds_matrix": gettext_noop("compute-bound"),
    "binds_vector": gettext_noop("bound by the vector pipes"),
    "binds_special": gettext_noop("bound by the special-function units"),
    "tile": gettext_noop("Tile"),
    "split": gettext_noop("Parts of K"),
    "tiles": gettext_noop("Pieces of work"),
    "waves": gettext_noop("Waves"),
    "wave": gettext_noop("Wave"),
    "busy": gettext_noop("SMs busy"),
    "waves_say": gettext_noop(
        "{tiles} pieces of work on {sms} SMs need {waves} waves; {busy} of the SMs' time holds work. Predicted: {time}."
    ),
    "waves_label": gettext_noop("Which SMs have work in each of {waves} waves"),
    "what": gettext_noop("What"),
    "kind": gettext_noop("Kind"),
    "measured": gettext_noop("measured"),
    "predicted": gettext_noop("predicted"),
    "bad": gettext_noop("not counted"),
    "value": gettext_noop("value"),
    "skipped": gettext_noop("not run"),
    "trial": gettext_noop("Trial"),
    "trials": gettext_noop("Trials"),
    "change": gettext_noop("Change"),
    "verdict": gettext_noop("Verdict"),
    "trial_n": gettext_noop("Trial {n}"),
    "next_trial": gettext_noop("Next trial"),
    "last_trial": gettext_noop("Trial before"),
    "all_trials": gettext_noop("All trials"),
    "open_session": gettext_noop("Open the recorded session"),
    "no_time": gettext_noop("no time"),
    "kept": gettext_noop("Speedup kept"),
    "efficiency": gettext_noop("Efficiency gain"),
    "stop_says": gettext_noop(
        "The search runs {trials} of {total} trials and keeps {kept} of the speedup. Efficiency gain: {efficiency}x."
    ),
    "no_mistake": gettext_noop("No mistake. This is how a student sees the lesson."),
    "one_mistake": gettext_noop("1 mistake"),
    "mistakes": gettext_noop("{n} mistakes"),
    "line_n": gettext_noop("Line {n}"),
    "module": gettext_noop("PyTorch module"),
    "session_budget": gettext_noop("At most {trials} trials, in {classes}."),
    "session_run": gettext_noop("Run it here"),
    "session_again": gettext_noop("Run it again"),
    "session_stop": gettext_noop("Stop"),
    "session_recording": gettext_noop("Replay a recording instead"),
    "session_wait": gettext_noop("Wait for the session"),
    "session_soon": gettext_noop("Waiting for an engine."),
    "session_queued": gettext_noop("Waiting for an engine; {n} sessions are before this one."),
    "session_running": gettext_noop("Running: {trials} of at most {budget} trials."),
    "session_ended": gettext_noop("Ended after {trials} of at most {budget} trials."),
    "session_best": gettext_noop("Best: {speedup} times as fast as PyTorch, {gap} times the limit ({kind})."),
    "session_launches": gettext_noop("Best: {speedup} times as fast as PyTorch; launches bind it ({kind})."),
    "session_none": gettext_noop("No program is faster than PyTorch."),
    "session_lost": gettext_noop("This session was deleted. Run it again, or replay the recording."),
    "session_no_engine": gettext_noop("No engine runs here. This is a recording."),
    "whole_session": gettext_noop("Open the session's page"),
    "live_pane": gettext_noop("The session, live"),
    "recorded_pane": gettext_noop("The recorded session, with its replay"),
    "not_loaded": gettext_noop("The recording of this session is not loaded on this server."),
    "load_it": gettext_noop("Whoever runs the server loads all recordings with"),
    "look_again": gettext_noop("Look again"),
    "progress": gettext_noop("{done} of {all} questions answered"),
}
# What the templates say (templates/learn*.html), so that a test finds each of them here.
PAGE = (
    gettext_noop("Learn"),
    gettext_noop("Learn how fast a kernel can be"),
    gettext_noop(
        "Short lessons that you can take alone. Each asks you to predict, then shows what a GPU did and why. "
        "Your progress stays in this browser."
    ),
    gettext_noop("In a class?"),
    gettext_noop("Join its room with a code."),
    gettext_noop("Language"),
    gettext_noop("min"),
    gettext_noop("All lessons"),
    gettext_noop("Write a lesson of your own"),
    gettext_noop("A lesson of your own"),
    gettext_noop(
        "Write or drop a Markdown file. Each mistake is named with its line, and below you see the lesson as a student "
        "does. Nothing is stored here: keep your file."
    ),
    gettext_noop("Text of the lesson"),
    gettext_noop("Choose a file"),
    gettext_noop("Forget my progress"),
    gettext_noop("Alt with an arrow key moves to the next step or the one before."),
    gettext_noop("How a lesson is written"),
)


def language_of(request: HttpRequest) -> str:
    """The language of a request: `?lang=`, else the first of the browser's that we have, else English."""
    asked = request.GET.get("lang", "")
    if asked in LANGUAGES:
        return asked
    for part in request.headers.get("Accept-Language", "")[:200].split(","):
        code = re.split(r"[-;]", part.strip())[0].lower()
        if code in LANGUAGES:
            return code
    return "en"


def translations(texts: Iterable[str], language: str) -> dict[str, str]:
    """{English text: its translation} as static/js/texts.js reads it; empty in English."""
    if language == "en":
        return {}
    with translation.override(language):
        return {text: gettext(text) for text in texts}


def words(language: str) -> dict[str, str]:
    """The words of the page's scripts in a language."""
    with translation.override(language):
        return {key: gettext(text) for key, text in SCRIPT.items()}
