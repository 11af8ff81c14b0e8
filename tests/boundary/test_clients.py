"""Real clients whose TLS is opened on the way, each with and without a credential.

Without: they see the page and nobody adds anything. With: /private answers only to a token that is
nowhere in the sandbox.
"""
import pytest

from attacks import limited
from clients import bundle, fill_web
from servers import POSTGRES_PASSWORD, REDIS_PASSWORD

SETUP = ("export PATH=$PATH:/opt/clients/bin PYTHONPATH=/opt/clients/python HOME=/tmp; "
         "lib=/opt/clients/lib; cd /tmp; url=https://www.harbour.com{prefix}; ")

# Name -> (command, what it prints). `{prefix}` is "" or "/private".
CLIENTS = {
    "curl-http1": ("curl -sSf --http1.1 $url/hello", "hello from nginx"),
    "curl-http2": ("curl -sSf --http2 -w '%{{http_version}}' $url/hello", "hello from nginx\n2"),
    "wget": ("LD_LIBRARY_PATH=$lib wget -qO- $url/hello", "hello from nginx"),
    "git": ("rm -rf clone; git clone -q $url/repository.git clone && cat clone/readme",
            "hello from git"),
    "urllib": ("python3 -c 'import sys, urllib.request as r; "
               "print(r.urlopen(sys.argv[1]).read().decode())' $url/hello", "hello from nginx"),
    "requests": ("python3 -c 'import sys, requests; r = requests.get(sys.argv[1]); "
                 "r.raise_for_status(); print(r.text)' $url/hello", "hello from nginx"),
    "httpx": ("python3 -c 'import sys, httpx; r = httpx.Client(http2=True).get(sys.argv[1]); "
              "r.raise_for_status(); print(r.text, r.http_version)' $url/hello",
              "hello from nginx\n HTTP/2"),
    "pip": ("rm -rf t; pip install -q --disable-pip-version-check --no-cache-dir --target t "
            "--index-url $url/simple tinypackage && PYTHONPATH=t python3 -m tinypackage",
            "hello from pip"),
    "node": ("node -e 'fetch(process.argv[1]).then(async (r) => {{ if (!r.ok) throw r.status; "
             "console.log(await r.text()) }}).catch((e) => {{ console.error(e); process.exit(1) }})'"
             " $url/hello", "hello from nginx"),
    "npm": ("rm -rf n && mkdir n && cd n && npm install --silent --no-audit --no-fund "
            "--prefer-online --registry $url/npm/ tiny && node -e 'require(\"tiny\")'",
            "hello from npm"),
    "openssl": ("printf 'GET {prefix}/hello HTTP/1.0\\r\\nHost: www.harbour.com\\r\\n\\r\\n' | "
                "timeout 20 openssl s_client -quiet -verify_return_error -connect www.harbour.com:443 "
                "-servername www.harbour.com -ign_eof 2>/dev/null", "hello from nginx"),
    "go": ("go-fetch $url/hello", "hello from nginx"),
    "java": ("/opt/clients/jvm/java/bin/java -cp /opt/clients/jvm/classes Fetch $url/hello",
             "hello from nginx"),
}


@pytest.fixture(scope="session")
def archive():
    return bundle()


@pytest.fixture(scope="session")
def place(archive, stage):
    """A sandbox with every client."""
    sandbox = stage.sandbox()
    data, names = archive
    sandbox.write("/tmp/clients.tar", data)
    sandbox.out("mkdir -p /opt/clients && tar -xf /tmp/clients.tar -C /opt/clients && "
                "rm /tmp/clients.tar", user="root", timeout_ms=120_000)
    fill_web(stage.servers.web())
    stage.source("web", stage.servers.token)
    return sandbox, names


def set_policy(stage, sandbox, policy):
    stage.client.expect(200, "PUT", f"{sandbox.path}/network", {"credentialBindings": [], **policy})


def opened(*domains, **more):
    look = {"name": "look", "protocol": "http", "domains": list(domains),
            "tlsMode": "terminate-reoriginate", "http": {"methods": {"denied": ["DELETE"]}}}
    return limited(*domains, protocolRules=[look], **more)


def with_token(stage):
    policy = opened("www.harbour.com", credentialRules=[
        {"name": "web", "credentialRef": "web", "protocol": "https", "domains": ["www.harbour.com"],
         "tlsMode": "terminate-reoriginate", "httpMatch": {"pathPrefixes": ["/private/"]}}])
    policy["credentialBindings"] = [{"ref": "web", "sourceRef": "web", "projection": {
        "type": "http_headers", "httpHeaders": {"headers": [
            {"name": "Authorization", "valueTemplate": "Bearer {{ .token }}"}]}}}]
    return policy


def run(sandbox, name, prefix):
    command, expected = CLIENTS[name]
    done = sandbox.run((SETUP + command).format(prefix=prefix), user="root", timeout_ms=120_000)
    return done, expected if prefix == "" or "nginx" not in expected else f"private {expected}"


