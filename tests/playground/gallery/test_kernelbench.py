"""KernelBench's results have a table, and each problem a page with its program; the benchmark's files are not here."""

import pytest

from playground.gallery import kernelbench

pytestmark = pytest.mark.django_db


def test_the_table_says_what_was_measured_and_where(client):
    results = kernelbench.published()
    page = client.get("/gallery/kernelbench").content.decode()
    for text in (results["gpu"], results["driver"], results["from"], "Level 3", *results["words"][:1]):
        assert text in page
    assert "/gallery/kernelbench" in client.get("/gallery").content.decode()


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_problem_has_its_program_and_the_code_that_was_timed(client, level):
    rows = kernelbench.published()["rows"]
    row = next(row for row in rows if row["level"] == level and row["result"] == "faster")
    shown = kernelbench.problem(row["problem"])
    assert shown.program.codes[0][0] == shown.program.backend and [t for t in shown.trials if t["won"]]
    page = client.get(f"/gallery/kernelbench/{row['problem']}").content.decode()
    assert "Open in the editor" in page and "choose your copy of the benchmark" in page and "Every trial" in page
    assert 'id="module-title"' not in page, "its text is not ours"


def test_a_problem_without_a_program_says_so(client):
    row = next(row for row in kernelbench.published()["rows"] if row["result"] == "none")
    page = client.get(f"/gallery/kernelbench/{row['problem']}").content.decode()
    assert "No right program is known" in page


@pytest.mark.parametrize("name", ["nothing", "level1/../../secrets", "level1"])
def test_an_unknown_problem_is_not_here(client, name):
    reply = client.get(f"/gallery/kernelbench/{name}")
    assert reply.status_code == 404 and "no such problem of KernelBench" in reply.content.decode()


def test_the_api_has_what_the_pages_have(client):
    listed = client.get("/api/kernelbench").json()
    assert len(listed["problems"]) == len(kernelbench.published()["rows"]) and listed["classes"] == ["tf32"]
    one = client.get(f"/api/kernelbench/{listed['problems'][0]}").json()
    assert one["name"] == listed["problems"][0] and one["source"] == "" and one["trials"]
    assert client.get("/api/kernelbench/level9/none").json()["fix"] == "GET /api/kernelbench lists them."
