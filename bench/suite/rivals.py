"""What a user would pick instead, on the same root filesystem: each takes part when it works here,
and the report says why one does not."""
import json
import subprocess

from suite.client import APART
from suite.place import say, which

RUNSC = "/opt/atoll/runsc/runsc"
COMMAND = "/bin/true"
MOST_SECONDS = 120  # for one call of a rival


def write_spec(place, bundle):
    """An OCI bundle: the runtime's own template of a spec, without a terminal."""
    if (bundle / "config.json").exists() or not (maker := which("runc", "crun")):
        return
    subprocess.run([maker, "spec"], cwd=bundle, check=True, timeout=MOST_SECONDS)
    spec = json.loads((bundle / "config.json").read_text())
    spec["process"] |= {"terminal": False, "args": [COMMAND],
                        "rlimits": []}  # raising limits needs a capability that not every host gives
    spec["root"]["readonly"] = True
    (bundle / "config.json").write_text(json.dumps(spec))


def candidates(place, bundle):
    """(name, program, command that runs /bin/true once)"""
    rootfs, state = str(bundle / "rootfs"), lambda name: str(place.work / name)
    bwrap, crun, runc = which("bwrap"), which("crun"), which("runc")
    podman, docker, runsc = which("podman"), which("docker"), which(RUNSC, "runsc")
    yield "bwrap", bwrap, [bwrap, "--unshare-all", "--ro-bind", rootfs, "/", "--proc", "/proc",
                           "--dev", "/dev", "--tmpfs", "/tmp", COMMAND]
    yield "crun", crun, [crun, "--root", state("crun"), "run", "--bundle", str(bundle),
                         "atoll-bench-crun-{number}"]
    yield "runc", runc, [runc, "--root", state("runc"), "run", "--bundle", str(bundle),
                         "atoll-bench-runc-{number}"]
    # No network and no log, which would only make it slower; limits that need no capability to set.
    yield "podman", podman, [
        podman, "--root", state("podman"), "--runroot", state("podman-run"), "--tmpdir",
        state("podman-tmp"), "--cgroup-manager", "cgroupfs", "--events-backend", "none", "--runtime",
        crun or "crun", "--storage-driver", "vfs", "run", "--rm", "--network", "none",
        "--log-driver", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024",
        "--rootfs", rootfs, COMMAND]
    platform = ["--platform", "systrap"] if runsc == RUNSC else ["--platform", "ptrace"]
    yield "runsc", runsc, [runsc, "--root", state("runsc"), "--network", "none",
                           "--ignore-cgroups", *platform, "run", "--bundle", str(bundle),
                           "atoll-bench-runsc-{number}"]
    yield "docker", docker, [docker, "run", "--rm", "--network", "none", "atoll-bench-rootfs",
                             COMMAND]


def available(place):
    """[(name, command)] of those that run here; the others are noted in place.absent."""
    bundle = place.bundle()
    write_spec(place, bundle)
    found = []
    for name, program, command in candidates(place, bundle):
        if program is None:
            place.absent[name] = "not installed"
            continue
        if name == "docker" and not import_image(place, program, bundle):
            continue
        once = [word.replace("{number}", "try") for word in command]
        try:
            done = subprocess.run([*APART, *once], stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            place.absent[name] = f"did not end within {MOST_SECONDS} s"
            continue
        if done.returncode == 0:
            found.append((name, command))
        else:
            lines = (done.stderr or done.stdout).strip().splitlines()
            place.absent[name] = lines[-1][-200:] if lines else f"exit status {done.returncode}"
    place.present = [name for name, _ in found]
    for name, reason in place.absent.items():
        say(f"bench: {name} does not take part: {reason}")
    return found


def import_image(place, docker, bundle):
    """Docker takes no directory: the same files as an image."""
    try:
        runs = subprocess.run([docker, "info"], capture_output=True,
                              timeout=MOST_SECONDS).returncode == 0
    except subprocess.TimeoutExpired:
        runs = False
    if not runs:
        place.absent["docker"] = "no engine runs here"
        return False
    with subprocess.Popen(["tar", "-C", bundle / "rootfs", "-c", "."],
                          stdout=subprocess.PIPE) as archive:
        subprocess.run([docker, "import", "-", "atoll-bench-rootfs"], stdin=archive.stdout,
                       check=True, capture_output=True, timeout=MOST_SECONDS)
    place.ends.callback(subprocess.run, [docker, "rmi", "-f", "atoll-bench-rootfs"],
                        capture_output=True, timeout=MOST_SECONDS)
    return True


def floors(place):
    """The bare system calls, prepared ahead and from nothing."""
    rootfs = str(place.bundle() / "rootfs")
    directory = place.work / "floor"
    directory.mkdir(exist_ok=True)
    return [{"name": name, "floor": [place.program("atoll-floor"), kind, rootfs, str(directory),
                                     COMMAND]}
            for name, kind in (("floor, pooled", "pooled"), ("floor, from nothing", "cold"))]


def versions(place):
    """What took part, as it says itself."""
    told = {}
    for name, program, _ in candidates(place, place.bundle()):
        if name in place.present:
            done = subprocess.run([program, "--version"], capture_output=True, text=True,
                                  timeout=MOST_SECONDS)
            told[name] = (done.stdout or done.stderr).strip().splitlines()[0]
    return told
