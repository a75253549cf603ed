"""The limit of a module while it is typed: what the page gets for a graph, for a mistake, and while it waits."""

import json
import threading
import time

import pytest
from django.test import Client

from engine.strategies.planner.lowering import program_graph
from playground.access import limits
from playground.live import desk
from playground.live.desk import Desk
from playground.models import Description, Engine
from playground.reading import modules
from sol.graph import Op, OpGraph, Tensor
from sol.hardware import HardwareError, load

pytestmark = pytest.mark.django_db(transaction=True)

PROGRAM = """program p(x: f32[1024, 8192], w: f32[8192, 8192]) -> f32[1024, 8192] {
  y = gemm(x, w.T) { compute tf32  store f32  epilogue relu(acc) }
  return y
}"""


def graph():
    from dsl.check.program import check

    return program_graph.graph_of(check(PROGRAM).program)


@pytest.fixture
def engine():
    """engine(answer): an engine that answers every module with `answer`."""
    desks, threads = [], []

    def begin(answer):
        Engine.objects.get_or_create(id="e1", serves="modelled:h200", device={})
        desks.append(Desk("e1", lambda text, address, cancelled: answer, modules.KIND, every=0.02))
        threads.append(threading.Thread(target=desks[-1].run))
        threads[-1].start()

    yield begin
    for one in desks:
        one.close()
    for thread in threads:
        thread.join(20)


def read(reading, client, query="", seconds=30):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        answer = client.get(f"/api/limits/{reading['id']}{query}").json()
        if answer["state"] in ("done", "failed"):
            return answer
        time.sleep(0.02)
    raise AssertionError(answer)


def ask(client, text="class Model: ..."):
    answer = client.post("/api/limits", {"text": text}, content_type="application/json")
    assert answer.status_code == 202, answer.content
    return answer.json()


def test_a_traced_module_has_its_limit_by_class_and_on_every_gpu(engine):
    engine({"graph": graph().to_json(), "title": "a product", "seconds": 0.5})
    client = Client()
    reading = ask(client)
    answer = read(reading, client, "?gpu=h100-sxm&classes=tf32")
    assert answer["gpu"] == load("h100-sxm").title and "TF32" not in answer["error"]
    by_class = {limit["cls"]: limit for limit in answer["limits"]}
    assert by_class["tf32"]["bound_by"] == "matrix" and by_class["tf32"]["gap"] > 1
    assert {g["name"] for g in answer["gpus"]} == set(modules.GPUS)
    here = next(g for g in answer["gpus"] if g["name"] == "h100-sxm")
    assert here["limits"]["tf32"]["ms"] == by_class["tf32"]["ms"]
    assert answer["roofline"]["figure"]["data"] and answer["levers"][0]["title"] and answer["operations"] == 3
    other = read(reading, client, "?gpu=l40s&classes=tf32")
    assert other["limits"] != answer["limits"] and "in tf32 no kernel on NVIDIA L40S" in other["sentence"]


def test_the_same_text_is_traced_once(engine):
    engine({"graph": graph().to_json(), "title": "a product", "seconds": 0.5})
    client, other = Client(), Client(REMOTE_ADDR="192.0.2.7")
    first = ask(client)
    read(first, client)
    assert ask(other)["id"] == first["id"] and ask(other, "class Model: pass")["id"] != first["id"]
    client.delete(f"/api/limits/{first['id']}")
    assert Description.objects.filter(id=first["id"]).exists()  # it serves others


def test_a_mistake_has_its_line(engine):
    engine({"reason": "Line 3: it has no forward.", "code": "no_model", "line": 3})
    client = Client()
    answer = read(ask(client), client)
    assert (answer["state"], answer["line"], answer["code"]) == ("failed", 3, "no_model")


def test_without_an_engine_the_page_is_told_and_one_that_stops_looking_costs_nothing():
    client = Client()
    reading = ask(client)
    answer = client.get(f"/api/limits/{reading['id']}").json()
    assert (answer["state"], answer["code"]) == ("failed", "no_engine")
    assert client.delete(f"/api/limits/{reading['id']}").status_code == 204
    assert client.get(f"/api/limits/{reading['id']}").status_code == 404


def test_a_gpu_is_a_name_and_never_a_path(engine):
    engine({"graph": graph().to_json(), "title": "", "seconds": 0.1})
    client = Client()
    reading = ask(client)
    read(reading, client)
    for name in ("/etc/passwd", "../h200", "cpu", ""):
        answer = client.get(f"/api/limits/{reading['id']}", {"gpu": name})
        assert answer.status_code == 422 and "h200" in answer.json()["error"], name
    with pytest.raises(HardwareError):
        modules.look(Description.objects.get(id=reading["id"]), "sol/hardware/h200.toml", ("tf32",))


def test_a_description_is_no_module_and_a_module_no_description():
    client = Client()
    words = desk.ask("words", "a", "a gated thing", "descriptions")
    assert client.get(f"/api/limits/{words.id}").status_code == 404
    assert client.get(f"/api/words/model/{ask(client)['id']}").status_code == 404
    assert json.loads(client.post("/api/limits", {"text": " "}, content_type="application/json").content)["fix"]


def test_a_graph_that_no_tracer_wrote_is_refused_and_the_page_is_told(engine):
    forged = json.loads(graph().to_json())
    for op in forged["ops"]:
        op["inputs"] = []
    engine({"graph": json.dumps(forged), "title": "", "seconds": 0.1})
    client = Client()
    answer = read(ask(client), client)
    assert (answer["state"], answer["code"]) == ("failed", "garbled")
    assert "The module's trace is garbled" in answer["error"]


def test_a_module_that_only_takes_views_has_no_gap(engine):
    x, y = Tensor("x", (8, 8), "f32", "input"), Tensor("y", (64,), "f32", "intermediate")
    views = OpGraph({"x": x, "y": y}, (Op("y", "view", ("x",), ("y",), {"size": [64]}),), ("x",), ("y",))
    engine({"graph": views.to_json(), "title": "", "seconds": 0.1})
    client = Client()
    answer = read(ask(client), client)
    assert answer["state"] == "done" and {limit["gap"] for limit in answer["limits"]} == {None}


def test_prices_of_a_long_module_count_as_the_checks_that_they_take(engine, monkeypatch):
    monkeypatch.setattr(limits, "checks", limits.Limit(6, 60))
    monkeypatch.setattr(modules, "CHARACTERS", len(graph().to_json()) // 2)
    engine({"graph": graph().to_json(), "title": "", "seconds": 0.1})
    client, other = Client(), Client(REMOTE_ADDR="192.0.2.7")
    reading = ask(client)
    read(reading, client)  # 3 of 6; looks before the answer count nothing
    assert client.get(f"/api/limits/{reading['id']}?gpu=l40s").status_code == 200
    refused = client.get(f"/api/limits/{reading['id']}?gpu=h100-sxm")
    assert refused.status_code == 429 and "limits" in refused.json()["error"]
    assert other.get(f"/api/limits/{reading['id']}").status_code == 200


def test_the_order_of_classes_is_no_other_question(engine):
    engine({"graph": graph().to_json(), "title": "", "seconds": 0.1})
    client = Client()
    reading = ask(client)
    read(reading, client, "?classes=tf32&classes=f16")
    before = modules._priced.cache_info().misses
    read(reading, client, "?classes=f16&classes=tf32&classes=f16")
    assert modules._priced.cache_info().misses == before
