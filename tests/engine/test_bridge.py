"""The bridge for agents: where the token comes from, which addresses it takes, and why it does not start."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.__main__ import main
from engine.bridge import BadBridge, address_of, token_of


def test_the_token_comes_from_the_environment_or_a_file_of_ours(tmp_path):
    file = tmp_path / "token"
    file.write_text("Abc-123\n")
    file.chmod(0o600)
    assert token_of(None, {"UCUTLASS_TOKEN": " Abc "}) == "Abc" and token_of(None, {}) == ""
    assert token_of(str(file), {"UCUTLASS_TOKEN": "other"}) == "Abc-123"
    file.chmod(0o644)
    with pytest.raises(BadBridge, match="chmod 600"):
        token_of(str(file), {})
    with pytest.raises(BadBridge, match="No such file"):
        token_of(str(tmp_path / "none"), {})


@pytest.mark.parametrize("token", ["two words", "ü", "a\x00b", "x" * 201])
def test_what_is_no_token_is_refused_without_showing_it(token):
    with pytest.raises(BadBridge) as e:
        token_of(None, {"UCUTLASS_TOKEN": token})
    assert token not in str(e.value) and "UCUTLASS_TOKEN" in str(e.value)


def test_an_address_is_that_of_the_playground_or_of_its_mcp():
    for url in (
        "http://127.0.0.1:8000",
        "http://127.0.0.1:8000/",
        "http://127.0.0.1:8000/mcp",
        "http://127.0.0.1:8000/mcp/",
    ):
        assert address_of(url) == "http://127.0.0.1:8000/mcp"
    for url in ("ftp://x", "127.0.0.1:8000", "http://user:pw@x", "http://x?token=1", ""):
        with pytest.raises(BadBridge, match="write for example"):
            address_of(url)


def test_no_playground_is_one_sentence_and_no_traceback(capsys, monkeypatch):
    monkeypatch.delenv("UCUTLASS_TOKEN", raising=False)
    with ThreadPoolExecutor(1) as pool:  # where browser tests ran before, this thread has a running event loop
        assert pool.submit(main, ["mcp", "--url", "http://127.0.0.1:9"]).result() == 2
    output = capsys.readouterr()
    assert "no playground answers at http://127.0.0.1:9/mcp" in output.err and "make run" in output.err
    assert "Traceback" not in output.err and output.out == ""
