"""Broken connections: output goes on where it stopped, nothing twice, nothing missing."""
import os
import signal
import socket
import threading

from harness.server import Server, wait_until

from atoll_sandbox import Sandbox, UnavailableError


class CuttingProxy:
    """Passes bytes on to the server and cuts each connection after so many bytes of answer."""

    def __init__(self, port, cut_after):
        self.port, self.cut_after, self.cuts = port, cut_after, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.open = set()
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port))
            self.open |= {client, server}
            threading.Thread(target=self.pump, args=(client, server, None), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client, self.cut_after),
                             daemon=True).start()

    def pump(self, source, target, limit):
        passed = 0
        try:
            while data := source.recv(16384):
                passed += len(data)
                target.sendall(data)
                if limit is not None and passed > limit:
                    self.cuts += 1
                    break
        except OSError:
            pass
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()
        for each in self.open:
            each.close()


def test_output_is_exact_over_a_connection_that_keeps_breaking(server):
    proxy = CuttingProxy(server.port, cut_after=400_000)
    try:
        with Sandbox.create(url=proxy.url) as sandbox:
            done = sandbox.commands.run("seq 200000", check=True)
        assert done.stdout == "".join(f"{number}\n" for number in range(1, 200_001))
        assert proxy.cuts >= 3 and not done.truncated
    finally:
        proxy.close()


def reachable(sandbox):
    try:
        return sandbox.is_running()
    except (ConnectionError, UnavailableError):
        return False


def test_a_command_survives_the_death_of_the_api_process():
    with Server() as server:
        with Sandbox.create(url=server.url(), api_key=server.key) as sandbox:
            with sandbox.commands.start(
                    "echo before; while [ ! -e /tmp/on ]; do sleep 0.05; done; echo after; exit 4"
            ) as process:
                events = iter(process)
                assert next(events).text == "before\n"
                os.kill(server.daemons()["api"], signal.SIGKILL)
                wait_until(lambda: reachable(sandbox), 60, "the next API process answers")
                sandbox.files.write("/tmp/on", "")
                done = process.wait()
            assert (done.stdout, done.exit_code, done.outcome) == ("after\n", 4, "completed")
