"""The attacks on the bare host, where nobody refuses anything: `pytest tests/boundary --control`.

An attack whose assertion still holds there proves nothing, so it is named in the end. Only attacks
that need no server can be tried: names, addresses and TLS.
"""
import subprocess

from attacks import Field
from world import NAME_SERVER

# These would reach the machine's own kernel or its namespace instead of a sandbox's, or assert
# about the server itself.
LEFT_OUT = ("A10-", "B4-", "B7-", "B8-", "A2-own-hosts", "A2-pay-address")
TRIED_ON_THE_HOST = ("A1-", "A2-", "A5-", "A6-", "A7-", "A8-", "A9-", "B1-", "B2-", "B3-", "B6-")


def can_be_tried(name):
    return name.startswith(TRIED_ON_THE_HOST) and not name.startswith(LEFT_OUT)


class HostSandbox:
    """Runs commands where the server would run, with a resolver that answers everybody."""

    def __init__(self, world, attacker):
        self.resolver = f"{world.directory}/resolv.conf"
        self.attacker = attacker
        with open(self.resolver, "w") as file:
            file.write(f"nameserver {NAME_SERVER}\n")

    def run(self, command, user="root", timeout_ms=60_000):
        del user
        command = ["bash", "-c", command] if isinstance(command, str) else command
        command = [word.replace("/opt/attacker", self.attacker) for word in command]
        command[0] = "/usr/bin/python3" if command[0] == "python3" else command[0]
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c",
             f"mount --bind {self.resolver} /etc/resolv.conf && exec \"$@\"", "sh", *command],
            capture_output=True, text=True, errors="replace", timeout=timeout_ms / 1000)
        return {"exit_code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


class HostStage:
    def __init__(self, world, canary):
        self.world, self.canary = world, canary
        self.server = self.neighbour = self.client = None
        self.secrets, self.homes, self.placeholders = {}, {}, {}


class HostField(Field):
    def policy(self, policy):
        """Nobody enforces it."""
