"""Where the server is and which key to use: arguments first, then the environment, then defaults.

The names are those of the command line: ATOLL_API_URL (or ATOLL_URL, which comes first),
ATOLL_API_KEY, ATOLL_KEY_FILE, ATOLL_DATA_DIR, ATOLL_CA_FILE. The admin key of a server on this
machine is found without any of them when it may be read; it is never sent to another machine.
"""
from __future__ import annotations

import os
import pathlib
import ssl
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Mapping, Optional, Union
from urllib.parse import urlsplit

from ._errors import ConfigurationError

DEFAULT_URL = "http://127.0.0.1:7070"
DEFAULT_DATA_DIR = "/var/lib/atoll"
DEFAULT_TIMEOUT_SECONDS = 60.0
_MAX_KEY_FILE_BYTES = 4096


@dataclass(frozen=True)
class Config:
    url: str
    api_key: str = field(repr=False)
    ca_file: Optional[str] = None
    timeout: float = DEFAULT_TIMEOUT_SECONDS

    @property
    def is_local(self) -> bool:
        return _is_loopback(urlsplit(self.url).hostname or "")

    def trust(self) -> Union[bool, ssl.SSLContext]:
        """Which certificates are believed; the system's without a file."""
        if self.ca_file is None or not self.url.startswith("https:"):
            return True
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"the certificates in {self.ca_file} cannot be used: {error}") from None


def resolve_config(url: Optional[str] = None, api_key: Optional[str] = None,
                   ca_file: Optional[str] = None, timeout: Optional[float] = None,
                   environ: Optional[Mapping[str, str]] = None) -> Config:
    env = os.environ if environ is None else environ
    address = url or env.get("ATOLL_URL") or env.get("ATOLL_API_URL") or DEFAULT_URL
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"the address {address!r} is not a URL such as {DEFAULT_URL}; "
                                 "check url= or ATOLL_API_URL")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigurationError("the address may have no user, password, query or fragment; give "
                                 "the key with api_key= or ATOLL_API_KEY")
    if timeout is not None and timeout <= 0:
        raise ConfigurationError("timeout must be more than 0 seconds")
    key = _find_key(api_key, parts.hostname, env)
    return Config(address.rstrip("/"), key, ca_file or env.get("ATOLL_CA_FILE") or None,
                  DEFAULT_TIMEOUT_SECONDS if timeout is None else timeout)


def _find_key(api_key: Optional[str], host: str, env: Mapping[str, str]) -> str:
    if api_key or env.get("ATOLL_API_KEY"):
        return _check_key(api_key or env["ATOLL_API_KEY"],
                          "api_key=" if api_key else "ATOLL_API_KEY")
    if env.get("ATOLL_KEY_FILE"):
        return _read_key(env["ATOLL_KEY_FILE"])
    path = os.path.join(env.get("ATOLL_DATA_DIR") or DEFAULT_DATA_DIR, "admin.key")
    if _is_loopback(host) and os.access(path, os.R_OK):
        return _read_key(path)
    raise ConfigurationError(
        "there is no API key: set ATOLL_API_KEY or ATOLL_KEY_FILE, or pass api_key=. The first key "
        f"of a server is in admin.key of its data directory ({path} cannot be used: "
        + ("it may not be read or is not there)" if _is_loopback(host)
           else "it is only for servers on this machine)"))


def _read_key(path: str) -> str:
    try:
        with pathlib.Path(path).open(encoding="ascii", errors="replace") as file:
            return _check_key(file.read(_MAX_KEY_FILE_BYTES), path)
    except OSError as error:
        raise ConfigurationError(f"the key file {path} cannot be read: {error.strerror}") from None


def _check_key(key: str, origin: str) -> str:
    key = key.strip()
    if not key or not all("!" <= each <= "~" for each in key):
        raise ConfigurationError(
            f"the API key from {origin} is empty or has characters no key has")
    return key


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
