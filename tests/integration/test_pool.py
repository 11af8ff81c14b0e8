"""Prepared cells: claims that make nothing, bounds that are kept, and none left anywhere."""
import os
import signal
import threading

import pytest

from harness import kernel
from harness.client import Client
from harness.server import Server, wait_until

ALL = "/api/v1/sandboxes"
TEMPLATES = "/api/v1/templates"


def cells(server):
    return kernel.cells_in(kernel.cgroups_named(f"atoll-{server.instance()}"))


def idle(server, template="default"):
    return server.client.expect(200, "GET", f"{TEMPLATES}/{template}").data["status"]["idleCount"]


def taken(server):
    return server.metric("atoll_control_claims_prepared_total")


def wait_idle(server, count, template="default"):
    wait_until(lambda: idle(server, template) == count, 30, f"{count} of {template} are ready")


def wait_filled(server, least=1, template="default"):
    wait_until(lambda: idle(server, template) >= least, 30, f"{least} of {template} are ready")


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


@pytest.fixture
def made(server):
    """A template of the team, as small as the default one; its pool is to be said."""
    source = server.client.create()
    source.write("/home/user/version", "1")
    server.client.expect(202, "POST", f"{TEMPLATES}/from-sandbox",
                         {"template_id": "pooled", "sandbox_id": source.id}, timeout=120)
    ready(server)
    yield "pooled"
    source.delete()
    for each in server.client.expect(200, "GET", f"{ALL}?template_id=pooled").data["sandboxes"]:
        server.client.call("DELETE", f"{ALL}/{each['id']}")
    server.client.expect(200, "DELETE", f"{TEMPLATES}/pooled", timeout=60)


def ready(server):
    wait_until(lambda: server.client.expect(200, "GET", f"{TEMPLATES}/pooled").data["status"][
        "creation"]["state"] == "ready", 60, "the template is ready")


def set_pool(server, template, least, most):
    spec = server.client.expect(200, "GET", f"{TEMPLATES}/{template}").data["spec"]
    spec["pool"] = {"minIdle": least, "maxIdle": most}
    server.client.expect(200, "PUT", f"{TEMPLATES}/{template}", {"spec": spec})


def test_a_claim_takes_what_is_ready(server):
    spec = server.client.expect(200, "GET", f"{TEMPLATES}/default").data["spec"]
    wait_filled(server, spec["pool"]["minIdle"])
    before = taken(server)
    sandbox = server.client.create(env_vars={"WHO": "me"})
    assert taken(server) == before + 1
    assert sandbox.out(["hostname"]).strip() == sandbox.id
    assert sandbox.out(["sh", "-c", "echo $WHO; ls -A /home/user /tmp"]).startswith("me\n")
    sandbox.delete()
    wait_filled(server, spec["pool"]["minIdle"])


def test_tighter_limits_are_set_on_what_is_ready(server):
    wait_filled(server)
    before = server.metric("atoll_control_claims_tightened_total")
    sandbox = server.client.create(memory="384Mi", disk="1Gi", cpu="500m")
    assert server.metric("atoll_control_claims_tightened_total") == before + 1
    assert server.memory_limit(sandbox.id) == 384 << 20
    assert sandbox.out(["true"]) == ""
    wider = server.client.create(disk="11Gi")
    assert wider.out(["true"]) == ""
    sandbox.delete()
    wider.delete()


def test_what_was_used_is_never_used_again(server):
    """Ids, disks and processes of many short lives: none is seen twice."""
    seen = set()
    for number in range(40):
        sandbox = server.client.create()
        assert sandbox.id not in seen
        seen.add(sandbox.id)
        assert sandbox.run(["cat", "/home/user/mine"])["exit_code"] != 0
        sandbox.write("/home/user/mine", str(number))
        sandbox.start(["sleep", "1000"])
        sandbox.delete()
    assert not seen & cells(server)


def test_bounds_of_a_template_are_kept(server, made):
    set_pool(server, made, 3, 3)
    wait_idle(server, 3, made)
    before = taken(server)
    first = server.client.create(template=made)
    assert taken(server) == before + 1
    assert first.out(["cat", "/home/user/version"]) == "1"
    wait_idle(server, 3, made)
    for _ in range(5):
        server.client.create(template=made)
        assert idle(server, made) <= 3
    set_pool(server, made, 0, 0)
    wait_idle(server, 0, made)


