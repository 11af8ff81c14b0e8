"""Programs in a sandbox trust its own authority where its rules open TLS, and only there."""
import pytest

from harness.boundary import Sandbox, boundary, limited, opened

NAME = "api.harbour.com"
URL = f"https://{NAME}/hello"
ANCHOR = "/usr/local/share/ca-certificates/atoll.crt"
CLIENTS = {
    "curl": f"curl -sS --fail --max-time 20 {URL}",
    "wget": f"wget -q -O - -T 20 {URL}",
    "python": f"python3 -c \"import urllib.request as u; print(u.urlopen('{URL}', timeout=20).read())\"",
    "node": f"node -e \"fetch('{URL}').then(r => process.exit(r.ok ? 0 : 1))\"",
    "openssl": f"openssl s_client -connect {NAME}:443 -servername {NAME} -verify_return_error"
               " </dev/null >/dev/null",
    # Whatever the server answers is fine; a certificate that is not trusted is not.
    "git": f"git ls-remote https://{NAME}/repository 2>&1 | tee /tmp/git; ! grep -i certificate /tmp/git",
    # The stores alone: no variable helps.
    "curl without variables": f"env -i /usr/bin/curl -sS --fail --max-time 20 {URL}",
    "openssl without variables": f"env -i /usr/bin/openssl s_client -connect {NAME}:443 -servername"
                                 f" {NAME} -verify_return_error </dev/null >/dev/null",
    "a login shell": f"env -i /bin/bash -lc 'curl -sS --fail --max-time 20 {URL}'",
    "sudo": f"sudo -n python3 -c \"import urllib.request as u; u.urlopen('{URL}', timeout=20)\"",
}


@pytest.fixture(scope="module")
def place():
    with boundary() as made:
        yield made


@pytest.fixture(scope="module")
def sandbox(place):
    made = place.sandbox()
    place.set_policy(made, opened(NAME))
    return made


@pytest.mark.parametrize("name", CLIENTS)
def test_clients(sandbox, name):
    done = sandbox.run(CLIENTS[name])
    if done["exit_code"] == 127:
        pytest.skip(f"the template has no {name}")
    assert done["exit_code"] == 0, done


def test_a_sandbox_without_such_rules_is_not_touched(place):
    plain = place.sandbox()
    place.set_policy(plain, limited(NAME))
    changed = plain.run(f"ls {ANCHOR} /etc/atoll /etc/profile.d/atoll-trust.sh; env; "
                        "grep -l Atoll /etc/environment /etc/ssl/certs/ca-certificates.crt")
    assert "atoll" not in changed["stdout"].lower().replace("atoll_", "")
    assert "SSL_CERT_FILE" not in changed["stdout"]
    # The real server's certificate is of an authority that nobody inside knows.
    assert plain.run(f"curl -sS --max-time 20 {URL}")["exit_code"] != 0


def test_it_is_there_when_the_claim_is_answered_and_after_a_start_from_files(place):
    sandbox = place.sandbox(opened(NAME))
    assert sandbox.run(CLIENTS["curl without variables"])["exit_code"] == 0
    sandbox.out("rm -rf /etc/atoll /usr/local/share/ca-certificates", user="root")
    place.client.expect(200, "POST", f"{sandbox.path}/pause", {"memory": False})
    place.client.expect(200, "POST", f"{sandbox.path}/resume")
    assert sandbox.run(CLIENTS["curl"])["exit_code"] == 0
    assert "BEGIN CERTIFICATE" in sandbox.out(f"cat {ANCHOR}")


def test_it_goes_with_the_last_rule_and_comes_back(place):
    sandbox = place.sandbox()
    before = sandbox.out("sha256sum /etc/ssl/certs/ca-certificates.crt")
    place.set_policy(sandbox, opened(NAME))
    assert sandbox.run(CLIENTS["curl"])["exit_code"] == 0
    assert sandbox.out("sha256sum /etc/ssl/certs/ca-certificates.crt") != before
    place.set_policy(sandbox, limited(NAME))
    assert sandbox.out("sha256sum /etc/ssl/certs/ca-certificates.crt") == before
    assert sandbox.run(f"ls {ANCHOR}")["exit_code"] != 0
    assert "SSL_CERT_FILE" not in sandbox.out("env")
    place.set_policy(sandbox, opened(NAME))
    assert sandbox.run(CLIENTS["curl"])["exit_code"] == 0


def test_it_survives_a_new_bundle_and_keeps_what_is_set(place, sandbox):
    sandbox.out("update-ca-certificates", user="root")
    assert sandbox.run(CLIENTS["curl without variables"])["exit_code"] == 0
    mine = sandbox.run("env", env_vars={"SSL_CERT_FILE": "/mine"})["stdout"]
    assert "SSL_CERT_FILE=/mine\n" in mine and "CURL_CA_BUNDLE=/etc" in mine


def test_a_fork_has_an_authority_of_its_own(place, sandbox):
    data = place.client.expect(201, "POST", f"{sandbox.path}/fork", {"start": True}).data
    child = Sandbox(place.client, data["sandboxes"][0]["id"])
    place.made.append(child)
    place.set_policy(child, opened(NAME))
    assert child.run(CLIENTS["curl"])["exit_code"] == 0
    assert child.out(f"cat {ANCHOR}") != sandbox.out(f"cat {ANCHOR}")
    bundle = child.out("cat /etc/ssl/certs/ca-certificates.crt")
    assert sandbox.out(f"cat {ANCHOR}") not in bundle and child.out(f"cat {ANCHOR}") in bundle


def test_a_sandbox_that_stood_still_meanwhile(place):
    sandbox = place.sandbox()
    place.client.expect(200, "POST", f"{sandbox.path}/pause", {})
    place.set_policy(sandbox, opened(NAME))
    assert sandbox.run(CLIENTS["curl"])["exit_code"] == 0
