"""The web process serves every page and every endpoint without torch and without the engine's inside."""

import json
import subprocess
import sys

from tests.playground.conftest import ROOT

SERVE = """
import sys, json
from django.test import Client
from django.core.management import call_command
import ucutlass_web.asgi
call_command("migrate", verbosity=0)
call_command("load_recordings", verbosity=0)
print(json.dumps(sorted(sys.modules)))
c = Client()
program = c.get("/api/examples").json()["examples"][0]["text"]
made = c.post("/api/sessions", {"source": program, "source_kind": "program"}, content_type="application/json").json()
for path in ("/", "/gallery", "/gallery/suite/bmm", "/gallery/compare", "/healthz",
             "/language", "/language/E204", "/api/explain?word=tile",
             "/learn", "/learn/own", "/learn/when-to-stop?lang=ko", "/api/lessons",
             "/s/" + made["id"], "/s/" + made["id"] + "/fork", "/embed/" + made["id"], "/card/" + made["id"] + ".png",
             "/api/sessions/" + made["id"], "/api/figures/" + made["id"], "/api/engines", "/api/openapi.json"):
    assert c.get(path).status_code == 200, (path, c.get(path).content)
for path in ("/api/check", "/api/compile", "/api/format", "/api/resolve"):
    reply = c.post(path, {"text": program}, content_type="application/json")
    assert reply.status_code == 200 and reply.json()["ok"], reply.content
assert c.post("/api/words", {"text": "relu of a 64x64 matrix"}, content_type="application/json").status_code == 200
engine = dict(id="e", serves="modelled:h200", device={"words": {"model": "m", "host": "h"}})
__import__("playground.models").models.Engine.objects.create(**engine)
asked = c.post("/api/words/model", {"text": "a gated thing"}, content_type="application/json")
assert asked.status_code == 202 and c.get("/api/words/model/" + asked.json()["id"]).json()["state"] == "waiting"
asked = c.post("/api/limits", {"text": "class Model: ..."}, content_type="application/json")
assert asked.status_code == 202 and c.get("/api/limits/" + asked.json()["id"]).json()["state"] == "waiting"
for path in ("/api/complete", "/api/hover"):
    assert c.post(path, {"text": program, "line": 3, "col": 4}, content_type="application/json").status_code == 200
assert c.post("/api/export", {"text": program}, content_type="application/json")["Content-Type"] == "application/zip"
recorded = next(s for s in __import__("playground.models").models.Session.objects.filter(recorded=True))
assert c.get("/s/" + recorded.id + "/export")["Content-Type"] == "application/zip"
print(json.dumps(sorted(sys.modules)))
"""


def test_no_torch_and_nothing_of_the_engine_but_its_data(tmp_path):
    environ = {"PATH": "/usr/bin:/bin", "UCUTLASS_VAR": str(tmp_path), "UCUTLASS_DEBUG": "1"}
    environ |= {"DJANGO_SETTINGS_MODULE": "ucutlass_web.settings", "UCUTLASS_HOSTS": "testserver"}
    done = subprocess.run([sys.executable, "-c", SERVE], cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    at_start, modules = map(json.loads, done.stdout.splitlines())
    heavy = ("torch", "cutlass", "quack", "triton", "numpy", "openai", "httpx2", "mcp", "starlette")
    assert [m for m in modules if m.split(".")[0] in heavy] == []
    late = ("plotly", "PIL")
    assert [m for m in at_start if m.split(".")[0] in late] == [], "they wait for the first figure and the first card"
    assert {m for m in modules if m.split(".")[0] == "engine"} <= {
        "engine", "engine.classes", "engine.descriptors", "engine.replay", "engine.words",
        "engine.export", "engine.export.history", "engine.export.package", "engine.export.model_new",
        "engine.export.notebook", "engine.export.composition",
        "engine.export.forms", "engine.export.module_package",
        "engine.record", "engine.record.comparison", "engine.record.shared", "engine.session", "engine.session.events",
        "engine.session.event_base", "engine.session.script_events",
        "engine.session.trial_events", "engine.session.recording", "engine.session.spec",
        "engine.session.spec_arguments", "engine.session.titles",
        "engine.session.kernel_text", "engine.session.fold", "engine.session.fold.figures",
        "engine.session.fold.listing", "engine.session.fold.next_step", "engine.session.fold.profile",
        "engine.session.fold.readers", "engine.session.fold.reduce", "engine.session.fold.slower",
        "engine.session.fold.view",
        "engine.strategies", "engine.strategies.again",
            "engine.strategies.agent", "engine.strategies.api", "engine.strategies.forms", "engine.strategies.registry",
        "engine.strategies.state", "engine.strategies.planner", "engine.strategies.sweep", "engine.strategies.writing",
        "engine.strategies.flat", "engine.strategies.best_of", "engine.strategies.chain",
        "engine.strategies.pytorch_stays",
        "engine.strategies.mucutlass", "engine.strategies.mucutlass.options", "engine.llm.replies",
        "engine.strategies.two_stage", "engine.strategies.two_stage.options", "engine.strategies.two_stage.forms",
        "engine.strategies.two_stage.expressions",
        "engine.strategies.optiml", "engine.strategies.optiml.options",
        "engine.strategies.cutegen", "engine.strategies.cutegen.options", "engine.strategies.opinion",
        "engine.llm", "engine.llm.endpoint", "engine.llm.keys", "engine.llm.reader", "engine.llm.settings",
    }  # fmt: skip
