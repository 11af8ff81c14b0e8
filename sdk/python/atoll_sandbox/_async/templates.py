"""`client.templates`: what sandboxes start from."""
from __future__ import annotations

from typing import List

from .._models import Template, TemplateList
from .._wire import Request, parse, path
from .client import AsyncClient


class AsyncTemplates:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(self) -> List[Template]:
        answer = await self._client.call(Request("GET", path("templates")))
        return parse(TemplateList.from_json, answer).templates
