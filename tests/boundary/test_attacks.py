"""Every item of the attack list, as a program in a sandbox, judged by what the witness saw."""
import pytest

import attacks_availability  # noqa: F401
import attacks_http  # noqa: F401
import attacks_mcp  # noqa: F401
import attacks_naming  # noqa: F401
import attacks_secrets  # noqa: F401
import attacks_tls  # noqa: F401
from attacks import ATTACKS, INSPECTED, ITEMS, LIMITED, OPEN, TRIED
from control import can_be_tried
from world import API, API6, EVIL

GET = 'to("{0}", b"GET /hello HTTP/1.1\\r\\nHost: {0}\\r\\nConnection: close\\r\\n\\r\\n")'


# The ways that attacks use do lead somewhere when nobody closes them ------------------------------
def test_what_is_allowed_arrives(field):
    field.policy(LIMITED)
    got = field.run(f'got["a"] = {GET.format("api.harbour.com")}')
    assert "hello from the witness" in got["a"]["data"], got
    sight = field.seen()
    assert sight.to(API, API6) and sight.requests(API)[0]["target"] == "/hello"


def test_everything_public_is_open_without_a_policy(field):
    field.policy(OPEN)
    got = field.run("""
        got["raw"] = tcp(EVIL, 7777, b"hello", 1)
        got["http"] = tcp(EVIL, 80, b"GET / HTTP/1.0\\r\\n\\r\\n", 1)
        got["udp"] = udp(EVIL, 5000, b"hello")
        got["v6"] = tcp("2a00:6600::66", 80, b"GET / HTTP/1.0\\r\\n\\r\\n", 1)
    """)
    assert got["raw"]["data"] == "witness:hello" and got["udp"]["data"] == "witness:hello", got
    assert "hello from" in got["http"]["data"] and "hello from" in got["v6"]["data"], got
    assert len(field.seen().to(EVIL)) > 5


def test_opened_tls_reaches_the_server_in_both_versions(field):
    field.policy(INSPECTED)
    got = field.run(f"""
        got["h1"] = {GET.format("api.harbour.com")}
        h = H2(API, "api.harbour.com")
        h.get(1, "api.harbour.com")
        got["h2"] = h.collect()
        h = H2("5.5.1.13", "old.harbour.com")
        h.get(1, "old.harbour.com")
        got["down"] = h.collect()
    """)
    assert "hello from" in got["h1"]["data"], got
    assert "hello from" in got["h2"]["1"]["body"] and "hello from" in got["down"]["1"]["body"], got


def test_credentials_arrive_where_they_belong(field):
    field.policy(field.credentialed())
    got = field.run(f"""
        got["a"] = {GET.format("api.harbour.com")}
        got["b"] = to("pay.harbour.com", b"POST /hello?k=" + BETA + b" HTTP/1.1\\r\\nHost: pay.harbour.com\\r\\nX-Key: " + BETA + b"\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n" % len(BETA) + BETA)
    """, BETA=field.placeholder("beta"))
    sight = field.seen()
    alpha, beta = field.secrets["alpha"], field.secrets["beta"]
    assert sight.headers("authorization", API) == [f"Bearer {alpha}"], got
    request, = sight.requests("5.5.1.11")
    assert request["target"] == f"/hello?k={beta}" and request["body"] == beta, request
    field.secrets_kept()


def on_the_bare_host(field, name, function, value, has_value):
    """There it must succeed: an attack that fails anyway is named in the end."""
    if not can_be_tried(name):
        pytest.skip("not on the bare host")
    TRIED[name] = True
    try:
        function(field, value) if has_value else function(field)
    except AssertionError as problem:
        assert "the program itself broke" not in str(problem), problem
        TRIED[name] = False


# The attacks --------------------------------------------------------------------------------------
@pytest.mark.parametrize("item, function, value, has_value", ATTACKS)
def test_attack(request, field, item, function, value, has_value):
    name = request.node.callspec.id
    if request.config.getoption("--control"):
        return on_the_bare_host(field, name, function, value, has_value)
    TRIED[name] = False
    if item == "E":
        field.stage.servers.mcp()
    api = field.server.daemons().get("api")
    function(field, value) if has_value else function(field)
    field.secrets_kept()
    assert item in ("F1",) or field.server.daemons().get("api") == api, "the proxy died of it"
    TRIED[name] = True


def test_every_item_of_the_list_is_tried():
    assert len(ATTACKS) >= 60
    assert sorted({each.values[0] for each in ATTACKS}) == sorted(ITEMS)
