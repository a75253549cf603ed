"""The gallery's pages as JSON: the recordings, a comparison, a problem of the suite, and a trial's files."""

import io
import zipfile

import pytest

from playground import recordings
from playground.models import Session
from tests.playground.gallery.test_compare import again

pytestmark = pytest.mark.django_db


@pytest.fixture
def first():
    return recordings.load(recordings.FOLDER / "linear_div_gelu.jsonl")


def test_every_recording_is_listed_as_its_card_has_it(client, first):
    Session.objects.create(title="somebody's", spec={}, control_hash="x")
    (card,) = client.get("/api/recordings").json()["recordings"]
    assert card["id"] == first and card["kind"] == "measured" and card["speedup"] and card["classes"]
    assert dict(card["facts"])["Device"] == card["device"]
    assert f"over {card['against'].partition('over ')[2]}" in client.get("/gallery").content.decode()


def test_a_comparison_has_both_sides_and_the_ratio_in_words(client, first, tmp_path):
    other = again("linear_div_gelu", tmp_path, ms=0.5)
    shown = client.get("/api/comparisons", {"a": f"http://x/s/{first}", "b": other, "class": "f16"}).json()
    assert shown["reasons"] == [] and (shown["a"]["id"], shown["b"]["id"]) == (first, other)
    row = next(row for row in shown["rows"] if row["name"] == "float16")
    assert row["ratio"].startswith("B is 2.00 times as fast") and len(row["bests"]) == 2
    assert shown["a"]["best"]["number"] and shown["a"]["steps"] and shown["a"]["program"].startswith("program ")


def test_a_problem_of_the_suite_has_its_program_and_every_trial(client):
    suite = client.get("/api/suite").json()
    assert len(suite["problems"]) == 59 and suite["data"].endswith("bench.json") and "Measured on" in suite["about"]
    shown = client.get(f"/api/suite/{suite['problems'][0]}", {"class": suite["classes"][0]}).json()
    assert shown["cls"] == suite["classes"][0] and shown["trials"] and shown["program"]["text"]


def test_a_trial_is_exported_by_the_api_as_by_the_page(client, first):
    zipped = client.get(f"/api/sessions/{first}/export")
    assert zipped["Content-Type"] == "application/zip"
    assert zipfile.ZipFile(io.BytesIO(zipped.content)).testzip() is None
    assert zipped.content == client.get(f"/s/{first}/export").content
    assert b"class ModelNew" in client.get(f"/api/sessions/{first}/export?as=modelnew").content
    refused = client.get(f"/api/sessions/{first}/export?trial=999")
    assert refused.status_code == 409 and refused.json()["fix"]
