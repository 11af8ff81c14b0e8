"""What commands and code give: outcomes, output, values in every form they came in."""
from __future__ import annotations

import base64
import pathlib
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._errors import CodeError, CommandError
from ._models import (
    Context,
    ExecResult,
    ExecutionError,
    ExecutionStatus,
    Outcome,
    RichResult,
    StreamDone,
    StreamExit,
)
from ._wire import from_base64

_SHOWN_CHARACTERS = 2000


@dataclass(frozen=True)
class OutputEvent:
    """A piece of output. `offset` + `len(data)` is where to continue after a disconnect."""

    source: str  # "stdout", "stderr" or "pty"
    data: bytes
    text: str  # the same, decoded so that no character is cut between two pieces
    offset: int


@dataclass(frozen=True)
class CommandResult:
    """How a command ended.

    `outcome` is "completed" (it exited by itself), "timed_out", "killed" (`signal` says by which)
    or "lost" (the connection could not be restored; `sandbox.commands.connect(id)` may find it).
    """

    id: str
    outcome: Outcome
    exit_code: Optional[int]
    stdout: str
    stderr: str
    signal: Optional[int] = None
    truncated: bool = False
    stdout_bytes: bytes = field(default=b"", repr=False)
    stderr_bytes: bytes = field(default=b"", repr=False)

    @property
    def ok(self) -> bool:
        return self.outcome == "completed" and self.exit_code == 0

    def check(self) -> CommandResult:
        """Itself, or CommandError."""
        if self.ok:
            return self
        endings = {"timed_out": "ran into its time limit", "lost": "lost its connection",
                   "killed": f"was killed by signal {self.signal}"}
        how = endings.get(self.outcome, f"exited with code {self.exit_code}")
        shown = (self.stderr.strip() or self.stdout.strip())[-_SHOWN_CHARACTERS:]
        raise CommandError(f"the command {how}" + (f":\n{shown}" if shown else ""), self)


class Output:
    """Collects what a command prints. Both streams are kept as bytes and decoded once."""

    def __init__(self) -> None:
        self.pieces: Dict[str, List[bytes]] = {"stdout": [], "stderr": []}
        self.truncated = False

    def add(self, event: OutputEvent) -> None:
        self.pieces["stderr" if event.source == "stderr" else "stdout"].append(event.data)

    def result(self, context_id: str, end: Optional[StreamExit]) -> CommandResult:
        out, err = b"".join(self.pieces["stdout"]), b"".join(self.pieces["stderr"])
        outcome, exit_code, signal = ending_of(end)
        return CommandResult(context_id, outcome, exit_code, out.decode(errors="replace"),
                             err.decode(errors="replace"), signal, self.truncated, out, err)


def ending_of(end: Optional[StreamExit]) -> Tuple[Outcome, Optional[int], Optional[int]]:
    if end is None:
        return "lost", None, None
    if end.timed_out or end.idle_timed_out:
        return "timed_out", None, end.signal
    if end.signal is not None:
        return "killed", None, end.signal
    return "completed", end.exit_code, None


def exit_of(context: Context) -> Optional[StreamExit]:
    """The exit of a context that is over."""
    if context.running or context.exit_code is None:
        return None
    return StreamExit(type="exit", state=context.state, exit_code=context.exit_code,
                      signal=context.signal, timed_out=context.timed_out,
                      idle_timed_out=context.idle_timed_out)