def test_a_template_that_changes_is_drained(server, made):
    set_pool(server, made, 2, 4)
    wait_idle(server, 2, made)
    old = {each for each in cells(server) if "pooled" in each}
    assert len(old) == 2
    newer = server.client.create()
    newer.write("/home/user/version", "2")
    server.client.expect(200, "DELETE", f"{TEMPLATES}/{made}", timeout=60)
    assert not old & cells(server), "gone before the layers are"
    server.client.expect(202, "POST", f"{TEMPLATES}/from-sandbox",
                         {"template_id": made, "sandbox_id": newer.id,
                          "spec_overrides": {"pool": {"minIdle": 2, "maxIdle": 2}}}, timeout=120)
    ready(server)
    wait_idle(server, 2, made)
    sandbox = server.client.create(template=made)
    assert sandbox.id not in old
    assert sandbox.out(["cat", "/home/user/version"]) == "2"
    sandbox.delete()
    newer.delete()


def test_one_that_dies_is_replaced(server):
    wait_filled(server, 4)
    # Others may be on their way: of templates that are gone, or to preload an interpreter.
    waiting = [each for each in cells(server) - set(server.client.list_ids())
               if each.startswith("rs-default-") and server.cell_processes(each)]
    victim = sorted(waiting)[0]
    os.kill(min(server.cell_processes(victim)), signal.SIGKILL)
    wait_until(lambda: victim not in cells(server), 20, "the dead one is cleared away")
    wait_filled(server, 4)
    assert server.client.create().out(["echo", "x"]) == "x\n"


def in_parallel(count, work):
    results, failures = [None] * count, []

    def run(index):
        try:
            results[index] = work(index)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[:3]
    return results


def test_more_claims_than_are_ready_all_succeed():
    with Server() as server:
        def one(number):
            client = Client(server.host, server.port, server.key)
            sandbox = client.create()
            assert sandbox.out(["echo", str(number)]) == f"{number}\n"
            client.forget_connection()
            return sandbox.id
        ids = in_parallel(200, one)
        assert len(set(ids)) == 200
        assert set(ids) <= cells(server)
        # Who comes in numbers comes again: more are ready now than before.
        wait_filled(server, 20)
        before = taken(server)
        assert len(set(in_parallel(10, one)) | set(ids)) == 210
        assert taken(server) - before == 10


def test_the_operator_can_do_without():
    with Server(extra=["--prepared-max", "0"]) as server:
        sandbox = server.client.create()
        sandbox.out(["true"])
        # Interpreters are preloaded in cells of their own.
        assert {each for each in cells(server) if not each.startswith("build-")} == {sandbox.id}
        assert idle(server) == 0


def test_memory_for_all_is_a_bound():
    with Server(extra=["--prepared-memory", "2Mi"]) as server:
        wait_idle(server, 2)
        for _ in range(10):
            server.client.create().delete()
            assert idle(server) <= 2


def test_a_stop_keeps_only_sandboxes():
    server = Server()
    try:
        server.start()
        kept = server.client.create()
        kept.write("/home/user/promise", "kept")
        wait_filled(server, 4)
        server.stop()
        assert os.listdir(os.path.join(server.data_dir, "cells")) == [kept.id]
        server.start()
        assert kept.id in server.client.list_ids()
        kept.client = server.client
        assert kept.read("/home/user/promise") == b"kept"
        server.stop()
    finally:
        server.discard()


@pytest.mark.parametrize("victim", ["api", "node", "all"])
def test_kill_leaves_no_cell_behind(victim):
    with Server() as server:
        kept = server.client.create()
        kept.write("/home/user/promise", "kept")
        wait_filled(server, 4)
        old = cells(server) - {kept.id}
        if victim == "all":
            server.kill_all()
            server.start()
        else:
            pid = server.daemons()[victim]
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not kernel.alive(pid), 20, "it is dead")
            server.client.forget_connection()
        wait_until(lambda: not old & cells(server), 30, "what was prepared before is gone")

        def answers():
            try:
                return server.client.call("GET", "/readyz", timeout=5).status == 200
            except OSError:
                return False
        wait_until(answers, 30, "the server is ready again")
        wait_filled(server, 4)
        kept.client = server.client
        assert kept.out(["cat", "/home/user/promise"]) == "kept"
        wait_until(lambda: len(cells(server)) == 1 + server.prepared_count(), 20,
                   "cells and what is known of them agree")
