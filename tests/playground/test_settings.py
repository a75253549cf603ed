"""Every setting of the environment is in the table, and each value that cannot be read names itself and a fix."""

import os
import re
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command

from playground import conf, engines
from tests.playground.conftest import ROOT

ROOMS = ("dsl", "sol", "engine", "playground", "ucutlass_web")


# Not settings: what one of our processes tells its own child.
INTERNAL = {"UCUTLASS_SANDBOX"}
READ = re.compile(r"""(?:environ(?:\.get\(|\[)|getenv\(|conf\.get\()\s*["'](UCUTLASS_[A-Z_]+|DATABASE_URL)["']""")


def test_no_setting_is_undocumented():
    named = set()
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            named |= set(READ.findall(path.read_text(encoding="utf-8")))
    assert "UCUTLASS_QUEUE" in named or "DATABASE_URL" in named, "the pattern finds nothing"
    assert named - INTERNAL <= {s.name for s in conf.SETTINGS}


def test_no_documented_setting_is_dead():
    source = "".join(
        p.read_text(encoding="utf-8") for room in ROOMS for p in (ROOT / room).rglob("*.py") if p.name != "conf.py"
    )
    assert [s.name for s in conf.SETTINGS if s.name not in source] == []


def test_the_table_names_each_with_its_default():
    table = conf.table()
    for setting in conf.SETTINGS:
        assert f"`{setting.name}`" in table and setting.text in table


def test_the_readme_has_the_table():
    assert conf.table() in (ROOT / "README.md").read_text(encoding="utf-8"), (
        "paste what manage.py settings_table prints"
    )


@pytest.mark.parametrize(
    ("name", "value"), [("UCUTLASS_QUEUE", "many"), ("UCUTLASS_QUEUE", "0"), ("UCUTLASS_DEBUG", "yes")]
)
def test_a_value_that_cannot_be_read_names_itself(name, value):
    with pytest.raises(conf.BadSetting, match=f"{name}='{value}'"):
        conf.get(name, {name: value})


def test_an_empty_value_is_none_given():
    assert conf.get("UCUTLASS_QUEUE", {"UCUTLASS_QUEUE": " "}) == 100


def test_an_engine_with_a_bad_setting_of_models_does_not_start(monkeypatch):
    monkeypatch.setenv("UCUTLASS_TOKENS_A_DAY", "plenty")
    with pytest.raises(CommandError, match="UCUTLASS_TOKENS_A_DAY='plenty' is not valid") as caught:
        call_command("engine", device="modelled:h200", once=True)
    assert caught.value.returncode == engines.CANNOT


def settings(**environ):
    code = "from ucutlass_web import settings as s; print(s.SECRET_KEY, s.DATABASES['default'], s.DEBUG)"
    full = {"PATH": os.environ["PATH"], **environ}
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=full, capture_output=True, text=True)


def test_the_secret_key_is_made_once_and_kept_from_others(tmp_path):
    first, second = (settings(UCUTLASS_VAR=str(tmp_path)).stdout.split()[0] for _ in range(2))
    assert first == second and len(first) > 50
    assert (tmp_path / "secret_key").stat().st_mode & 0o077 == 0


def test_a_database_url_is_understood(tmp_path):
    output = settings(UCUTLASS_VAR=str(tmp_path), DATABASE_URL="postgres://me:p%40ss@db:5433/play").stdout
    for part in ("'NAME': 'play'", "'USER': 'me'", "'PASSWORD': 'p@ss'", "'HOST': 'db'", "'PORT': '5433'"):
        assert part in output


def test_a_database_url_of_another_kind_is_refused_with_the_form(tmp_path):
    output = settings(UCUTLASS_VAR=str(tmp_path), DATABASE_URL="mysql://x/y").stderr
    assert "postgres://user:password@host" in output


def test_debug_is_off_unless_asked_for(tmp_path):
    assert settings(UCUTLASS_VAR=str(tmp_path)).stdout.strip().endswith("False")
