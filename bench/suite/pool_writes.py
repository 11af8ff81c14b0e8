"""What operations make a server's pool write: the same on a busy machine as on a quiet one.

A pause, a snapshot and a fork wait for the file system to commit. How long that takes is the disk's
business; how much it is, and how often the disk is told to flush, is ours and the kernel's. What the
server does in the background meanwhile (it prepares the next cells) adds to it, and now and then the
kernel has committed everything a moment before: one of the least counts, not the least.
"""
import pathlib

REPEATS = 12
# Of /sys/block/*/stat: see Documentation/block/stat.rst.
WRITES, SECTORS_WRITTEN, FLUSHES = 4, 6, 15
SECTOR_BYTES = 512


def device_of(data_dir):
    """The block device below the server's pool; none when it has no loop file of its own."""
    for backing in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            if pathlib.Path(backing.read_text().strip()).is_relative_to(data_dir):
                return backing.parents[1]
        except OSError:
            continue  # detached at this moment
    return None


def counters(device):
    fields = [int(each) for each in (device / "stat").read_text().split()]
    return (fields[WRITES], fields[SECTORS_WRITTEN] * SECTOR_BYTES / 1024,
            fields[FLUSHES] if len(fields) > FLUSHES else 0)


def of_each(client, data_dir, contestants):
    """{operation: (requests, KiB, flushes)}, the lower quartile of some plans of one round: with the
    create and the command before. Empty when nobody can tell."""
    device = device_of(data_dir)
    if device is None:
        return {}
    told = {}
    for each in contestants:
        seen = []
        for _ in range(REPEATS):
            before = counters(device)
            client.run([each])
            seen.append([round(after - earlier)
                         for after, earlier in zip(counters(device), before)])
        told[each["name"]] = tuple(sorted(seen, key=lambda one: one[::-1])[REPEATS // 4])
    return told
