"""What the packages can do, and which of it some check is about.

A check's name says so as Class.method(option, option), before its first colon; the packages are asked
by e2b/public_methods.{mjs,py}. Options that every request has count when one method was tried with
them, all others for each method that has them.
"""
import json
import re
import subprocess

from e2b_releases import SCRIPTS
from harness.packages import fetched

TYPESCRIPT = "5.9.3"
# With `debug` a client talks to a bare agent on its own machine, not to a server; `accessToken` is a
# kind of key that only E2B's own cloud gave, and later versions do not know.
UNASKED = {"debug", "accessToken"}
COMMON = {
    "javascript": {"apiKey", "validateApiKey", "domain", "apiUrl", "sandboxUrl", "logger",
                   "requestTimeoutMs", "retries", "headers", "apiHeaders", "proxy", "signal"},
    "python": {"request_timeout"},
}
# Every method of these modules takes them: they are handed on to the command that is run.
COMMON_OF_GIT = {"cwd", "envs", "user", "timeoutMs", "timeout", "requestTimeoutMs",
                 "request_timeout"}
STRING = r'"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`'
NAMES = {"javascript": re.compile(rf"\bcheck\(\s*((?:{STRING})(?:\s*\+\s*(?:{STRING}))*)"),
         "python": re.compile(rf"\b(?:case|check)\(\s*((?:f?(?:{STRING})\s*)+)")}


def compiler():
    """The directory of TypeScript."""
    return fetched(f"npm-typescript-{TYPESCRIPT}", lambda making: [
        "npm", "install", "--no-audit", "--no-fund", "--prefix", making,
        f"typescript@{TYPESCRIPT}"])


def plain(owner):
    """Classes that are the same to whoever uses them."""
    return "Paginator" if owner.endswith("Paginator") else \
        "Template" if owner in ("TemplateBase", "TemplateBuilder") else owner


def names(language):
    """The names of all checks of a language."""
    for path in sorted((SCRIPTS / language).iterdir()):
        for match in NAMES[language].finditer(path.read_text(encoding="utf-8")):
            parts = re.findall(STRING, match.group(1))
            yield "".join(part[1:-1] for part in parts)


def tried(language):
    """{"Class.method": {options}} of all checks of a language."""
    found = {}
    for name in names(language):
        about = name.split(":", maxsplit=1)[0]
        options = {word.strip() for inside in re.findall(r"\(([^)]*)\)", about)
                   for word in inside.split(",") if word.strip()}
        for owner, method in re.findall(r"\b([A-Z]\w*)\.(\w+)", about):
            found.setdefault(f"{plain(owner)}.{method}", set()).update(options)
    return found


def public(release):
    """{"Class.method": {options}} of the packages of a release."""
    directory = release.installed()
    if release.language == "javascript":
        typescript = compiler()
        packages = [str(directory / "node_modules" / name) for name, _ in release.packages
                    if not name.endswith("/cli")]
        words, extra = ["node", SCRIPTS / "public_methods.mjs", typescript, *packages], {}
    else:
        modules = [name.replace("-", "_") for name, _ in release.packages]
        words = ["/usr/bin/python3", SCRIPTS / "public_methods.py", *modules]
        extra = {"PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(words, env={"PATH": "/usr/local/bin:/usr/bin:/bin", **extra},
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = {}
    for key, options in json.loads(done.stdout).items():
        owner, method = key.split(".")
        found.setdefault(f"{plain(owner)}.{method}", set()).update(options)
    return found


def missing(release, excused):
    """What no check is about and no reason excuses, as "Class.method" or "Class.method(option)"."""
    covered, common = tried(release.language), COMMON[release.language]
    somewhere = {option for options in covered.values() for option in options}
    left = []
    for key, options in sorted(public(release).items()):
        if key in excused or f"{key.split('.')[0]}.*" in excused:
            continue
        if key not in covered:
            left.append(key)
            continue
        for option in sorted(options - covered[key] - UNASKED):
            shared = common | (COMMON_OF_GIT if key.startswith("Git.") else set())
            if not (option in shared and option in somewhere or f"{key}({option})" in excused):
                left.append(f"{key}({option})")
    return left
