"""The sandbox's own cgroup is invisible to it: no limit can be lifted, no agent be named."""
import os

from harness import kernel
from security_values import refused


def test_no_cgroup_file_is_within_reach(attack):
    got = attack("""
        got['found'] = []
        for top, directories, files in os.walk('/sys'):
            got['found'] += [os.path.join(top, name) for name in files if name in (
                'release_agent', 'notify_on_release', 'cgroup.procs', 'tasks', 'memory.max',
                'memory.limit_in_bytes', 'devices.allow', 'pids.max')]
    """)
    assert got["found"] == []


def test_release_agent_cannot_be_planted(attack):
    """The classic: mount a hierarchy, name a program of the sandbox, empty a group."""
    got = attack("""
        os.makedirs('/tmp/cg', exist_ok=True)
        got['mounts'] = [call('mount', 'none', '/tmp/cg', 'cgroup', 0, controller) for controller in
                         ('rdma', 'misc', 'memory', 'none,name=probe', 'devices', 'cpuset')]
        got['agent'] = write('/tmp/cg/release_agent', '/tmp/agent')
        os.makedirs('/tmp/cg/x', exist_ok=True)
        got['notify'] = write('/tmp/cg/x/notify_on_release', '1')
    """)
    assert all(refused(result) for result in got["mounts"])
    assert refused(got["agent"]) and refused(got["notify"])
    for hierarchy in os.listdir("/sys/fs/cgroup"):
        agent = kernel.read(f"/sys/fs/cgroup/{hierarchy}/release_agent").strip()
        assert agent != "/tmp/agent"


def test_processes_stay_in_their_cgroup(attack, server):
    """Whatever a process does to detach itself, the host still counts it to the sandbox."""
    before = server.cell_processes(attack.sandbox.id)
    context = attack.sandbox.start(
        "setsid nohup bash -c 'exec -a detached sleep 30' >/dev/null 2>&1 & disown; sleep 30",
        user="root")
    try:
        def detached():
            found = server.cell_processes(attack.sandbox.id) - before
            return [pid for pid in found if "detached" in kernel.read(f"/proc/{pid}/cmdline")]
        from harness.server import wait_until
        wait_until(detached, 10, "the detached process shows in the sandbox's cgroup")
    finally:
        attack.sandbox.client.call("DELETE", f"{attack.sandbox.path}/contexts/{context['id']}")
        attack.sandbox.run("pkill -f detached", user="root")


def test_device_access_is_closed_by_cgroup_too(attack, server):
    """Where version 1 has a devices controller, the instance's list names harmless nodes only."""
    for group in kernel.cgroups_named(f"atoll-{server.instance()}"):
        if os.path.exists(f"{group}/devices.list"):
            text = kernel.read(f"{group}/devices.list")
            assert "a *:* rwm" not in text and "b " not in text, text
