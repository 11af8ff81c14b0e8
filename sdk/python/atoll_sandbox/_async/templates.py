"""`client.templates`: what sandboxes start from."""
from __future__ import annotations

import base64
import json
import os
import pathlib
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Union

from .._archives import tar_pieces
from .._errors import BuildError, ProtocolError
from .._models import (
    RegistryAuth,
    Template,
    TemplateContainer,
    TemplateCreate,
    TemplateList,
    TemplateLogRecord,
    TemplatePull,
    TemplateSpec,
)
from .._wire import Request, Seconds, parse, path, seconds
from ._platform import body_of
from .client import AsyncClient

LogCallback = Callable[[TemplateLogRecord], None]
_KEPT_LOG_LINES = 100
# An image may be large and its registry slow.
_CREATE_SECONDS = 3600.0


class AsyncTemplates:
    """Making and deleting needs a key with the role admin."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(self) -> List[Template]:
        answer = await self._client.call(Request("GET", path("templates")))
        return parse(TemplateList.from_json, answer).templates

    async def get(self, name: str) -> Template:
        answer = await self._client.call(Request("GET", path("templates", name)))
        return parse(Template.from_json, answer)

    async def create(self, name: str, image: str, *, env: Optional[Mapping[str, str]] = None,
                     username: Optional[str] = None, password: Optional[str] = None,
                     insecure_registry: bool = False, on_log: Optional[LogCallback] = None,
                     timeout: Seconds = _CREATE_SECONDS) -> Template:
        """Makes a template from an image of a registry and waits until it is ready."""
        body = TemplateCreate(
            template_id=name,
            spec=TemplateSpec(main_container=TemplateContainer(image=image),
                              env_vars=None if env is None else dict(env)),
            registry_auth=_login(username, password),
            insecure_registry=insecure_registry or None)
        await self._client.call(Request("POST", path("templates"), json=body.to_json(),
                                        timeout=seconds(timeout, "timeout")))
        await self._follow(Request("GET", path("templates", name, "logs")), on_log)
        return await self.get(name)

    async def build(self, name: str, context: Union[str, "os.PathLike[str]"] = ".", *,
                    dockerfile: str = "Dockerfile", args: Optional[Mapping[str, str]] = None,
                    target: Optional[str] = None, network: Optional[str] = None,
                    no_cache: bool = False, username: Optional[str] = None,
                    password: Optional[str] = None, insecure_registry: bool = False,
                    on_log: Optional[LogCallback] = None) -> Template:
        """Builds a template from a Dockerfile. `context` is the directory that is sent along,
        `dockerfile` is relative to it. BuildError has the end of the log."""
        headers = {"Content-Type": "application/x-tar"}
        login = _login(username, password)
        if login is not None:
            text = json.dumps(login.to_json()).encode()
            headers["X-Registry-Auth"] = base64.b64encode(text).decode()
        root = pathlib.Path(context)
        if not root.is_dir():
            raise NotADirectoryError(f"the build context {root} is not a directory")
        await self._follow(Request(
            "POST", path("templates", name, "build"), headers=headers,
            query={"dockerfile": dockerfile, "target": target, "network": network,
                   "no_cache": no_cache, "insecure_registry": insecure_registry,
                   "arg": [f"{key}={value}" for key, value in (args or {}).items()]},
            content=body_of(tar_pieces(root))), on_log)
        return await self.get(name)

    async def pull(self, name: str, *, username: Optional[str] = None,
                   password: Optional[str] = None, insecure_registry: bool = False,
                   on_log: Optional[LogCallback] = None) -> Template:
        """Fetches a template's image again, or makes a builtin one that is not there yet."""
        body = TemplatePull(registry_auth=_login(username, password),
                            insecure_registry=insecure_registry or None)
        await self._follow(Request("POST", path("templates", name, "pull"), json=body.to_json()),
                           on_log)
        return await self.get(name)

    async def load(self, name: str, archive: Union[str, "os.PathLike[str]"], *,
                   on_log: Optional[LogCallback] = None) -> Template:
        """Makes a template from an image archive on this machine (`docker save`, OCI)."""
        with pathlib.Path(archive).open("rb") as file:
            await self._follow(Request(
                "POST", path("templates", name, "import"), content=body_of(file),
                headers={"Content-Type": "application/octet-stream"}), on_log)
        return await self.get(name)

    async def delete(self, name: str) -> None:
        await self._client.call(Request("DELETE", path("templates", name)))

    async def _follow(self, request: Request, on_log: Optional[LogCallback]) -> None:
        request.lasting = True
        reply = await self._client.open(request)
        printed: Deque[str] = deque(maxlen=_KEPT_LOG_LINES)
        try:
            line: Optional[Dict[str, Any]] = await reply.next_line()
            while line is not None:
                record = parse(TemplateLogRecord.from_json, line)
                if on_log is not None and record.type != "alive":
                    on_log(record)
                if record.type == "done":
                    return
                if record.type == "error":
                    raise BuildError(record.message or "the template could not be made",
                                     "".join(printed))
                if record.text:
                    printed.append(record.text.rstrip("\n") + "\n")
                line = await reply.next_line()
        finally:
            await reply.close()
        raise ProtocolError("the log ended before the build")


def _login(username: Optional[str], password: Optional[str]) -> Optional[RegistryAuth]:
    if username is None and password is None:
        return None
    if not username or not password:
        raise ValueError("username and password belong together")
    return RegistryAuth(username=username, password=password)