@pytest.mark.parametrize("credential", [False, True], ids=["plain", "credential"])
@pytest.mark.parametrize("name", CLIENTS)
def test_client(stage, place, name, credential):
    sandbox, names = place
    if name in ("go", "java") and name not in names:
        pytest.skip(f"no {name} on this machine")
    stage.world.usual()
    set_policy(stage, sandbox, with_token(stage) if credential else opened("www.harbour.com"))
    before = len(stage.servers.web_log())
    done, expected = run(sandbox, name, "/private" if credential else "")
    assert done["exit_code"] == 0, done
    assert expected in done["stdout"], done
    lines = stage.servers.web_log()[before:]
    assert lines, "nginx saw nothing"
    token = stage.servers.token
    assert all((token in line) == credential for line in lines), lines
    assert token not in done["stdout"] + done["stderr"]


@pytest.mark.parametrize("name", ["curl-http1", "git", "requests", "node"])
def test_without_the_rule_the_door_stays_shut(stage, place, name):
    sandbox, _ = place
    set_policy(stage, sandbox, opened("www.harbour.com"))
    done, _ = run(sandbox, name, "/private")
    assert done["exit_code"] != 0 and "hello" not in done["stdout"], done


def test_tls_that_is_not_opened_keeps_its_certificate(stage, place):
    """Where no rule needs it, the client talks to the server itself."""
    sandbox, _ = place
    set_policy(stage, sandbox, limited("www.harbour.com"))
    done = sandbox.run("openssl s_client -connect www.harbour.com:443 -servername www.harbour.com "
                       "</dev/null 2>/dev/null | grep issuer", user="root")
    assert "Test Authority" in done["stdout"], done


@pytest.mark.parametrize("credential", [False, True], ids=["plain", "credential"])
def test_grpc(stage, place, credential):
    """Unary, both ways streaming, trailers and a status that is an error."""
    sandbox, _ = place
    stage.servers.grpc()
    policy = opened("grpc.harbour.com")
    if credential:
        policy = with_token(stage)
        policy["egress"]["trafficRules"][0]["domains"] = ["grpc.harbour.com"]
        policy["egress"]["protocolRules"] = []
        policy["egress"]["credentialRules"][0].update(domains=["grpc.harbour.com"], protocol="grpc")
        policy["egress"]["credentialRules"][0].pop("httpMatch")
    set_policy(stage, sandbox, policy)
    done = sandbox.run("PYTHONPATH=/opt/clients/python python3 /opt/clients/grpc_client.py",
                       user="root", timeout_ms=90_000)
    assert done["exit_code"] == 0, done
    assert done["stdout"].splitlines() == [
        "echo:hello True", "['one:a', 'two:a', 'one:b', 'two:b']", "FAILED_PRECONDITION not today"]


# Protocols with a password ------------------------------------------------------------------------
def password_policy(protocol, domain, port):
    policy = limited(domain, credentialRules=[
        {"name": "login", "credentialRef": "login", "protocol": protocol, "domains": [domain],
         "ports": [{"port": port}]}])
    policy["credentialBindings"] = [{"ref": "login", "sourceRef": f"{protocol}-login", "projection": {
        "type": "username_password", "usernamePassword": {}}}]
    return policy


def password_source(stage, name, username, password):
    body = {"name": name, "resolverKind": "static_username_password",
            "spec": {"staticUsernamePassword": {"username": username, "password": password}}}
    assert stage.client.call("POST", "/api/v1/credential-sources", body).status in (201, 409)


REDIS_CLI = "LD_LIBRARY_PATH=/opt/clients/lib timeout 20 /opt/clients/bin/redis-cli -h redis.harbour.com "
PSQL = ("LD_LIBRARY_PATH=/opt/clients/lib PGCONNECT_TIMEOUT=15 timeout 30 /opt/clients/bin/psql "
        "-h db.harbour.com -U agent -d postgres -tAc 'select 6*7' ")


def test_redis_without_a_credential(stage, place):
    sandbox, _ = place
    stage.servers.redis()
    set_policy(stage, sandbox, limited("redis.harbour.com"))
    assert "NOAUTH" in sandbox.run(REDIS_CLI + "PING", user="root")["stdout"]
    done = sandbox.run(REDIS_CLI + f"--no-auth-warning -a {REDIS_PASSWORD} PING", user="root")
    assert done["stdout"].strip() == "PONG", done


def test_redis_with_a_credential(stage, place):
    sandbox, _ = place
    stage.servers.redis()
    password_source(stage, "redis-login", "default", REDIS_PASSWORD)
    set_policy(stage, sandbox, password_policy("redis", "redis.harbour.com", 6379))
    done = sandbox.run(REDIS_CLI + "PING", user="root")
    assert done["stdout"].strip() == "PONG", done
    assert sandbox.out(REDIS_CLI + "SET a 1 && " + REDIS_CLI + "GET a", user="root").split() == [
        "OK", "1"]


def test_psql_without_a_credential(stage, place):
    sandbox, _ = place
    stage.servers.postgres()
    set_policy(stage, sandbox, limited("db.harbour.com"))
    assert sandbox.run(PSQL + "-w", user="root")["exit_code"] != 0
    done = sandbox.run(f"PGPASSWORD={POSTGRES_PASSWORD} " + PSQL, user="root")
    assert done["stdout"].strip() == "42", done


def test_psql_with_a_credential(stage, place):
    sandbox, _ = place
    stage.servers.postgres()
    password_source(stage, "postgres-login", "agent", POSTGRES_PASSWORD)
    set_policy(stage, sandbox, password_policy("postgres", "db.harbour.com", 5432))
    done = sandbox.run(PSQL + "-w", user="root")
    assert done["stdout"].strip() == "42", done
