"""What sandboxes send out: `sandbox.flows`, `client.flows`, and `client.approvals` for requests that
wait for a person."""
from __future__ import annotations

from datetime import datetime
from typing import AsyncIterator, Dict, List, Literal, Optional

from .._models import Approval, ApprovalAnswer, ApprovalList, Explanation, Flow, FlowList, Traffic
from .._wire import QueryValue, Request, parse, path
from .client import AsyncClient

_PAGE = 1000


class AsyncFlows:
    """Flows of one sandbox, or of all when it belongs to the client."""

    def __init__(self, client: AsyncClient, sandbox_id: Optional[str] = None) -> None:
        self._client = client
        self._path = path("network") if sandbox_id is None else path(
            "sandboxes", sandbox_id, "network")
        self._sandbox_id = sandbox_id

    async def list(self, *, limit: int = 100, outcome: Optional[str] = None,
                   kind: Optional[str] = None, name: Optional[str] = None,
                   rule: Optional[str] = None, protocol: Optional[str] = None,
                   context_id: Optional[str] = None, since: Optional[datetime] = None,
                   until: Optional[datetime] = None) -> List[Flow]:
        """Newest first. `name` may be `*.example.com`."""
        query = _filter(outcome, kind, name, rule, protocol, context_id, since, until)
        flows: List[Flow] = []
        cursor: Optional[str] = None
        while len(flows) < limit:
            page = parse(FlowList.from_json, await self._client.call(Request(
                "GET", f"{self._path}/flows",
                query={**query, "limit": min(_PAGE, limit - len(flows)), "cursor": cursor})))
            flows.extend(page.flows)
            cursor = page.next_cursor
            if cursor is None:
                break
        return flows

    async def follow(self, *, outcome: Optional[str] = None, kind: Optional[str] = None,
                     name: Optional[str] = None, rule: Optional[str] = None,
                     protocol: Optional[str] = None, context_id: Optional[str] = None,
                     since: Optional[datetime] = None,
                     cursor: Optional[str] = None) -> AsyncIterator[Flow]:
        """Each flow as it is decided and again as it ends, until the connection breaks; `cursor` of
        the last one goes on from there."""
        query = _filter(outcome, kind, name, rule, protocol, context_id, since, None)
        reply = await self._client.open(Request(
            "GET", f"{self._path}/flows", lasting=True,
            query={**query, "follow": True, "cursor": cursor}))
        try:
            line = await reply.next_line()
            while line is not None:
                yield parse(Flow.from_json, line)
                line = await reply.next_line()
        finally:
            await reply.close()

    async def usage(self) -> Traffic:
        """Bytes that moved, over restarts."""
        return parse(Traffic.from_json,
                     await self._client.call(Request("GET", f"{self._path}/usage")))

    async def why(self, host: str, port: int = 443, *, protocol: Optional[str] = None,
                  transport: Optional[str] = None) -> Explanation:
        """What the policies of the sandbox say about a connection that nobody makes."""
        if self._sandbox_id is None:
            raise ValueError("ask a sandbox: sandbox.flows.why(host)")
        return parse(Explanation.from_json, await self._client.call(Request(
            "GET", f"{self._path}/why",
            query={"host": host, "port": port, "protocol": protocol, "transport": transport})))


class AsyncApprovals:
    """Requests that a rule with `action: ask` has parked."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(self, *, sandbox_id: Optional[str] = None,
                   state: Optional[str] = None) -> List[Approval]:
        """Those that wait; `state` says which others."""
        answer = await self._client.call(Request(
            "GET", path("approvals"), query={"sandbox_id": sandbox_id, "state": state}))
        return parse(ApprovalList.from_json, answer).approvals

    async def follow(self, *, sandbox_id: Optional[str] = None) -> AsyncIterator[Approval]:
        """What waits now, then each as it is asked and as it ends."""
        reply = await self._client.open(Request(
            "GET", path("approvals"), lasting=True,
            query={"sandbox_id": sandbox_id, "follow": True}))
        try:
            line = await reply.next_line()
            while line is not None:
                yield parse(Approval.from_json, line)
                line = await reply.next_line()
        finally:
            await reply.close()

    async def allow(self, id: str, *, session: bool = False) -> Approval:
        """`session`: the same question is answered likewise from now on."""
        return await self._answer(id, "allow", session)

    async def deny(self, id: str, *, session: bool = False) -> Approval:
        """`session`: the same question is answered likewise from now on."""
        return await self._answer(id, "deny", session)

    async def _answer(self, id: str, decision: Literal["allow", "deny"],
                      session: bool) -> Approval:
        body = ApprovalAnswer(decision=decision, remember="session" if session else "once")
        return parse(Approval.from_json, await self._client.call(Request(
            "POST", path("approvals", id), json=body.to_json())))


def _filter(outcome: Optional[str], kind: Optional[str], name: Optional[str], rule: Optional[str],
            protocol: Optional[str], context_id: Optional[str], since: Optional[datetime],
            until: Optional[datetime]) -> Dict[str, QueryValue]:
    return {"outcome": outcome, "kind": kind, "name": name, "rule": rule, "protocol": protocol,
            "context_id": context_id,
            "start_time": None if since is None else since.astimezone().isoformat(),
            "end_time": None if until is None else until.astimezone().isoformat()}
