"""Instructions of the pieces of a request, by callgrind: the same on a busy machine as on a quiet one."""
import re
import subprocess

FEW, MANY = 20, 120
COLLECTED = re.compile(r"Collected : (\d+)")


def collected(program, piece, count):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program,
                           piece, str(count)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=300)
    found = COLLECTED.search(done.stderr)
    if done.returncode != 0 or not found:
        raise SystemExit(f"bench-quick: valgrind says nothing about {piece}:\n{done.stderr[-800:]}")
    return int(found.group(1))


def pieces(program):
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()


def count(program):
    """{piece: instructions for each time}: what the larger count adds."""
    return {piece: round((collected(program, piece, MANY) - collected(program, piece, FEW))
                         / (MANY - FEW)) for piece in pieces(program)}
