"""The released packages that are tried, each set as somebody would install it together.

A set is pinned to the last letter, so that a run today and one next month judge the same clients;
what E2B releases later is a new line here.
"""
import dataclasses
import os
import pathlib
import runpy

from harness.packages import fetched

SCRIPTS = pathlib.Path(__file__).resolve().parent / "e2b"
HELPERS = {"support", "run", "command_line"}
# `make conformance`: every release, and large things in full size.
WHOLE = os.environ.get("ATOLL_CONFORMANCE") == "all"
# Which package of a set an area is about, by its first word; all others are about `e2b` itself.
PACKAGE_OF_AREA = {"interpreter": "code-interpreter", "charts": "code-interpreter",
                   "desktop": "desktop", "cli": "cli"}


@dataclasses.dataclass(frozen=True)
class Release:
    language: str
    packages: tuple  # of (name in the registry, version)
    quick: bool  # part of `make test`
    modes: tuple = ("",)

    @property
    def version(self):
        return dict(self.packages)["e2b"]

    def __str__(self):
        return f"{'js' if self.language == 'javascript' else 'py'}-{self.version}"

    def package(self, area):
        """(name, version) of the package that an area is about, None when the set has none."""
        if area in ("interpreter", "charts") and self in BY_NAME_ALONE:
            return None
        about = PACKAGE_OF_AREA.get(area.split("_")[0])
        for name, version in self.packages:
            if name == "e2b" and about is None or about is not None and name.endswith(about):
                return name, version
        return None

    def installed(self):
        """The directory that has it, fetched by name when it is not there yet."""
        kind = "npm" if self.language == "javascript" else "pypi"
        stamp = "-".join(version for _, version in self.packages)
        return fetched(f"{kind}-e2b-{stamp}", self.install)

    def install(self, directory):
        if self.language == "javascript":
            return ["npm", "install", "--no-audit", "--no-fund", "--prefix", directory,
                    *(f"{name}@{version}" for name, version in self.packages)]
        return ["/usr/bin/python3", "-m", "pip", "install", "--quiet", "--target", directory,
                *(f"{name}=={version}" for name, version in self.packages)]


def npm(version, interpreter, desktop, cli, quick):
    return Release("javascript", (("e2b", version), ("@e2b/code-interpreter", interpreter),
                                  ("@e2b/desktop", desktop), ("@e2b/cli", cli)), quick)


def pypi(version, interpreter, desktop, quick):
    return Release("python", (("e2b", version), ("e2b-code-interpreter", interpreter),
                              ("e2b-desktop", desktop)), quick, ("sync", "async"))


RELEASES = [npm("2.51.0", "2.8.0", "2.4.0", "2.19.0", quick=True),
            npm("2.45.0", "2.7.2", "2.3.3", "2.16.0", quick=False),
            npm("2.20.1", "2.4.2", "2.2.3", "2.10.1", quick=True),
            pypi("2.63.0", "2.11.5", "2.7.2", quick=True),
            pypi("2.45.1", "2.10.0", "2.7.2", quick=False)]
# Their code interpreter knows no E2B_SANDBOX_URL: it asks for the host name of the sandbox, over TLS.
BY_NAME_ALONE = [each for each in RELEASES if str(each) == "js-2.20.1"]


def areas(language):
    """The scripts of a language."""
    return sorted(path.stem for path in (SCRIPTS / language).iterdir()
                  if path.suffix in (".mjs", ".py") and path.stem not in HELPERS)


def excused(language):
    """What no check is about, and why."""
    source = runpy.run_path(str(SCRIPTS / "not_applicable.py"))
    return source[language.upper()]
