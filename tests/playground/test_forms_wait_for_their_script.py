"""A form that a script answers cannot be sent before that script listens: the page would load anew, or do nothing."""

import re
from pathlib import Path

import pytest

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
FORMS = [
    (page.name, form)
    for page in sorted(TEMPLATES.rglob("*.html"))
    for form in re.findall(r"<form\b.*?</form>", page.read_text(), re.DOTALL)
    if " action=" not in (head := form.partition(">")[0]) and 'method="dialog"' not in head  # that closes a dialog
]
SHOWN_BY_SCRIPT = ("run-form", "filters", "suite-filters")  # inside of what is hidden until the script is there


@pytest.mark.parametrize(("page", "form"), FORMS, ids=[page for page, _ in FORMS])
def test_its_button_is_disabled_in_the_template(page, form):
    name = re.search(r'id="([\w-]+)"', form).group(1)
    buttons = re.findall(r'<button\b[^>]*type="submit"[^>]*>', form)
    assert name in SHOWN_BY_SCRIPT or (buttons and all(" disabled" in button for button in buttons))
