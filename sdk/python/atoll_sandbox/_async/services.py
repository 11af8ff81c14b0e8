"""What the outside may reach of a sandbox: `sandbox.services` and `sandbox.previews`."""
from __future__ import annotations

import hashlib
from typing import Any, Dict, Iterable, List, Mapping, Optional, Union

from .._models import (
    SandboxPreview,
    SandboxPreviewCreate,
    SandboxPreviewRenew,
    SandboxService,
    SandboxServices,
)
from .._wire import Request, Seconds, parse, path, whole_seconds
from .client import AsyncClient


class AsyncServices:
    """Ports, commands and functions under names of their own."""

    def __init__(self, client: AsyncClient, sandbox_id: str) -> None:
        self._client = client
        self._path = path("sandboxes", sandbox_id) + "/services"

    async def list(self) -> List[SandboxService]:
        answer = await self._client.call(Request("GET", self._path))
        return parse(SandboxServices.from_json, answer).services

    async def set(self, services: Iterable[Union[SandboxService, Mapping[str, Any]]]
                  ) -> List[SandboxService]:
        """All of them: what is not given is not reachable any more."""
        body: Dict[str, Any] = {"services": [
            each.to_json() if isinstance(each, SandboxService) else dict(each)
            for each in services]}
        answer = await self._client.call(Request("PUT", self._path, json=body, repeatable=True))
        return parse(SandboxServices.from_json, answer).services

    async def expose(self, port: int, *, name: Optional[str] = None, token: Optional[str] = None,
                     resume: bool = True) -> str:
        """Makes a port public, beside what is there, and gives its address. With a token callers
        must send it as `Authorization: Bearer`."""
        name = name or f"port-{port}"
        route: Dict[str, Any] = {"id": name, "resume": resume}
        if token is not None:
            digest = hashlib.sha256(token.encode()).hexdigest()
            route["auth"] = {"mode": "bearer", "bearer_token_sha256": digest}
        others = [each for each in await self.list() if each.id != name and each.port != port]
        service = {"id": name, "port": port, "ingress": {"public": True, "routes": [route]}}
        for made in await self.set([*others, service]):
            if made.id == name and made.public_url is not None:
                return made.public_url
        raise AssertionError("the service is not in its own answer")


class AsyncPreviews:
    """Private looks at one port, for a while."""

    def __init__(self, client: AsyncClient, sandbox_id: str) -> None:
        self._client = client
        self._path = path("sandboxes", sandbox_id) + "/previews"

    async def create(self, port: int, *, target: str = "/", https: bool = False,
                     ttl: Optional[Seconds] = None) -> SandboxPreview:
        """`url` opens it in a browser, once; programs send `access_token` in the header
        X-Sandbox0-Preview."""
        body = SandboxPreviewCreate(port=port, protocol="https" if https else None, path=target,
                                    ttl_seconds=whole_seconds(ttl, "ttl")).to_json()
        return parse(SandboxPreview.from_json,
                     await self._client.call(Request("POST", self._path, json=body)))

    async def renew(self, id: str, *, ttl: Optional[Seconds] = None) -> SandboxPreview:
        body = SandboxPreviewRenew(ttl_seconds=whole_seconds(ttl, "ttl")).to_json()
        return parse(SandboxPreview.from_json, await self._client.call(
            Request("PUT", f"{self._path}/{id}", json=body, repeatable=True)))

    async def delete(self, id: str) -> None:
        await self._client.call(Request("DELETE", f"{self._path}/{id}", repeatable=True))
