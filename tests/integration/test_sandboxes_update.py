"""Changing a sandbox that runs: environment, limits, times; and what it uses."""
import time

import pytest

from harness.client import ApiError
from harness.server import wait_until


def put(sandbox, method="PUT", **config):
    return sandbox.client.expect(200, method, sandbox.path, {"config": config}).data


def test_environment_is_for_processes_started_afterwards(create):
    sandbox = create(env_vars={"A": "1", "B": "2"})
    assert sandbox.out(["sh", "-c", "echo $A$B"]) == "12\n"
    put(sandbox, env_vars={"A": "9"})
    assert sandbox.out(["sh", "-c", "echo $A${B-gone}"]) == "9gone\n"


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_limits_change_in_the_running_cell(server, create, method):
    sandbox = create(memory="256Mi", cpu="500m")
    marker = sandbox.start("sleep 600")
    data = put(sandbox, method, resources={"memory": "512Mi", "cpu": "250m"})
    assert data["resources"]["memory"] == "512Mi" and data["resources"]["cpu"] == "250m"
    assert server.memory_limit(sandbox.id) == 512 << 20
    cpu = server.cell_file(sandbox.id, "cpu.cfs_quota_us", "cpu.max")
    assert cpu.split()[0] == "25000"
    assert sandbox.get()["runtime_generation"] == 1, "nothing was restarted"
    running = sandbox.client.expect(200, "GET", f"{sandbox.path}/contexts/{marker['id']}").data
    assert running["running"] is True


def test_a_larger_limit_lets_a_process_have_it(create):
    sandbox = create(memory="128Mi")
    eat = ["python3", "-c", "b = b'x' * (200 << 20); print('fits')"]
    assert sandbox.run(eat)["exit_code"] != 0
    put(sandbox, resources={"memory": "512Mi"})
    assert sandbox.out(eat) == "fits\n"


def test_less_memory_than_is_used_is_refused(server, create):
    sandbox = create(memory="512Mi")
    script = "import time; b = b'x' * (220 << 20); print('full', flush=True); time.sleep(600)"
    context = sandbox.start(["python3", "-c", script])
    for event in sandbox.stream(context["id"]):
        if event["type"] == "output":
            break
    with pytest.raises(ApiError) as refused:
        put(sandbox, resources={"memory": "128Mi"})
    answer = refused.value.answer
    assert answer.status == 409 and answer.error["code"] == "conflict"
    assert answer.error["details"]["reason"] == "memory_in_use"
    assert sandbox.get()["resources"]["memory"] == "512Mi"
    assert server.memory_limit(sandbox.id) == 512 << 20


@pytest.mark.parametrize("config,named", [
    ({"resources": {"memory": "1Ki"}}, "memory"),
    ({"ttl": 100, "hard_ttl": 50}, "ttl"),
    ({"ttl": -1}, "ttl"),
    ({"env_vars": {"A=B": ""}}, "env_vars"),
    ({"metadata": {"a=b": ""}}, "metadata"),
    ({"tll": 5}, "tll"),
    ({"network": {"mode": "block"}}, "config.network.mode"),
])
def test_bad_update_is_told_what_to_change(create, config, named):
    sandbox = create()
    before = sandbox.get()
    answer = sandbox.client.expect(400, "PUT", sandbox.path, {"config": config})
    assert named in answer.error["message"]
    assert sandbox.get() == before


def test_update_of_a_sandbox_that_is_not_there(client):
    client.expect(404, "PUT", "/api/v1/sandboxes/rs-none", {"config": {}})
    client.expect(404, "POST", "/api/v1/sandboxes/rs-none/refresh")
    client.expect(404, "GET", "/api/v1/sandboxes/rs-none/metrics")


def test_refresh_answers_with_the_new_times(create):
    sandbox = create(ttl=100, hard_ttl=200)
    before = sandbox.get()
    data = sandbox.client.expect(200, "POST", sandbox.path + "/refresh").data
    assert data["sandbox_id"] == sandbox.id
    assert data["expires_at"] > before["expires_at"]
    assert data["hard_expires_at"] > before["hard_expires_at"]
    longer = sandbox.client.expect(200, "POST", sandbox.path + "/refresh", {"duration": 150}).data
    assert longer["expires_at"] > data["expires_at"]
    sandbox.client.expect(400, "POST", sandbox.path + "/refresh", {"duration": 201})
    sandbox.client.expect(400, "POST", sandbox.path + "/refresh", {"durations": 1})


def paused(sandbox):
    return sandbox.get()["status"] == "paused"


def test_refresh_keeps_a_sandbox_and_its_end_comes_to_the_second(client, create):
    sandbox = create(ttl=2)
    for _ in range(3):
        time.sleep(1)  # time passing is what is tested
        client.expect(200, "POST", sandbox.path + "/refresh")
    refreshed = time.monotonic()
    wait_until(lambda: paused(sandbox), 20, "the time of the sandbox ends")
    assert time.monotonic() - refreshed > 1.9


def test_idle_time_runs_only_while_nobody_uses_it(create):
    sandbox = create(idle_ttl=2)
    context = sandbox.start("sleep 3; echo done")
    # An attached stream is use, also while nothing comes.
    output, ending = sandbox.stream_bytes(context["id"])
    used = time.monotonic()
    assert output == b"done\n" and ending["exit_code"] == 0
    assert sandbox.get()["idle_expires_at"]
    # Looking at it is not.
    wait_until(lambda: paused(sandbox), 20, "the idle sandbox stands still")
    assert time.monotonic() - used > 1.5


def test_metrics_have_the_shape_of_the_contract_and_real_numbers(create):
    sandbox = create(memory="256Mi", cpu="1", disk="1Gi")
    sandbox.out("head -c 20000000 /dev/urandom > /home/user/data; sync; "
                "python3 -c 'b = b\"x\" * (50 << 20); sum(range(3000000))'")
    data = sandbox.client.expect(200, "GET", sandbox.path + "/metrics").data
    assert {"start_time", "end_time", "step_seconds", "series", "freshness", "gaps",
            "partial"} <= set(data)
    assert data["step_seconds"] >= 15 and data["freshness"]["status"] == "fresh"
    names = {series["metric"] for series in data["series"]}
    catalog = sandbox.client.expect(200, "GET", sandbox.path + "/metrics/catalog").data
    assert names == {each["name"] for each in catalog["metrics"]}
    now = data["current"]
    assert now["memory_limit_bytes"] == 256 << 20 and now["disk_limit_bytes"] == 1 << 30
    assert now["cpu_seconds"] > 0.05 and now["process_count"] >= 1
    assert 50 << 20 <= now["memory_peak_bytes"] <= 256 << 20
    assert 0 < now["memory_working_set_bytes"] <= now["memory_bytes"]
    assert now["disk_bytes"] > 0
    one = sandbox.client.expect(
        200, "GET", sandbox.path + "/metrics?metrics=sandbox.memory.limit&max_points=5").data
    [series] = one["series"]
    assert series["segments"][0]["points"][-1]["value"] == 256 << 20
    sandbox.client.expect(400, "GET", sandbox.path + "/metrics?metrics=nonsense")
    sandbox.client.expect(400, "GET", sandbox.path + "/metrics?unknown=1")


def test_the_log_says_which_sandbox_and_which_key(server, create):
    sandbox = create()
    sandbox.out(["true"])

    def lines():   # written after the answer
        return [line for line in server.log(1 << 20).splitlines()
                if "contexts" in line and sandbox.id in line and '"status":201' in line]
    found = wait_until(lines, 10, "the request is in the log")
    assert '"key":"key-admin"' in found[-1] and server.key not in server.log(1 << 20)
