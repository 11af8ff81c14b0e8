"""Interpreters: contexts that keep their state and run code piece by piece."""
from __future__ import annotations

from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Type

from .._errors import AtollError, NotFoundError, ProcessEndedError, ProtocolError
from .._models import (
    Context as ContextInfo,
    ContextCreate,
    ContextList,
    ExecRequest,
    ExecResult,
    ReplSpec,
    StreamDone,
    StreamOutput,
)
from .._results import Execution
from .._wire import LINES, Request, Seconds, TextDecoder, from_base64, milliseconds, parse, path, \
    whole_seconds
from ._platform import Lock, Pending, TextCallback, deliver, pending, settle
from .client import AsyncClient


class AsyncContext:
    """One interpreter with its variables. Leaving its `async with` block ends it."""

    def __init__(self, client: AsyncClient, sandbox_id: str, context: ContextInfo) -> None:
        self._client = client
        self._path = path("sandboxes", sandbox_id, "contexts", context.id)
        self.id = context.id
        self.language = context.alias or ""
        self.cwd = context.cwd

    async def run(self, code: str, *, timeout: Optional[Seconds] = None,
                  on_stdout: Optional[TextCallback] = None,
                  on_stderr: Optional[TextCallback] = None, check: bool = False) -> Execution:
        """Runs code and waits for its end. After `timeout` seconds it is interrupted: its output so
        far and the variables stay. An exception meanwhile, such as a cancelled task, interrupts it
        too. With callbacks, output is given to them as it is printed."""
        body = ExecRequest(data=code, timeout_ms=milliseconds(timeout, "timeout"))
        try:
            if on_stdout is None and on_stderr is None:
                execution = await self._run(body)
            else:
                execution = await self._follow(body, on_stdout, on_stderr)
        except AtollError:
            raise
        except BaseException:
            await settle(self.interrupt)
            raise
        return execution.check() if check else execution

    async def _run(self, body: ExecRequest) -> Execution:
        answer = parse(ExecResult.from_json, await self._client.call(
            Request("POST", f"{self._path}/exec", json=body.to_json(), lasting=True).idempotent()))
        return Execution.from_answer(answer, answer.stdout, answer.stderr)

    async def _follow(self, body: ExecRequest, on_stdout: Optional[TextCallback],
                      on_stderr: Optional[TextCallback]) -> Execution:
        reply = await self._client.open(Request(
            "POST", f"{self._path}/exec", json=body.to_json(), headers={"Accept": LINES},
            lasting=True))
        decoder = TextDecoder()
        callbacks = {"stdout": on_stdout, "stderr": on_stderr}
        printed: Dict[str, List[str]] = {"stdout": [], "stderr": []}
        try:
            line = await reply.next_line()
            while line is not None and line.get("type") != "done":
                output = parse(StreamOutput.from_json, line)
                source = "stderr" if output.source == "stderr" else "stdout"
                text = decoder.decode(source, from_base64(output.data_base64))
                printed[source].append(text)
                await deliver(callbacks[source], text)
                line = await reply.next_line()
            if line is not None:
                await reply.next_line()  # the end: the connection can be used again
        finally:
            await reply.close()
        if line is None:
            raise ProtocolError("the answer ended before the code; its context still has the rest")
        for source, callback in callbacks.items():
            printed[source].append(decoder.rest(source))
            await deliver(callback, printed[source][-1])
        return Execution.from_answer(parse(StreamDone.from_json, line), "".join(printed["stdout"]),
                                     "".join(printed["stderr"]))

    async def interrupt(self) -> None:
        """Ends what runs; the variables stay."""
        await self._client.call(Request("POST", f"{self._path}/interrupt", json={}))

    async def restart(self) -> None:
        """A new interpreter under the same id: the variables are gone."""
        await self._client.call(Request("POST", f"{self._path}/restart", json={}))

    async def remove(self) -> None:
        try:
            await self._client.call(Request("DELETE", self._path))
        except NotFoundError:
            pass

    async def info(self) -> ContextInfo:
        return parse(ContextInfo.from_json, await self._client.call(Request("GET", self._path)))

    async def __aenter__(self) -> AsyncContext:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        if error is not None:
            await settle(self.remove)
        else:
            await self.remove()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.language}>"


