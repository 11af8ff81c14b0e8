"""Services, a function called by its public address, and previews."""
import hashlib
import json
import urllib.error
import urllib.request

from sandbox0.apispec.api.sandboxes import (
    delete_api_v1_sandboxes_id_previews_preview_id as delete_preview,
    post_api_v1_sandboxes_id_previews as create_preview,
    put_api_v1_sandboxes_id_previews_preview_id as renew_preview,
)
from sandbox0.apispec.models.sandbox_app_service import SandboxAppService
from sandbox0.apispec.models.sandbox_preview_create_request import SandboxPreviewCreateRequest
from sandbox0.apispec.models.sandbox_preview_renew_request import SandboxPreviewRenewRequest

from support import check, client, finish, is_about, sandbox_of

TOKEN = "s3cret"
FUNCTION = "def handler(request):\n    return {'status': 201, 'body': {'path': request['path']}}\n"
LISTENER = SandboxAppService.from_dict({
    "id": "web", "port": 3000, "ingress": {"public": True, "routes": [{
        "id": "api", "path_prefix": "/api", "methods": ["GET", "POST"], "resume": True,
        "auth": {"mode": "bearer",
                 "bearer_token_sha256": hashlib.sha256(TOKEN.encode()).hexdigest()},
        "rate_limit": {"rps": 20, "burst": 40}, "timeout_seconds": 30}]}})


def fetch(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


function = {"id": "hook", "runtime": {"type": "function", "function": {
    "runtime": "python", "handler": "handler", "source": {"type": "inline", "code": FUNCTION}}},
    "ingress": {"public": True, "routes": [
        {"id": "hook", "path_prefix": "/webhook", "resume": True}]}}

with sandbox_of(services=[function]) as sandbox:
    @check("a function declared at the claim is called by its public_url")
    def _():
        (view,) = sandbox.get_services().services
        assert (view.id, view.port, view.publishable) == ("hook", 49983, True)
        status, body = fetch(view.public_url + "/webhook/github")
        assert (status, json.loads(body)) == (201, {"path": "/webhook/github"})

    @check("update_services replaces all of them")
    def _():
        (view,) = sandbox.update_services([LISTENER]).services
        assert view.publishable is False and view.publish_blockers == ["missing_runtime"]
        assert view.ingress.routes[0].rate_limit.rps == 20
        assert fetch(view.public_url + "/api")[0] == 401
        assert fetch(view.public_url + "/api", Authorization=f"Bearer {TOKEN}")[0] == 502
        assert [each.id for each in client.sandboxes.get(sandbox.id).services] == ["web"]

    @check("clear_services")
    def _():
        assert sandbox.clear_services().services == []

    @check("previews: create, renew, delete")
    def _():
        made = create_preview.sync(sandbox.id, client=client.api, body=SandboxPreviewCreateRequest(
            port=3000, path="/page", ttl_seconds=60)).data
        assert (made.sandbox_id, made.port, made.protocol.value) == (sandbox.id, 3000, "http")
        assert is_about(made.expires_at, 60) and made.target_url.endswith("/page")
        assert "/.sandbox0/preview/bootstrap?token=" in made.url
        renewed = renew_preview.sync(sandbox.id, made.id, client=client.api,
                                     body=SandboxPreviewRenewRequest(ttl_seconds=900)).data
        assert is_about(renewed.expires_at, 900)
        assert delete_preview.sync(sandbox.id, made.id, client=client.api).success is True

finish()
