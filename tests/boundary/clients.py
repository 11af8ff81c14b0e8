"""Programs that sandboxes lack, brought along from the host: real clients as people use them.

Each is taken with the libraries it needs into one archive below /opt/clients. What has to be built
or fetched is kept in the cache of the tests.
"""
import hashlib
import io
import json
import pathlib
import shutil
import subprocess
import tarfile
import zipfile

from harness.packages import fetched

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
PYTHON_PACKAGES = ["requests==2.32.3", "httpx[http2]==0.28.1", "grpcio==1.68.1"]
# The sandbox has the same C library; its own must not meet another's loader.
OWN_LIBRARIES = ("ld-linux", "libc.so", "libm.so", "libpthread", "libdl", "librt", "linux-vdso")


def libraries(binary):
    output = subprocess.run(["ldd", binary], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        words = line.split()
        if "=>" in words and len(words) > 2 and words[2].startswith("/"):
            if not words[0].startswith(OWN_LIBRARIES):
                yield words[0], words[2]


def version_of(*sources):
    return hashlib.sha256(b"".join(pathlib.Path(each).read_bytes() for each in sources)
                          ).hexdigest()[:12]


def python_packages():
    name = hashlib.sha256(" ".join(PYTHON_PACKAGES).encode()).hexdigest()[:12]
    return fetched(f"pypi-clients-{name}", lambda directory: [
        "/usr/bin/python3", "-m", "pip", "install", "--quiet", "--target", directory,
        *PYTHON_PACKAGES])


def go_client():
    """One static program; None where there is no Go."""
    if shutil.which("go") is None:
        return None
    source = PROGRAMS / "fetch.go"
    return fetched(f"go-fetch-{version_of(source)}", lambda directory: [
        "env", "CGO_ENABLED=0", "GO111MODULE=off", "GOFLAGS=", "go", "build", "-o",
        f"{directory}/go-fetch", str(source)]) / "go-fetch"


def java_client():
    """A runtime with what the program needs and nothing else; None where there is no JDK."""
    if shutil.which("jlink") is None:
        return None
    source = PROGRAMS / "Fetch.java"
    return fetched(f"java-fetch-{version_of(source)}", lambda directory: [
        "sh", "-c", 'javac -d "$0/classes" "$1" && jlink --add-modules java.net.http,jdk.crypto.ec '
        '--strip-debug --no-header-files --no-man-pages --output "$0/java"', directory,
        str(source)])


def bundle():
    """The archive, and the names of what is in it."""
    archive, names = io.BytesIO(), set()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        known = set()
        psql = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/psql"))[-1]
        for binary in (shutil.which("wget"), shutil.which("redis-cli"), str(psql)):
            name = pathlib.Path(binary).name
            names.add(name)
            tar.add(pathlib.Path(binary).resolve(), arcname=f"bin/{name}")
            for library, path in libraries(binary):
                if library not in known:
                    known.add(library)
                    tar.add(pathlib.Path(path).resolve(), arcname=f"lib/{library}")
        tar.add(python_packages(), arcname="python",
                filter=lambda each: None if "__pycache__" in each.name else each)
        tar.add(PROGRAMS / "grpc_client.py", arcname="grpc_client.py")
        if (go := go_client()) is not None:
            names.add("go")
            tar.add(go, arcname="bin/go-fetch")
        if (java := java_client()) is not None:
            names.add("java")
            tar.add(java, arcname="jvm")
    return archive.getvalue(), names


# What they fetch ----------------------------------------------------------------------------------
def fill_web(www):
    """A page, a git repository, an index for pip and a registry for npm; once for everybody and
    once below /private."""
    for top in (www, www / "private"):
        make_repository(top)
        make_index(top)
        make_registry(top, "" if top == www else "/private")


def make_repository(top):
    work = top / "work"
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@harbour.com", "-c",
               "init.defaultBranch=main", "-C", str(work)]
    work.mkdir()
    (work / "readme").write_text("hello from git\n")
    for arguments in (["init", "-q"], ["add", "readme"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*command, *arguments], check=True, capture_output=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(top / "repository.git")],
                   check=True, capture_output=True)
    subprocess.run(["git", "-C", str(top / "repository.git"), "update-server-info"], check=True)
    shutil.rmtree(work)


def make_index(top):
    directory = top / "simple" / "tinypackage"
    directory.mkdir(parents=True)
    name = "tinypackage-1.0-py3-none-any.whl"
    with zipfile.ZipFile(directory / name, "w") as wheel:
        about = "tinypackage-1.0.dist-info"
        wheel.writestr("tinypackage.py", "print('hello from pip')\n")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tinypackage\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\n"
                                         "Tag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    (directory / "index.html").write_text(f'<a href="{name}">{name}</a>')


def make_registry(top, prefix):
    directory = top / "npm"
    directory.mkdir()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, content in (("package/package.json", '{"name":"tiny","version":"1.0.0"}'),
                              ("package/index.js", "console.log('hello from npm')\n")):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content.encode()))
    data = archive.getvalue()
    (directory / "tiny-1.0.0.tgz").write_bytes(data)
    (directory / "tiny").write_text(json.dumps({
        "name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
            "name": "tiny", "version": "1.0.0", "dist": {
                "shasum": hashlib.sha1(data).hexdigest(),
                "tarball": f"https://www.harbour.com{prefix}/npm/tiny-1.0.0.tgz"}}}}))