class AsyncContexts:
    """The interpreters of one sandbox, and the one of each language that `run_code` uses."""

    def __init__(self, client: AsyncClient, sandbox_id: str) -> None:
        self._client = client
        self._sandbox_id = sandbox_id
        self._path = path("sandboxes", sandbox_id, "contexts")
        self._defaults: Dict[str, AsyncContext] = {}
        self._lock = Lock()

    def create(self, language: str = "python", *, cwd: Optional[str] = None,
               env: Optional[Mapping[str, str]] = None, user: Optional[str] = None,
               ttl: Optional[Seconds] = None, idle_timeout: Optional[Seconds] = None,
               repl_config: Optional[Mapping[str, Any]] = None) -> Pending[AsyncContext]:
        """Starts an interpreter: python, javascript, typescript, bash, and on a terminal ruby, lua,
        sqlite and others that the image has. `repl_config` describes one of your own as
        `ReplConfig` of the API's contract does."""
        return pending(self._create(language, cwd, env, user, ttl, idle_timeout, repl_config))

    def connect(self, id: str) -> Pending[AsyncContext]:
        """An interpreter that is already there."""
        return pending(self._connect(id))

    async def list(self) -> List[ContextInfo]:
        """The interpreters that the sandbox has."""
        answer = await self._client.call(Request("GET", self._path))
        return [each for each in parse(ContextList.from_json, answer).contexts
                if each.type == "repl"]

    async def _connect(self, id: str) -> AsyncContext:
        answer = await self._client.call(Request("GET", f"{self._path}/{id}"))
        return AsyncContext(self._client, self._sandbox_id, parse(ContextInfo.from_json, answer))

    async def _create(self, language: str, cwd: Optional[str] = None,
                      env: Optional[Mapping[str, str]] = None, user: Optional[str] = None,
                      ttl: Optional[Seconds] = None, idle_timeout: Optional[Seconds] = None,
                      repl_config: Optional[Mapping[str, Any]] = None) -> AsyncContext:
        body = ContextCreate(
            type="repl", repl=ReplSpec(alias=language), cwd=cwd, user=user,
            env_vars=None if env is None else dict(env), ttl_sec=whole_seconds(ttl, "ttl"),
            idle_timeout_sec=whole_seconds(idle_timeout, "idle_timeout")).to_json()
        if repl_config is not None:
            body["repl"] = {"repl_config": dict(repl_config)}
        answer = await self._client.call(Request("POST", self._path, json=body).idempotent())
        return AsyncContext(self._client, self._sandbox_id, parse(ContextInfo.from_json, answer))

    async def run_default(self, code: str, language: str, timeout: Optional[Seconds],
                          on_stdout: Optional[TextCallback], on_stderr: Optional[TextCallback],
                          check: bool) -> Execution:
        """Runs code in the context that belongs to the language, made at its first use."""
        context, fresh = await self._default(language)
        try:
            execution = await context.run(code, timeout=timeout, on_stdout=on_stdout,
                                          on_stderr=on_stderr)
        except (NotFoundError, ProcessEndedError):
            self._forget(context)
            if fresh:
                raise
            # Gone with a restart of the sandbox: nothing has run.
            context, _ = await self._default(language)
            execution = await context.run(code, timeout=timeout, on_stdout=on_stdout,
                                          on_stderr=on_stderr)
        return execution.check() if check else execution

    async def _default(self, language: str) -> "tuple[AsyncContext, bool]":
        async with self._lock:
            fresh = language not in self._defaults
            if fresh:
                self._defaults[language] = await self._create(language)
            return self._defaults[language], fresh

    def _forget(self, context: AsyncContext) -> None:
        for language, known in list(self._defaults.items()):
            if known is context:
                del self._defaults[language]
