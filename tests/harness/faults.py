"""Orders for the fault points of a server (src/base/fault_point.h): the page it shares with us."""
import mmap
import os
import struct
import subprocess
import tempfile

from harness.server import BIN_DIR, Server

MOST_POINTS = 1008
MOST_ORDERS = 4
ORDER = struct.Struct("<6I")   # point + 1, skip, times, action, error number, acted
ACTIONS = {"kill": 1, "stop": 2, "fail": 3}


class FaultPlan:
    def __init__(self, bin_dir=BIN_DIR):
        listed = subprocess.run([bin_dir / "atoll", "serve", "--list-fault-points"],
                                capture_output=True, text=True, check=True).stdout
        self.names = listed.split()
        assert len(set(self.names)) == len(self.names), "two points have one name"
        file, self.path = tempfile.mkstemp(prefix="atoll-fault-plan-")
        os.ftruncate(file, MOST_ORDERS * ORDER.size + MOST_POINTS * 4)
        self.page = mmap.mmap(file, 0)
        os.close(file)

    def order(self, name, action="kill", skip=0, times=1, error=0, slot=0):
        """The point does that when it is passed for the (skip + 1)th time from now on."""
        at = slot * ORDER.size
        ORDER.pack_into(self.page, at, 0, skip, times, ACTIONS[action], error, 0)
        struct.pack_into("<I", self.page, at, self.names.index(name) + 1)

    def acted(self, slot=0):
        """How often the last order was carried out."""
        return ORDER.unpack_from(self.page, slot * ORDER.size)[5]

    def forget_orders(self):
        for slot in range(MOST_ORDERS):
            ORDER.pack_into(self.page, slot * ORDER.size, 0, 0, 0, 0, 0, 0)

    def passed(self):
        """How often each point was passed since start_counting, without those that were not."""
        counts = struct.unpack_from(f"<{len(self.names)}I", self.page, MOST_ORDERS * ORDER.size)
        return {name: count for name, count in zip(self.names, counts) if count}

    def start_counting(self):
        struct.pack_into(f"<{MOST_POINTS}I", self.page, MOST_ORDERS * ORDER.size,
                         *([0] * MOST_POINTS))

    def close(self):
        self.page.close()
        os.unlink(self.path)


class FaultyServer(Server):
    """A server that follows `faults`."""

    def __init__(self, **options):
        self.faults = FaultPlan()
        options["extra"] = [*options.get("extra", ()), "--fault-plan", self.faults.path]
        super().__init__(**options)

    def stop(self, *arguments):
        self.faults.forget_orders()
        super().stop(*arguments)

    def discard(self):
        super().discard()
        self.faults.close()
