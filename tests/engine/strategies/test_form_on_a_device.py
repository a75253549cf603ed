"""Every strategy that a model leads takes the same forms: `auto` follows the device, and a person is told before the
first trial where raw kernels get no time."""

import pytest

from engine.session import events
from engine.strategies import registry
from engine.strategies.writing import FORM_ABOUT, Led
from tests.engine.counting import spec
from tests.engine.session.scripted import problem

LED = {name: s for name, s in registry.available().items() if issubclass(s, Led)}


def on(kind, strategy, **options):
    prepared = problem()
    prepared.device_kind = kind
    one = strategy(strategy.Options(**options))
    return one.form(prepared), "".join(text for _, text in one.remarks(prepared))


def test_all_of_them_take_the_same_forms_and_only_cutegen_follows_the_device_unasked():
    assert set(LED) == {"flat", "mucutlass", "two_stage", "optiml", "cutegen", "best_of", "chain"}
    fields = {name: s.Options.model_fields["form"] for name, s in LED.items()}
    assert {f.description for f in fields.values()} == {FORM_ABOUT}
    assert {name for name, f in fields.items() if f.default == "auto"} == {"cutegen"}
    assert {f.default for name, f in fields.items() if name != "cutegen"} == {"program"}


@pytest.mark.parametrize("strategy", LED.values(), ids=LED)
def test_the_form_follows_the_device_or_the_session_says_what_it_lacks(strategy):
    assert on("measured", strategy, form="auto") == ("kernel", "")
    assert on("measured", strategy, form="kernel") == ("kernel", "")
    assert on("predicted", strategy, form="program") == ("program", "")
    form, remark = on("predicted", strategy, form="auto")
    assert form == "program" and "a raw kernel would get no time" in remark and "choose a device with a GPU" in remark
    form, remark = on("predicted", strategy, form="kernel")
    assert form == "kernel" and 'Choose the form "program", or a device with a GPU' in remark


def test_where_no_program_covers_the_module_auto_is_kernels_also_on_a_modelled_device():
    prepared = problem()
    prepared.device_kind, prepared.__dict__["parts"] = "predicted", []
    assert LED["cutegen"]().form(prepared) == "kernel"


def test_a_session_notes_the_form_once_before_its_first_trial_and_its_end_repeats_it():
    from engine.llm.rehearse.player import Player
    from engine.session.runner import run
    from engine.strategies.api import Reply

    player = Player()
    log = [
        e.event for e in run(
            spec(strategy="cutegen", options={"depths": 1}, trials=2), device="modelled:h200", local_user=True,
            teaches=False, memory="", handlers={"ask": lambda ask, turn: Reply(player.reply(ask.prompt))},
        )
    ]  # fmt: skip
    (note,) = [e for e in log if isinstance(e, events.Noted) and e.code == "form"]
    first = next(e for e in log if isinstance(e, events.TrialProposed))
    assert log.index(note) < log.index(first) and first.form == "program"
    assert "the NVIDIA H200" in note.text and note.text in log[-1].reason
