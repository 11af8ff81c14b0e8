"""The machine, and what the kernel says about memory and processor time."""
import os
import pathlib
import platform
import re
import subprocess

TICKS = os.sysconf("SC_CLK_TCK")
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


def describe():
    cpu = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    release = re.search(r'PRETTY_NAME="(.*)"', pathlib.Path("/etc/os-release").read_text())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                            cwd=pathlib.Path(__file__).parent)
    return {"cpu": cpu.group(1) if cpu else platform.machine(), "cores": os.cpu_count(),
            "memory_mib": meminfo("MemTotal") // 1024, "kernel": platform.release(),
            "system": release.group(1) if release else "",
            "virtual": virtualization(), "commit": commit.stdout.strip(),
            "load_before": round(os.getloadavg()[0], 2)}


def virtualization():
    done = subprocess.run(["systemd-detect-virt"], capture_output=True, text=True) \
        if os.path.exists("/usr/bin/systemd-detect-virt") else None
    if done and done.stdout.strip():
        return done.stdout.strip()
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    return "a virtual machine" if " hypervisor" in flags else "bare metal"


def meminfo(field):
    """KiB"""
    return next(int(line.split()[1]) for line in open("/proc/meminfo")
                if line.startswith(field + ":"))


def memory_cgroup_kib(parent, count=64):
    """What the kernel itself takes for each memory cgroup, KiB; None where it makes none there."""
    places = [pathlib.Path(parent, f"probe-{number}") for number in range(count)]
    before = meminfo("SUnreclaim")
    try:
        for place in places:
            place.mkdir()
        taken = meminfo("SUnreclaim") - before
        has_memory = any(places[0].glob("memory.*"))
    except OSError:
        return None
    finally:
        for place in places:
            if place.exists():
                place.rmdir()
    return round(taken / count) if has_memory else None


def cpu_seconds(pid):
    """User and system time of all threads of a process, also of those that have ended."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_kib(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_KIB


def guests(binary="atoll-guest"):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.path.basename(words[0]).decode(errors="replace") == binary:
            yield int(pid)


def rollup(pid):
    """Private and proportional KiB of a process, or None when it has gone."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    values = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith("kB")}
    return values["Private_Dirty"] + values["Private_Clean"], values["Pss"]
