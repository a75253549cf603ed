"""What the operator sets is read with its types, and a mistake names its variable and never the key."""

import json
import os

import pytest

from engine.llm import handler
from engine.llm.settings import BadSettings, Prices, load, rows

KEY = "sk-secret-0123456789abcdef"
TABLE = {"date": "2026-11-01", "models": {"big": {"in": 2, "cached": 0.5, "out": 10}, "big-mini": {"in": 1, "out": 3}}}


def test_nothing_set_says_what_to_set_in_two_sentences():
    reason = load({}).why_not("plan")
    assert reason.count(". ") == 1 and reason.endswith(".")
    assert all(name in reason for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "UCUTLASS_MODEL"))


def test_a_role_has_its_own_model():
    settings = load({"OPENAI_API_KEY": KEY, "UCUTLASS_MODEL": "small", "UCUTLASS_MODEL_TRIAGE": "big"})
    assert (settings.model_for("triage"), settings.model_for("nominate")) == ("big", "small")
    alone = load({"OPENAI_API_KEY": KEY, "UCUTLASS_MODEL_TRIAGE": "big"})
    assert alone.why_not("triage") == "" and "UCUTLASS_MODEL_PLAN_AHEAD" in alone.why_not("plan ahead")


def test_only_what_is_set_is_sent():
    assert load({}).sampling == {}
    values = load({"UCUTLASS_TEMPERATURE": "0.2", "UCUTLASS_REASONING_EFFORT": "low", "UCUTLASS_TOP_P": " "}).sampling
    assert values == {"temperature": 0.2, "reasoning_effort": "low"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("UCUTLASS_TEMPERATURE", "hot"), ("UCUTLASS_TOP_P", "2"), ("UCUTLASS_TOKENS_A_DAY", "0"),
        ("UCUTLASS_CALL_SECONDS", "1.5"), ("OPENAI_BASE_URL", "localhost:8000"), ("UCUTLASS_MODEL", "two words"),
        ("OPENAI_BASE_URL", f"https://user:{KEY}@host/v1"), ("OPENAI_API_KEY", f"{KEY}\nX-Other: 1"),
        ("UCUTLASS_ENDPOINTS", "https://a/v1, b"), ("UCUTLASS_PRICES", "no/such/file.json"),
    ],
)  # fmt: skip
def test_a_mistake_names_its_variable(name, value):
    with pytest.raises(BadSettings, match=rf"^{name}.* is not valid: .+\.$") as caught:
        load({name: value})
    assert KEY not in str(caught.value) and caught.value.__cause__ is None


def test_prices_come_from_a_file_with_a_date(tmp_path):
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(TABLE))
    prices = load({"UCUTLASS_PRICES": str(path)}).prices
    assert prices.date.isoformat() == "2026-11-01"
    tokens = {"in": 1_000_000, "cached": 400_000, "out": 100_000}
    assert prices.cost("big", tokens) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.1 * 10)
    assert prices.cost("big-2026-10-01", tokens) == prices.cost("big", tokens)
    assert prices.cost("big-mini-2026-10-01", {"in": 1_000_000, "out": 0}) == pytest.approx(1.0)
    assert prices.cost("bigger", tokens) is None and prices.cost("big", {"out": 5}) is None


@pytest.mark.parametrize(
    "text", ["{", "[]", json.dumps({"models": {}}), json.dumps(TABLE).replace('"in": 2', '"in": -2')]
)
def test_a_bad_price_table_is_refused_with_its_place(tmp_path, text):
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(BadSettings, match=r"UCUTLASS_PRICES.*is no price table \("):
        load({"UCUTLASS_PRICES": str(path)})


def test_the_table_has_every_variable():
    names = [name for name, _, _ in rows()]
    assert len(names) == len(set(names)) and {"OPENAI_API_KEY", "UCUTLASS_MODEL_<ROLE>", "UCUTLASS_PRICES"} <= set(
        names
    )
    assert {n: d for n, d, _ in rows()}["UCUTLASS_TOKENS_A_CALL"] == "16384"


def test_children_do_not_inherit_the_key(monkeypatch):
    import resource

    limits = []
    monkeypatch.setattr(resource, "setrlimit", lambda *limit: limits.append(limit))
    environ = {"OPENAI_API_KEY": KEY, "UCUTLASS_MODEL": "m"}
    settings = handler.of_environment(environ)
    assert "OPENAI_API_KEY" not in environ and settings.key.get_secret_value() == KEY
    assert limits == [(resource.RLIMIT_CORE, (0, 0))]
    assert KEY not in repr(settings) and KEY not in settings.model_dump_json() and KEY not in str(os.environ)


def test_a_price_table_in_the_readme_is_valid():
    (text,) = (text for name, _, text in rows() if name == "UCUTLASS_PRICES")
    assert Prices.model_validate_json(text.split("`")[1]).models["NAME"].out == 10
