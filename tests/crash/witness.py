"""What everybody believes after a crash: the database, the API, the node's records, the pool, the
kernel. `agree` waits until they hold the same and says what differs when they do not.
"""
import os
import sqlite3

from harness import kernel
from harness.server import wait_until


def story(server, lines=25):
    """The end of the log, without the requests."""
    told = [line for line in server.log(400_000).splitlines() if '"message":"request"' not in line]
    return "\n".join(told[-lines:])


def ready(server):
    try:
        return server.client.call("GET", "/readyz", timeout=10).status == 200
    except (OSError, AssertionError):
        return False
    finally:
        server.client.forget_connection()


def wait_ready(server):
    wait_until(lambda: {"node", "api"} <= set(server.daemons()), 30, "both processes run")
    wait_until(lambda: ready(server), 30, "the server is ready")
    server.note_pids()


def rows(server, table, columns):
    """As another connection sees them: what is committed."""
    path = os.path.join(server.data_dir, "db", "atoll.db")
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
    try:
        return connection.execute(f"SELECT {columns} FROM {table}").fetchall()
    finally:
        connection.close()


def pool(server, folder):
    """Names in the pool, half-made ones too. It is mounted in the node's namespace only."""
    node = server.daemons()["node"]
    root = f"/proc/{node}/root{os.path.realpath(server.data_dir)}/pool"
    for candidate in (f"{root}/mnt/{folder}", f"{root}/{folder}"):
        if os.path.isdir(candidate):
            return set(os.listdir(candidate))
    raise AssertionError(f"no {folder} in {root}")


def record(server, cell):
    lines = kernel.read(os.path.join(server.data_dir, "cells", cell)).splitlines()
    return dict(line.split(" ", 1) for line in lines if line)


def without_files(cells):
    return {each for each in cells if not each.startswith("files-")}


def differences(server):
    """Empty when nothing is lost, left over or stuck between two states."""
    sandboxes = dict(rows(server, "sandboxes", "id, status"))
    volumes = {each for each, in rows(server, "volumes", "id")}
    moments = {each for table in ("snapshots", "volume_snapshots")
               for each, in rows(server, table, "id")}
    living = {each for each, status in sandboxes.items() if status == "running"}
    frozen = {each for each, status in sandboxes.items() if status == "paused"}
    # Cells that serve the files of volumes come and go by themselves.
    cells = without_files(kernel.cells_in(kernel.cgroups_named(f"atoll-{server.instance()}")))
    disks = pool(server, "uppers")
    records = without_files(os.listdir(os.path.join(server.data_dir, "cells")))
    sockets = without_files(name.removesuffix(".sock")
                            for name in os.listdir(f"/run/atoll/{server.instance()}/guest"))
    # Those that wait for a claim have no row: as many as are known of, each whole.
    waiting = (cells & records & sockets & disks) - set(sandboxes) - volumes
    if len(waiting) == server.prepared_count():
        cells, records, sockets, disks = (each - waiting
                                          for each in (cells, records, sockets, disks))
    found = {
        "rows in the middle of something": {each for each, status in sandboxes.items()
                                            if status not in ("running", "paused")},
        "rows the API does not show": set(sandboxes) ^ set(server.client.list_ids()),
        "disks and rows": disks ^ (set(sandboxes) | volumes),
        "snapshots and their rows": pool(server, "snapshots") ^ moments,
        "trash": pool(server, "trash"),
        "half-made layers": {name for name in pool(server, "layers") if name.startswith(".")},
        "running rows without a cell": living - cells,
        "cells nobody asked for": cells - living - frozen,
        "cells without a record": cells - records,
        "records without a row": records - set(sandboxes),
        "cells without a socket": cells - sockets,
        "sockets without a cell": sockets - cells,
    }
    bases = [record(server, each).get("uid_base") for each in cells & records]
    found["id ranges of two cells"] = {base for base in bases if bases.count(base) > 1}
    return {what: sorted(names) for what, names in found.items() if names}


class Differences:
    """The message of a failed wait, worked out only when it is needed."""

    def __init__(self, server):
        self.server = server

    def __str__(self):
        return f"nobody disagrees: {differences(self.server)}; log:\n{story(self.server)}"


def agree(server):
    wait_until(lambda: not differences(server), 20, Differences(server))