class Result:
    """A value or something displayed, in every form the interpreter gave: `data` by MIME type.

    Notebooks show it as they would show the original.
    """

    def __init__(self, data: Mapping[str, Any], is_main: bool = False) -> None:
        self.data: Dict[str, Any] = dict(data)
        self.is_main = is_main

    @classmethod
    def from_model(cls, model: RichResult) -> Result:
        return cls(model.data, model.is_main)

    @property
    def formats(self) -> Tuple[str, ...]:
        return tuple(self.data)

    def _text(self, mime: str) -> Optional[str]:
        value = self.data.get(mime)
        return value if isinstance(value, str) else None

    def _bytes(self, mime: str) -> Optional[bytes]:
        value = self._text(mime)
        return None if value is None else from_base64("".join(value.split()))

    @property
    def text(self) -> Optional[str]:
        return self._text("text/plain")

    @property
    def html(self) -> Optional[str]:
        return self._text("text/html")

    @property
    def markdown(self) -> Optional[str]:
        return self._text("text/markdown")

    @property
    def latex(self) -> Optional[str]:
        return self._text("text/latex")

    @property
    def svg(self) -> Optional[str]:
        return self._text("image/svg+xml")

    @property
    def javascript(self) -> Optional[str]:
        return self._text("application/javascript")

    @property
    def json(self) -> Any:
        return self.data.get("application/json")

    @property
    def png(self) -> Optional[bytes]:
        return self._bytes("image/png")

    @property
    def jpeg(self) -> Optional[bytes]:
        return self._bytes("image/jpeg")

    @property
    def pdf(self) -> Optional[bytes]:
        return self._bytes("application/pdf")

    def save(self, path: Union[str, pathlib.Path], mime: Optional[str] = None) -> pathlib.Path:
        """Writes one form to a local file, chosen by the file's ending unless `mime` says it."""
        target = pathlib.Path(path)
        chosen = mime or _MIME_BY_ENDING.get(target.suffix.lower(), "text/plain")
        if chosen not in self.data:
            raise ValueError(f"this result has no {chosen}, only {', '.join(self.data)}")
        content = self.data[chosen]
        if chosen in _BINARY:
            target.write_bytes(base64.b64decode(content))
        else:
            target.write_text(content if isinstance(content, str) else repr(content))
        return target

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Any]:
        return dict(self.data)

    def _repr_html_(self) -> Optional[str]:
        return self.html

    def _repr_markdown_(self) -> Optional[str]:
        return self.markdown

    def _repr_latex_(self) -> Optional[str]:
        return self.latex

    def _repr_svg_(self) -> Optional[str]:
        return self.svg

    def _repr_png_(self) -> Optional[bytes]:
        return self.png

    def _repr_jpeg_(self) -> Optional[bytes]:
        return self.jpeg

    def _repr_json_(self) -> Any:
        return self.json

    def __str__(self) -> str:
        return self.text if self.text is not None else repr(self)

    def __repr__(self) -> str:
        return self.text if self.text is not None else f"Result({', '.join(self.data)})"


_BINARY = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")
_MIME_BY_ENDING = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".pdf": "application/pdf",
    ".svg": "image/svg+xml", ".html": "text/html", ".md": "text/markdown", ".tex": "text/latex",
    ".json": "application/json", ".txt": "text/plain",
}


@dataclass(frozen=True)
class Execution:
    """What running code gave.

    `outcome` says how it ended as seen from outside ("completed", "timed_out", "killed", "lost",
    "never_started"), `status` how it ended for itself ("ok", "error", "interrupted").
    """

    outcome: Outcome
    status: ExecutionStatus
    stdout: str
    stderr: str
    results: Sequence[Result] = ()
    error: Optional[ExecutionError] = None
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    truncated: bool = False
    running: bool = True  # the interpreter is still there
    restarted: bool = False  # it had ended and was started again for this code, without variables

    @classmethod
    def from_answer(cls, end: Union[ExecResult, StreamDone], stdout: str,
                    stderr: str) -> Execution:
        return cls(end.outcome, end.status, stdout, stderr,
                   [Result.from_model(each) for each in end.results], end.error, end.exit_code,
                   end.signal, bool(end.truncated), end.running, bool(end.restarted))

    @property
    def ok(self) -> bool:
        return self.outcome == "completed" and self.status == "ok"

    @property
    def result(self) -> Optional[Result]:
        """The value of the last expression, if it has one."""
        return next((each for each in self.results if each.is_main), None)

    @property
    def text(self) -> Optional[str]:
        """The value of the last expression as text."""
        return None if self.result is None else self.result.text

    def check(self) -> Execution:
        """Itself, or CodeError."""
        if self.ok:
            return self
        if self.error is not None:
            message = self.error.traceback or f"{self.error.name}: {self.error.value}"
        else:
            message = f"the code ended as {self.outcome}, status {self.status}" + (
                f":\n{self.stderr.strip()[-_SHOWN_CHARACTERS:]}" if self.stderr.strip() else "")
        raise CodeError(message, self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Any]:
        return dict(self.result.data) if self.result else {"text/plain": self.stdout}
