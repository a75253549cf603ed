"""A problem of the suite is shown with the committed program of each class and the code that it becomes today."""

import pytest

from playground import recordings
from playground.gallery import suite
from playground.language import service
from playground.models import Session

pytestmark = pytest.mark.django_db


def test_every_problem_and_class_has_a_program_that_still_compiles_for_the_back_end_that_was_timed():
    assert len(suite.names()) == 59
    for name in suite.names():
        for cls in suite.problem(name).classes:
            shown = suite.problem(name, cls)
            assert shown.source.count("class Model") == 1 and shown.cls == cls
            assert shown.program.codes[0][0] == shown.program.backend and shown.program.codes[0][1], (name, cls)
            assert [t["number"] for t in shown.trials if t["won"]], (name, cls)


def test_the_page_has_program_code_times_and_their_source(client):
    page = client.get("/gallery/suite/linear_div_gelu?class=f16").content.decode()
    shown = suite.problem("linear_div_gelu", "f16")
    for text in ("NVIDIA H200", "580.159.04", shown.about["from"], "torch.compile max-autotune", "0.139\u00a0ms"):
        assert text in page
    assert 'href="/#program=program%20module' in page and "Every trial" in page
    assert service.compile_(shown.program.text)["sources"]["cute"]["text"] == shown.program.codes[0][1]


def test_a_class_that_a_finer_program_won_says_so(client):
    page = client.get("/gallery/suite/bmm?class=f16").content.decode()
    assert "It was tried in the finer class TF32" in page
    assert "finer class" not in client.get("/gallery/suite/bmm?class=tf32").content.decode()


def test_recordings_of_the_same_module_are_matched_by_equal_source(client):
    recordings.load_all()
    same = suite.recordings(Session.objects.filter(recorded=True))
    assert set(same) > {"linear_div_gelu", "linear_scale_leaky", "matmul_square", "conv_transpose3d_cube"}
    session = same["matmul_square"][0]
    page = client.get("/gallery/suite/matmul_square").content.decode()
    assert f"/s/{session.id}" in page and "(predicted times)" not in page
    assert [s.spec["strategy"] for s in same["linear_div_gelu"]] == ["planner", "optiml"]  # ours first
    assert "Replay a recorded search by optiml<" in client.get("/gallery/suite/linear_div_gelu").content.decode()
    cube = same["conv_transpose3d_cube"][0]
    Session.objects.filter(id=cube.id).update(provenance=cube.provenance | {"kind": "predicted"})
    assert "(predicted times)" in client.get("/gallery/suite/conv_transpose3d_cube").content.decode()
    assert "no recorded search of this module" in client.get("/gallery/suite/bmm").content.decode()
    spec = session.spec | {"source": session.spec["source"] + " "}
    Session.objects.filter(id=session.id).update(spec=spec)
    assert "matmul_square" not in suite.recordings(Session.objects.filter(recorded=True))


def test_an_unknown_problem_is_not_here_and_an_unknown_class_is_the_first(client):
    reply = client.get("/gallery/suite/nothing")
    assert reply.status_code == 404 and "The suite has no such problem" in reply.content.decode()
    assert client.get("/gallery/suite/..%2Fsecrets").status_code == 404
    assert suite.problem("bmm", "f128").cls == "tf32"
