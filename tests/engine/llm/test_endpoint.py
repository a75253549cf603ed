"""A visitor's endpoint is one that the operator lists, public, and called at the address that was checked."""

import pytest

from engine.llm.client import Patience, complete
from engine.llm.endpoint import Endpoint, Forbidden, is_public, operators, visitors
from engine.llm.request import Call
from engine.llm.settings import load
from tests.engine.llm.server import says, status

LISTED = "https://models.example/v1"
SETTINGS = load(
    {"UCUTLASS_ENDPOINTS": f"{LISTED}, http://plain.example/v1", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
)
PRIVATE = (
    "127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
    "255.255.255.255", "224.0.0.1", "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1",
    "fd12::1", "fec0::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1",
    "2002:7f00:1::", "2002:a00:1::", "2001:db8::1", "no address", "",
)  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_an_inner_address_is_refused(address):
    assert not is_public(address)
    with pytest.raises(Forbidden, match="private network"):
        visitors(LISTED, "k", SETTINGS, lambda host, port: ["93.184.215.14", address])


@pytest.mark.parametrize("address", ["93.184.215.14", "8.8.8.8", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
def test_a_public_address_is_pinned(address):
    endpoint = visitors(f"{LISTED}/", "k", SETTINGS, lambda host, port: [address])
    assert (endpoint.address, endpoint.host, endpoint.whose) == (address, "models.example", "visitor")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://other.example/v1", "operator allows: https://models.example"),
        ("https://models.example/v1/../x", "not allowed"), ("https://models.example@evil.example/v1", "not allowed"),
        ("http://plain.example/v1", "https only"), ("", "not allowed"), ("http://127.0.0.1:1/v1", "not allowed"),
    ],
)  # fmt: skip
def test_what_the_operator_does_not_list_is_refused(url, words):
    with pytest.raises(Forbidden, match=words):
        visitors(url, "k", SETTINGS, lambda host, port: ["8.8.8.8"])


def test_a_name_without_an_address_is_refused():
    def nowhere(host, port):
        raise OSError("no such name")

    with pytest.raises(Forbidden, match=r"models\.example has no network address"):
        visitors(LISTED, "k", SETTINGS, nowhere)


def test_the_operators_own_endpoint_may_be_local():
    assert operators(SETTINGS) == Endpoint("http://127.0.0.1:1/v1")
    assert operators(load({"OPENAI_API_KEY": "sk-12345678"})).base_url == "https://api.openai.com/v1"


def test_the_connection_goes_to_the_checked_address(server):
    """The name has no address at all: only the pinned one can have been used."""
    endpoint = Endpoint(f"http://models.invalid:{server.port}/v1", "k", "visitor", "127.0.0.1")
    server.play(says("pinned"))
    assert complete(endpoint, Call("m", "?")).text == "pinned"
    assert server.requests[0].headers["Host"] == f"models.invalid:{server.port}"


def test_a_visitors_request_has_nothing_of_the_operator(server, monkeypatch):
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "of-the-operator")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    endpoint = Endpoint(f"http://models.invalid:{server.port}/v1", "of-the-visitor", "visitor", "127.0.0.1")
    server.play(says("ok"))
    assert complete(endpoint, Call("m", "?")).refusal == ""
    headers = str(server.requests[0].headers)
    assert "of-the-visitor" in headers and "of-the-operator" not in headers


def test_a_redirect_is_not_followed(server):
    server.play(status(302, Location=f"{server.url}/elsewhere"), status(307, Location=f"{server.url}/elsewhere"))
    for _ in range(2):
        reply = complete(Endpoint(server.url, "k"), Call("m", "?"), patience=Patience(retries=0))
        assert reply.refusal == "refused" and "redirect" in reply.reason
    assert len(server.requests) == 2
