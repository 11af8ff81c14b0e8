"""Services and previews."""
import urllib.error
import urllib.request

from atoll_sandbox import Sandbox

FUNCTION = {"id": "hello", "runtime": {"type": "function", "function": {
    "runtime": "python",
    "source": {"type": "inline", "code": "def handler(request):\n    return {'body': 'hi'}\n"}}},
    "ingress": {"public": True}}


def fetch(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_services_and_previews(server):
    with Sandbox.create() as sandbox:
        (view,) = sandbox.services.set([FUNCTION])
        assert view.publishable and fetch(view.public_url + "/") == (200, b"hi")
        process = sandbox.commands.start("echo here > index.html; "
                                         "exec python3 -u -m http.server 3000 --bind 127.0.0.1")
        for event in process:
            break  # it says so when it listens
        url = sandbox.services.expose(3000, token="secret")
        assert fetch(url + "/")[0] == 401
        assert fetch(url + "/", Authorization="Bearer secret") == (200, b"here\n")
        assert [each.id for each in sandbox.services.list()] == ["hello", "port-3000"]
        sandbox.services.set([])
        assert fetch(url + "/")[0] == 404
        preview = sandbox.previews.create(3000, ttl=60)
        header = {"X-Sandbox0-Preview": preview.access_token}
        assert fetch(preview.target_url, **header) == (200, b"here\n")
        assert sandbox.previews.renew(preview.id, ttl=90).expires_at > preview.expires_at
        sandbox.previews.delete(preview.id)
        assert fetch(preview.target_url, **header)[0] == 404
