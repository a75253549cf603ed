"""Nobody else on the machine can read the database, its logs, its texts, the secret key or the static files."""

import os
import sqlite3
import stat

from tests.playground.conftest import House


def modes(top) -> dict[str, int]:
    return {
        os.path.relpath(os.path.join(at, name), top): stat.S_IMODE(os.lstat(os.path.join(at, name)).st_mode)
        for at, folders, files in os.walk(top)
        for name in (".", *files)
    }


def test_everything_in_var_is_ours_alone(tmp_path):
    var = tmp_path / "var"
    var.mkdir(mode=0o755)
    house = House(var)
    before = os.umask(0o022)
    try:
        house.web()
        reader = sqlite3.connect(var / "playground.sqlite3")  # an open one, so that SQLite keeps its log
        reader.execute("SELECT count(*) FROM playground_session").fetchone()
        house.submit()
        house.manage("collectstatic", "--no-input", "-v", "0")
        for name in ("playground.sqlite3", "playground.sqlite3-wal", "secret_key"):
            assert modes(var)[name] == 0o600, name
        assert all(mode & 0o077 == 0 for name, mode in modes(var).items() if not name.endswith((".log", ".gz", ".br")))
    finally:
        os.umask(before)
        house.close()


def test_an_older_folder_is_closed_to_others(tmp_path):
    from playground.access import private

    inner = tmp_path / "static"
    inner.mkdir()
    (inner / "a.js").write_text("x")
    (tmp_path / "link").symlink_to("/etc/hostname")
    for path in (tmp_path, inner):
        path.chmod(0o755)
    private.folder(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    private.tree(tmp_path)
    mode_of = {name: mode for name, mode in modes(tmp_path).items() if name != "link"}
    assert set(mode_of.values()) == {0o700, 0o600} and (inner / "a.js").read_text() == "x"


def test_a_folder_that_all_share_stays_as_it_is(tmp_path):
    from playground.access import private

    tmp_path.chmod(0o1777)
    private.folder(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777
    tmp_path.chmod(0o700)
