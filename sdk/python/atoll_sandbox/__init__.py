"""Sandboxes for programs nobody has read: run commands and code, move files, throw it away.

    from atoll_sandbox import Sandbox

    with Sandbox.create() as sandbox:
        print(sandbox.run_code("1 + 1").text)

`AsyncSandbox` is the same with `await`.
"""
from ._async.client import AsyncClient
from ._async.contexts import AsyncContext
from ._async.process import AsyncProcess
from ._async.sandbox import AsyncSandbox
from ._async.volumes import AsyncVolume
from ._async.watches import AsyncWatch
from ._archives import Unpacked
from ._errors import (
    AtollError,
    AuthenticationError,
    BuildError,
    CodeError,
    CommandError,
    ConfigurationError,
    ConflictError,
    ConnectionFailedError,
    DiskFullError,
    FileExistsError,
    FileNotFoundError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    ProcessEndedError,
    ProtocolError,
    RateLimitError,
    ServerError,
    TemplateNotReadyError,
    TimeoutError,
    UnavailableError,
)
from ._models import Approval, ArchiveUnpacked, CarriedInterpreter
from ._models import Context as ContextInfo
from ._models import CredentialSource
from ._models import DiffEntry, Explanation, Flow, Traffic
from ._models import ExecutionError, FileEvent, FileInfo, GlobResult, GrepResult
from ._models import Sandbox as SandboxInfo
from ._models import PauseAnswer, ResumeAnswer, SandboxMetrics, SandboxTimes, SandboxTree, Snapshot
from ._models import SandboxPreview, SandboxService
from ._models import Template as TemplateInfo
from ._models import TemplateLogRecord
from ._models import Volume as VolumeInfo
from ._models import VolumeMount, VolumeSnapshot
from ._results import CommandResult, Execution, OutputEvent, Result
from ._sync.client import Client
from ._sync.contexts import Context
from ._sync.process import Process
from ._sync.sandbox import Sandbox
from ._sync.volumes import Volume
from ._sync.watches import Watch
from ._version import VERSION as __version__

__all__ = [
    "Approval", "ArchiveUnpacked", "AsyncClient", "AsyncContext", "AsyncProcess", "AsyncSandbox",
    "AsyncVolume", "AsyncWatch", "AtollError", "AuthenticationError", "BuildError",
    "CarriedInterpreter", "Client", "CodeError", "CommandError", "CommandResult",
    "ConfigurationError", "ConflictError", "ConnectionFailedError", "Context", "ContextInfo", "CredentialSource",
    "DiffEntry", "DiskFullError", "Execution", "ExecutionError", "Explanation", "FileEvent",
    "FileExistsError", "FileInfo", "FileNotFoundError", "Flow", "GlobResult", "GrepResult",
    "InvalidRequestError", "NotFoundError", "OutputEvent", "PauseAnswer", "PermissionDeniedError",
    "Process", "ProcessEndedError", "ProtocolError", "RateLimitError", "Result", "ResumeAnswer",
    "Sandbox", "SandboxInfo", "SandboxMetrics", "SandboxPreview",
    "SandboxService", "SandboxTimes", "SandboxTree", "ServerError",
    "Snapshot", "TemplateInfo", "TemplateLogRecord", "TemplateNotReadyError", "TimeoutError",
    "Traffic", "UnavailableError", "Unpacked", "Volume", "VolumeInfo", "VolumeMount",
    "VolumeSnapshot", "Watch", "__version__",
]
