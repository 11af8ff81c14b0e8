"""`client.credentials`: secrets that sandboxes use and never see."""
from __future__ import annotations

from typing import Any, List, Mapping, Optional

from .._models import CredentialSource, CredentialSourceKind
from .._wire import Request, parse, path
from .client import AsyncClient


class AsyncCredentials:
    """Sources of the team. A sandbox's network policy binds them by name."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(self, name: str, values: Optional[Mapping[str, str]] = None, *,
                     kind: CredentialSourceKind = "static_headers",
                     spec: Optional[Mapping[str, Any]] = None) -> CredentialSource:
        """Makes a source: `values` for templates such as "Bearer {{ .token }}", or the `spec` of
        another kind. Nobody can read it back."""
        body = _body(values, kind, spec)
        body["name"] = name
        return parse(CredentialSource.from_json, await self._client.call(
            Request("POST", path("credential-sources"), json=body)))

    async def rotate(self, name: str, values: Optional[Mapping[str, str]] = None, *,
                     kind: CredentialSourceKind = "static_headers",
                     spec: Optional[Mapping[str, Any]] = None) -> CredentialSource:
        """A new version, which the next request uses. The kind stays."""
        return parse(CredentialSource.from_json, await self._client.call(Request(
            "PUT", path("credential-sources", name), json=_body(values, kind, spec))))

    async def get(self, name: str) -> CredentialSource:
        """What is known of one, without its secret."""
        return parse(CredentialSource.from_json, await self._client.call(
            Request("GET", path("credential-sources", name))))

    async def list(self) -> List[CredentialSource]:
        answer = await self._client.call(Request("GET", path("credential-sources")))
        return parse(_sources_of, answer)

    async def delete(self, name: str) -> None:
        """Refused while a sandbox binds it."""
        await self._client.call(Request("DELETE", path("credential-sources", name)))


def _body(values: Optional[Mapping[str, str]], kind: CredentialSourceKind,
          spec: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    if (values is None) == (spec is None):
        raise ValueError("give the values, or the spec of another kind")
    if values is not None:
        return {"resolverKind": "static_headers", "spec": {"staticHeaders": {"values": dict(values)}}}
    return {"resolverKind": kind, "spec": dict(spec or {})}


def _sources_of(answer: Any) -> List[CredentialSource]:
    return [CredentialSource.from_json(each) for each in answer]
