"""Everything that can go wrong, as one family: `except AtollError` catches all of it.

Where Python has an exception for the same thing, ours is one of those too: a missing file is also a
`FileNotFoundError`, a time limit also a `TimeoutError`.
"""
from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Mapping, Optional, Type

if TYPE_CHECKING:
    from ._results import CommandResult, Execution


class AtollError(Exception):
    """The root. `request_id` finds the request in the server's log."""

    def __init__(self, message: str, *, status: Optional[int] = None, code: Optional[str] = None,
                 reason: Optional[str] = None, request_id: Optional[str] = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.reason = reason
        self.request_id = request_id

    def __str__(self) -> str:
        return self.message


class ConfigurationError(AtollError):
    """An address, a key or a file of certificates that cannot be used."""


class ConnectionFailedError(AtollError, builtins.ConnectionError):
    """The server cannot be reached, or the connection broke."""


class TimeoutError(AtollError, builtins.TimeoutError):
    """The server did not answer in time."""


class InvalidRequestError(AtollError, ValueError):
    """The server does not accept an argument; the message says which and what it may be."""


class AuthenticationError(AtollError):
    """There is no API key, or the server does not know it."""


class PermissionDeniedError(AtollError, builtins.PermissionError):
    """The key's roles, or the user in the sandbox, may not do this."""


class NotFoundError(AtollError):
    """There is no such sandbox, context or template."""


class FileNotFoundError(NotFoundError, builtins.FileNotFoundError):
    """There is no such file in the sandbox."""


class ConflictError(AtollError):
    """It does not go with the present state: a name is taken, a path is a directory..."""


class FileExistsError(ConflictError, builtins.FileExistsError):
    """There is already something at the path."""


class ProcessEndedError(ConflictError):
    """The process is over; nothing can be sent to it."""


class TemplateNotReadyError(ConflictError):
    """The template is still being made."""


class RateLimitError(AtollError):
    """A quota or limit is reached; something must end first."""


class DiskFullError(AtollError):
    """The sandbox's disk is full; give it more with `disk=` or remove files."""


class ServerError(AtollError):
    """The server failed. Its log has the details under `request_id`."""


class UnavailableError(ServerError):
    """The server, or the sandbox's agent, does not answer at the moment."""


class ProtocolError(ServerError):
    """The answer is not what the API's contract promises: is this the address of Atoll?"""


class CommandError(AtollError):
    """A command with `check=True` did not end with 0; `result` has its output."""

    def __init__(self, message: str, result: CommandResult) -> None:
        super().__init__(message)
        self.result = result


class CodeError(AtollError):
    """Code with `check=True` raised or was stopped; `execution` has everything about it."""

    def __init__(self, message: str, execution: Execution) -> None:
        super().__init__(message)
        self.execution = execution


class BuildError(AtollError):
    """A template could not be made; `log` has the last of what was printed."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


_BY_CODE: Mapping[str, Type[AtollError]] = {
    "file_not_found": FileNotFoundError,
    "path_exists": FileExistsError,
    "process_finished": ProcessEndedError,
    "template_not_ready": TemplateNotReadyError,
    "no_space": DiskFullError,
}
_BY_STATUS: Mapping[int, Type[AtollError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    408: TimeoutError,
    409: ConflictError,
    410: ProcessEndedError,
    412: ConflictError,
    429: RateLimitError,
    502: UnavailableError,
    503: UnavailableError,
    504: TimeoutError,
    507: DiskFullError,
}
_HINTS: Mapping[Type[AtollError], str] = {
    AuthenticationError: "set ATOLL_API_KEY or pass api_key=; the first key is in admin.key of the "
                         "server's data directory",
}


def error_from_answer(status: int, body: Any, request_id: Optional[str]) -> AtollError:
    """The exception for an answer that is no success. `body` is its JSON, or None without any."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return ProtocolError(
            f"the server answered with status {status} and without a reason Atoll would give; is a "
            "proxy in between, or something else at this address?",
            status=status, request_id=request_id)
    code, message = str(error.get("code", "")), str(error.get("message", ""))
    details = error.get("details")
    reason = details.get("reason") if isinstance(details, dict) else None
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status)
    if kind is None:
        kind = ServerError if status >= 500 else InvalidRequestError
    if kind in _HINTS:
        message = f"{message} ({_HINTS[kind]})"
    if issubclass(kind, ServerError) and request_id:
        message = f"{message} (request id {request_id})"
    return kind(message or f"the server answered with status {status}", status=status, code=code,
                reason=reason or code, request_id=request_id)
