"""Interpreters that sandboxes begin with: started before, with the modules of their template."""
import concurrent.futures
import json
import uuid

import pytest

from harness.server import wait_until

SITE = "/home/user/.local/lib/python3/site-packages"
# Leaves a line for each time it is imported; in the sandbox that imports it.
MARKER = """
import os, random, time
with open("/tmp/imported", "a") as file:
    file.write("once\\n")
value = {version}
pid = os.getpid()
drawn = random.random()
state = []
"""


def python(sandbox, code=None, **fields):
    """A Python context; with code, what the code gave."""
    repl = {"alias": "python", **({"input": code} if code else {})}
    made = sandbox.client.expect(201, "POST", f"{sandbox.path}/contexts", {
        "type": "repl", "repl": repl, **({"wait_until_done": True} if code else {}),
        **fields}).data
    return made if code else made["id"]


def run_code(sandbox, context, code):
    done = sandbox.client.expect(200, "POST", f"{sandbox.path}/contexts/{context}/exec",
                                 {"data": code}).data
    assert done["status"] == "ok", done
    return done["output_raw"]


def ask(sandbox, expression, **fields):
    """The value of an expression in a new interpreter."""
    context = python(sandbox, **fields)
    return json.loads(run_code(sandbox, context, f"import json; print(json.dumps({expression}))"))


def is_copy(sandbox, context):
    """Whether it was made of an image: only those map its memory."""
    return "True" in run_code(sandbox, context, "'atoll-image' in open('/proc/self/maps').read()")


@pytest.fixture(scope="module")
def templates(client):
    """Templates with modules of their own and what they are to preload; made of a sandbox."""
    if not client.expect(200, "GET", "/metadata").data["capabilities"]["interpreter_fork"]:
        pytest.skip("this machine cannot clone processes")
    made = []

    class Templates:
        def get(self, name):
            return client.expect(200, "GET", f"/api/v1/templates/{name}").data

        def wait(self, name, what, *states):
            def reached():
                status = self.get(name)["status"]
                return status["creation"]["state"] in states if what == "creation" else (
                    status["preload"]["state"] in states)
            wait_until(reached, 60, f"{what} of {name}")
            return self.get(name)

        def make(self, modules, preload, **overrides):
            name = f"preload-{uuid.uuid4().hex[:8]}"
            sandbox = client.create()
            try:
                version = sandbox.out("python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")'")
                place = SITE.replace("python3", f"python{version.strip()}")
                sandbox.out(f"mkdir -p {place}")
                for module, text in modules.items():
                    sandbox.write(f"{place}/{module}.py", text.encode())
                client.expect(202, "POST", "/api/v1/templates/from-sandbox", {
                    "template_id": name, "sandbox_id": sandbox.id,
                    "spec_overrides": {"preload": preload, **overrides}})
                made.append(name)
                self.wait(name, "creation", "ready")
            finally:
                sandbox.delete()
            return name

        def ready(self, name):
            """The first sandbox of it begins the image."""
            client.create(template=name).delete()
            return self.wait(name, "preload", "ready", "failed")["status"]["preload"]

    yield Templates()
    for name in made:
        client.call("DELETE", f"/api/v1/templates/{name}")


@pytest.fixture(scope="module")
def marked(templates):
    """A template whose module says how often it was imported."""
    name = templates.make({"marked": MARKER.format(version=1), "broken": "import no_such_thing\n",
                           "silly": "raise SystemExit('not today')\n"},
                          ["json", "marked", "broken", "silly"])
    status = templates.ready(name)
    assert status["state"] == "ready", status
    return name


def test_modules_are_there_and_were_imported_once_for_all(create, marked):
    sandbox = create(template=marked)
    assert ask(sandbox, "'marked' in __import__('sys').modules") is True
    context = python(sandbox)
    assert is_copy(sandbox, context)
    assert run_code(sandbox, context, "import marked; marked.value").strip() == "1"
    # The file that an import leaves is in the cell where the image was made, not here.
    assert "absent" in sandbox.out("test -e /tmp/imported && echo present || echo absent")
    assert run_code(sandbox, context, "import os; os.getpid() == marked.pid").strip() == "False"


