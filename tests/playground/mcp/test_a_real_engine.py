"""An agent that is given only the address and a token optimises a module on the real engine (predicted times)."""

import pytest

pytest.importorskip("torch")

from tests.playground.conftest import House
from tests.playground.mcp.agents import new_token, over_http, run
from tests.playground.test_end_to_end import MODULE

KERNEL = """import torch

class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = torch.nn.Linear(features, 256)

    def forward(self, x):
        return self.linear(x).clamp(min=0)
"""

BF16 = "program p(x: bf16[64, 64], w: bf16[64, 64]) -> bf16[64, 64] { y = gemm(x, w.T) { } return y }"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    built = House(tmp_path_factory.mktemp("house"), UCUTLASS_LEASE_SECONDS="3")
    built.web()
    built.start("manage.py", "engine", "--device", "modelled:h200", name="engine")
    yield built
    built.close()


def test_an_agent_optimises_a_module_to_the_end(house):
    token = new_token(house)["token"]

    async def drive():
        async with over_http(house, token) as agent:
            data, _ = await agent.call("start_session", module=MODULE, classes=["f16"], trials=3)
            session = data["session"]
            data, texts = await agent.call("report", session=session)
            report, start = texts
            assert "| f16 |" in report and "Levers" in report
            program = start.split(":\n", 1)[1]
            assert program.startswith("program ") and (await agent.call("check_program", program=program))[0]["ok"]

            mistaken = program.replace("gemm(", "gem(", 1)
            refused, _ = await agent.call("propose", session=session, candidate=mistaken)
            line = 1 + mistaken[: mistaken.index("gem(")].count("\n")
            assert refused["diagnostics"][0]["line"] == line and refused["diagnostics"][0]["help"], refused
            small = program.replace("f32[128, 256]", "f32[64, 256]")
            assert small != program
            for wrong in (small, BF16):
                checked, _ = await agent.call("check_program", program=wrong, session=session)
                refused, _ = await agent.call("propose", session=session, candidate=wrong)
                assert checked["ok"] and checked["in_the_session"]["can_be_tried"] is False
                assert refused["status"] == 422 and refused["error"].startswith(checked["in_the_session"]["why_not"])
            checked, _ = await agent.call("check_program", program=program, session=data["page"])
            fit = {"can_be_tried": True, "replaces": "the module", "counts_in_class": "f16"}
            assert checked["in_the_session"] == fit
            # Three candidates at once: a program, one with a wrong result, a raw kernel. They are tried in order.
            bad = program.replace("relu(", "tanh(", 1)
            assert bad != program, program
            handed_in = [
                (await agent.call("propose", session=session, candidate=text, change=change))[0]
                for text, change in ((program, "the start"), (bad, "a wrong function"), (KERNEL, "plain PyTorch"))
            ]
            numbers = [answer["trial"] for answer in handed_in]
            assert numbers == [1, 2, 3]
            assert ["warning" in answer for answer in handed_in] == [False, False, True], "no GPU runs its kernel here"
            first, wrong, kernel = [
                (await agent.call("wait_for_trial", session=session, trial=n, timeout_s=90))[0] for n in numbers
            ]
            best, texts = await agent.call("best", session=session)
            status, _ = await agent.call("status", session=session)
            return session, first, wrong, kernel, best, texts, status

    session, first, wrong, kernel, best, texts, status = run(drive())
    assert (first["outcome"], first["verdict"], first["time"]["kind"]) == ("counted", "clean", "predicted"), first
    assert first["gap_to_limit"] >= 1 and first["baseline"]["ms"] > 0 and first["precision_class"] == "f16"
    assert first["change"] == "the start" and first["correctness"]["error"] <= first["correctness"]["tolerance"]
    (longest,) = [s for s in first["advice"] if s.startswith("The longest stage by the model, launches apart: ")]
    assert "(gemm)" in longest and "wave" in longest and "of the SMs' time used" in longest, longest
    assert wrong["failed"]["step"] == "validate" and wrong["advice"][0].startswith("The result is wrong"), wrong
    assert kernel["form"] == "kernel" and kernel["verdict"] == "library only" and kernel["why_no_time"], kernel
    assert kernel["precision_class"] == "f16", "the first of the session's classes that has a limit"
    assert status["state"] == "done" and "Best in f16" in status["ended_because"]
    assert status["ended_because"].startswith("The budget of 3 trials is used up") and "start from" not in str(status)
    assert [t["outcome"] for t in status["trials"]] == ["counted", "failed", "flagged"]
    assert best["trial"] == 1 and best["faster_than_pytorch"] and "program " in texts[0]
    log = house.get(f"/api/sessions/{session}/events?limit=2000")["events"]
    proposed = [e["data"] for e in log if e["kind"] == "trial.proposed"]
    assert [(p["change"], p["by"]) for p in proposed] == [
        ("the start", "strategy"),
        ("a wrong function", "strategy"),
        ("plain PyTorch", "strategy"),
    ]


NORM = """import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(64)

    def forward(self, x):
        return torch.relu(self.norm(x))

def get_inputs():
    return [torch.randn(128, 64)]
"""


def test_a_module_without_products_is_optimised_in_a_class_of_its_session(house):
    async def drive():
        async with over_http(house, new_token(house)["token"]) as agent:
            data, _ = await agent.call("start_session", module=NORM, classes=["tf32", "f16"], trials=1)
            session = data["session"]
            _, texts = await agent.call("report", session=session)
            starts = [text for text in texts if "to start from" in text]
            program = starts[0].split(":\n", 1)[1]
            checked, _ = await agent.call("check_program", program=program, session=session)
            await agent.call("propose", session=session, candidate=program)
            trial, _ = await agent.call("wait_for_trial", session=session, trial=1, timeout_s=90)
            return starts, checked, trial

    starts, checked, trial = run(drive())
    assert len(starts) == 1 and " in tf32 or f16 to start from" in starts[0], "one text serves both classes"
    assert checked["precision_class"] == "f32" and checked["in_the_session"]["counts_in_class"] == "tf32"
    assert (trial["outcome"], trial["precision_class"]) == ("counted", "tf32") and trial["gap_to_limit"] > 0, trial


def test_a_refused_module_says_why_with_its_line(house):
    async def drive():
        async with over_http(house, new_token(house)["token"]) as agent:
            refused, _ = await agent.call("report", module="import torch\ndef f(: pass")
            assert refused["status"] == 422 and "line 2" in refused["error"].lower(), refused

    run(drive())


def test_a_report_alone_ends_its_session_in_words_and_is_priced_in_the_class_asked_for(house):
    async def drive():
        async with over_http(house, new_token(house)["token"]) as agent:
            data, texts = await agent.call("report", module=MODULE, classes=["f16"])
            assert "priced in f16" in texts[0] and "Use the f16 class" not in texts[0], texts[0]
            assert "start_session" in data["next"]
            return data["session"]

    end = house.wait(run(drive()), lambda s: s["state"] == "ended")["summary"]["end"]
    assert end["reason"].startswith("Started for its report alone.") and "owner" not in end["reason"], end
