"""`sandbox.pty`: programs with a terminal of their own."""
from __future__ import annotations

from typing import Mapping, Optional, Union

from .._models import PtySize
from .._wire import Seconds
from ._platform import Pending, pending
from .commands import AsyncCommands, Command
from .process import AsyncProcess

_DEFAULT_ENV = {"TERM": "xterm-256color"}


class AsyncTerminals:
    def __init__(self, commands: AsyncCommands) -> None:
        self._commands = commands

    def create(self, command: Optional[Command] = None, *, rows: int = 24, cols: int = 80,
               cwd: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
               user: Optional[str] = None, timeout: Optional[Seconds] = None,
               idle_timeout: Optional[Seconds] = None) -> Pending[AsyncProcess]:
        """Starts a program, an interactive shell without one, in a new terminal. What is typed goes
        in with `send_stdin`, what it shows comes out by iterating; `resize` tells it a new size."""
        wanted: Union[str, "list[str]"]
        wanted = ["bash", "-i"] if command is None else \
            command if isinstance(command, str) else list(command)
        return pending(self._commands._start(
            wanted, cwd, {**_DEFAULT_ENV, **(env or {})}, user, timeout, idle_timeout, True,
            PtySize(rows=rows, cols=cols)))

    def connect(self, id: str, cursor: int = 0) -> Pending[AsyncProcess]:
        """Finds a terminal again; what it showed since `cursor` is repeated."""
        return self._commands.connect(id, cursor)
