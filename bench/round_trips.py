"""Round trips on a kept-alive connection: a line of Python against `python3 -i` over a pipe, a
command against the same program started on this machine.  round_trips.py URL KEY_FILE [ROUNDS]

Both sides of a ratio take turns in the same run, so a busy machine slows both.
"""
import statistics
import subprocess
import sys
import time


class Pipe:
    """`python3 -i`: its prompts go to stderr, so a value is one line of stdout."""

    def __init__(self):
        self.process = subprocess.Popen(["/usr/bin/python3", "-u", "-i", "-q"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, bufsize=0)

    def ask(self):
        self.process.stdin.write(b"1+1\n")
        if self.process.stdout.readline() != b"2\n":
            raise SystemExit("bench: python3 -i gave no answer")

    def close(self):
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.wait()


def timed(action):
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1e6


def measure(actions, rounds):
    """The median of each action in microseconds; they take turns, and the first tenth is warm-up."""
    times = [[] for _ in actions]
    for turn in range(rounds + rounds // 10):
        for taken, action in zip(times, actions):
            spent = timed(action)
            if turn >= rounds // 10:
                taken.append(spent)
    return [statistics.median(each) for each in times]


def inside():
    """Runs in a sandbox: the pipe without us."""
    pipe = Pipe()
    (spent,) = measure([pipe.ask], 300)
    pipe.close()
    print(spent)


def main():
    if sys.argv[1:] == ["inside"]:
        return inside()
    from api import Api  # not above: this file also runs in a sandbox, alone

    url, key = sys.argv[1], open(sys.argv[2]).read().strip()
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 500
    api = Api(url, key)
    sandbox = api.call("POST", "/api/v1/sandboxes", {"template": "default"})["sandbox_id"]
    contexts = f"/api/v1/sandboxes/{sandbox}/contexts"
    pipe = Pipe()
    try:
        repl = api.call("POST", contexts, {"type": "repl", "repl": {"alias": "python"}})["id"]
        line = api.request("POST", f"{contexts}/{repl}/exec", {"data": "1+1"})
        on_pipe, on_api = measure([pipe.ask, lambda: api.send(line)], rounds)
        within = float(api.call("POST", contexts, {
            "type": "cmd", "wait_until_done": True,
            "cmd": {"command": ["python3", "-c", open(__file__).read(), "inside"]}})["stdout"])
        command = api.request("POST", contexts, {"type": "cmd", "wait_until_done": True,
                                                 "cmd": {"command": ["true"]}})
        started, commanded = measure([lambda: subprocess.run(["/bin/true"]),
                                      lambda: api.send(command)], max(rounds // 2, 20))
    finally:
        pipe.close()
        api.call("DELETE", f"/api/v1/sandboxes/{sandbox}")
    print(f"  python3 -i over a pipe on the host        {on_pipe:8.0f} us")
    print(f"  python3 -i over a pipe in a sandbox       {within:8.0f} us")
    print(f"  exec \"1+1\" through the API                {on_api:8.0f} us   "
          f"{on_api / on_pipe:.1f} times the pipe on the host")
    print(f"  true, started by a program on the host    {started:8.0f} us")
    print(f"  true, as a command through the API        {commanded:8.0f} us   "
          f"{commanded / started:.1f} times that")


main()