def test_a_module_that_fails_is_told(templates, marked):
    preload = templates.get(marked)["status"]["preload"]
    assert preload["modules"] == ["json", "marked", "broken", "silly"]
    failed = {each["module"]: each["error"] for each in preload["failed"]}
    assert set(failed) == {"broken", "silly"}
    assert "ModuleNotFoundError" in failed["broken"] and "no_such_thing" in failed["broken"]
    assert "not today" in failed["silly"]
    assert preload["memory_bytes"] > 1 << 20


def test_copies_are_alone(create, marked):
    """Each has the memory of the image until it writes, and nobody sees what it wrote."""
    sandboxes = [create(template=marked) for _ in range(3)]
    contexts = [python(each) for each in sandboxes]
    for number, (sandbox, context) in enumerate(zip(sandboxes, contexts)):
        run_code(sandbox, context, f"import marked; marked.state.append({number}); "
                                   f"marked.value = 'mine {number}'; big = bytearray(30 << 20)")
    for number, (sandbox, context) in enumerate(zip(sandboxes, contexts)):
        said = run_code(sandbox, context, "print(marked.state, marked.value)")
        assert said.strip() == f"[{number}] mine {number}"
    second = python(sandboxes[0])
    assert run_code(sandboxes[0], second, "import marked; marked.state").strip() == "[]"


def test_chance_differs(create, marked):
    sandboxes = [create(template=marked) for _ in range(2)]
    drawn = [ask(sandbox, "[__import__('random').random(), __import__('uuid').uuid4().hex, "
                          "__import__('tempfile').mktemp()]")
             for sandbox in sandboxes for _ in range(2)]
    for values in zip(*drawn):
        assert len(set(values)) == len(values), values


def test_directory_environment_and_arguments(create, marked):
    sandbox = create(template=marked, env_vars={"OF_SANDBOX": "s", "BOTH": "s"})
    seen = ask(sandbox, "[__import__('os').getcwd(), dict(__import__('os').environ), "
                        "__import__('sys').argv, __import__('sys').path[0]]",
               cwd="/usr/share", env_vars={"OF_CONTEXT": "c", "BOTH": "c"})
    directory, env, argv, first = seen
    assert directory == "/usr/share" and argv == [""] and first == ""
    assert (env["OF_SANDBOX"], env["OF_CONTEXT"], env["BOTH"]) == ("s", "c", "c")
    fresh = json.loads(sandbox.out(
        "python3 -c 'import os, json; print(json.dumps(dict(os.environ)))'"))
    for name in ("HOME", "PATH", "USER"):
        assert env.get(name) == fresh.get(name), name
    missing = sandbox.client.call("POST", f"{sandbox.path}/contexts", {
        "type": "repl", "repl": {"alias": "python"}, "cwd": "/no/such/place"})
    assert missing.status == 400, missing.body


def test_an_environment_that_matters_at_the_start_starts_anew(create, marked):
    sandbox = create(template=marked)
    context = python(sandbox, env_vars={"PYTHONHASHSEED": "7"})
    assert not is_copy(sandbox, context)
    assert run_code(sandbox, context, "import sys; 'marked' in sys.modules").strip() == "False"


def test_memory_goes_to_disk_and_comes_back(create, client, marked):
    found = client.expect(200, "GET", "/metadata").data["capabilities"]
    if not found["memory_dump"]:
        pytest.skip(found["memory_dump_reason"])
    sandbox = create(template=marked)
    context = python(sandbox)
    run_code(sandbox, context, "import marked, threading, time\n"
                               "marked.state.append('kept'); ticks = 0\n"
                               "def tick():\n"
                               "    global ticks\n"
                               "    while True: ticks += 1; time.sleep(0.01)\n"
                               "threading.Thread(target=tick, daemon=True).start()")
    assert is_copy(sandbox, context)
    for _ in range(2):
        paused = client.expect(200, "POST", f"{sandbox.path}/pause", {"memory": "disk"}).data
        assert paused["memory"] == "disk", paused
        resumed = client.expect(200, "POST", f"{sandbox.path}/resume").data
        assert resumed["restored"] == "memory", resumed
        assert run_code(sandbox, context, "print(marked.state)").strip() == "['kept']"
        run_code(sandbox, context, "seen = ticks\nwhile ticks == seen: time.sleep(0.01)")
    assert not is_copy(sandbox, context)
    # And what is made of the image afterwards shares it again.
    assert is_copy(sandbox, python(sandbox))


def test_forks_take_it_along(create, client, marked):
    parent = create(template=marked)
    context = python(parent)
    run_code(parent, context, "import marked; marked.state.append('parent')")
    answer = client.expect(201, "POST", f"{parent.path}/fork", {
        "memory": "interpreters", "count": 2, "start": True}, timeout=120).data
    try:
        assert [each["carried"] for each in answer["interpreters"]] == [True]
        for number, child in enumerate(answer["sandboxes"]):
            path = f"/api/v1/sandboxes/{child['id']}/contexts"
            said = client.expect(200, "POST", f"{path}/{context}/exec", {
                "data": f"marked.state.append({number}); print(marked.state)"}).data["stdout"]
            assert said.strip() == f"['parent', {number}]"
            fresh = client.expect(201, "POST", path, {
                "type": "repl", "repl": {"alias": "python", "input": "import marked; marked.state"},
                "wait_until_done": True}).data
            assert fresh["output_raw"].strip() == "[]"
    finally:
        for child in answer["sandboxes"]:
            client.call("DELETE", f"/api/v1/sandboxes/{child['id']}")
    assert run_code(parent, context, "print(marked.state)").strip() == "['parent']"


def test_another_list_makes_another_image(create, client, templates):
    name = templates.make({"one": "value = 1\n", "two": "value = 2\n"}, ["one"])
    assert templates.ready(name)["failed"] == []
    sandbox = create(template=name)
    modules = "[each for each in ('one', 'two') if each in __import__('sys').modules]"
    assert ask(sandbox, modules) == ["one"]
    spec = templates.get(name)["spec"]
    client.expect(200, "PUT", f"/api/v1/templates/{name}", {"spec": {**spec, "preload": ["two"]}})
    assert templates.get(name)["status"]["preload"]["modules"] == ["two"]
    templates.ready(name)
    assert ask(create(template=name), modules) == ["two"]


def test_templates_that_keep_sandboxes_ready_have_it_from_the_start(create, templates):
    name = templates.make({"early": "value = 1\n"}, ["early"], pool={"minIdle": 1, "maxIdle": 1})
    assert templates.wait(name, "preload", "ready", "failed")["status"]["preload"]["state"] == "ready"
    assert ask(create(template=name), "'early' in __import__('sys').modules") is True


def test_the_specification_is_checked(client):
    for preload in ("numpy", [1], ["a b"], ["os", "os"], ["x"] * 65, ["a" * 129], ["os;evil"]):
        answer = client.call("POST", "/api/v1/templates", {
            "template_id": "preload-bad", "spec": {"preload": preload,
                                                   "mainContainer": {"image": "x:1"}}})
        assert answer.status == 400, preload
        assert "preload" in answer.error["message"]


def test_programs_that_changed_start_anew(create, marked):
    """A library that is not the one of the layers: the image does not fit any more."""
    sandbox = create(template=marked)
    assert is_copy(sandbox, python(sandbox))
    sandbox.out("p=$(readlink -f $(command -v python3)); cp $p $p.new && mv -f $p.new $p", user="root")
    context = python(sandbox)
    assert not is_copy(sandbox, context)
    assert run_code(sandbox, context, "1 + 1").strip() == "2"


def test_many_at_once(create, marked):
    sandboxes = [create(template=marked) for _ in range(6)]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        said = list(pool.map(lambda each: python(each, "import marked; marked.value"), sandboxes))
    assert [each["output_raw"].strip() for each in said] == ["1"] * 6
