"""Templates: what the builder sends, what a build makes of it, tags, names, failures."""
import os
import pathlib
import shutil
import tempfile
import time
import urllib.request

from e2b import (AsyncSandbox, AsyncTemplate, wait_for_file, wait_for_port, wait_for_process,
                 wait_for_timeout, wait_for_url)
from support import API_URL, SYNC, case, raises, run_cases, sandbox_of, until

UNIQUE = f"conformance-{os.getpid()}-{time.time_ns()}"
CONTEXT = pathlib.Path(tempfile.mkdtemp(prefix="e2b-context-"))
(CONTEXT / "sources").mkdir()
(CONTEXT / "one.txt").write_text("one\n")
(CONTEXT / "sources" / "two.txt").write_text("two\n")
MADE = set()


def template():
    return AsyncTemplate(file_context_path=CONTEXT)


async def build(of, name, **options):
    MADE.add(name)
    return await AsyncTemplate.build(of, name, **options)


async def out(sandbox, command, **options):
    return (await sandbox.commands.run(command, **options)).stdout.strip()


@case("Template.build(cpu_count, memory_mb, on_build_logs, name), Template.from_template: every step")
async def _():
    logs = []
    info = await build(
        template().from_template("base")
        .set_envs({"COLOUR": "blue"})
        .copy("one.txt", "/opt/one.txt", user="root", mode=0o640)
        .copy_items([{"src": "sources", "dest": "/opt/sources"}])
        .set_user("root").make_dir("/opt/made", mode=0o700)
        .make_symlink("/opt/one.txt", "/opt/made/link")
        .run_cmd("echo ran >/opt/ran").rename("/opt/ran", "/opt/renamed")
        .run_cmd("touch /opt/gone").remove("/opt/gone")
        .set_user("user").set_workdir("/home/user/project").run_cmd(["pwd >where"]),
        UNIQUE, cpu_count=1, memory_mb=512, on_build_logs=logs.append)
    assert info.template_id and info.build_id and logs
    async with sandbox_of(UNIQUE) as sandbox:
        assert await out(sandbox, "pwd; cat where; echo $COLOUR") == \
            "/home/user/project\n/home/user/project\nblue"
        assert await out(sandbox, "stat -c '%U %a' /opt/one.txt; cat /opt/sources/two.txt "
                                  "/opt/renamed; readlink /opt/made/link; ls /opt/gone 2>&1 | wc -l",
                         user="root") == "root 640\ntwo\nran\n/opt/one.txt\n1"


@case("Template.exists, Template.alias_exists: yes and no")
async def _():
    assert await AsyncTemplate.exists(UNIQUE) is True
    assert await AsyncTemplate.exists(f"{UNIQUE}-none") is False
    assert await AsyncTemplate.alias_exists(UNIQUE) is True


@case("Template.build_in_background(name, cpu_count, memory_mb, skip_cache, on_build_logs, tags, "
      "alias, min_free_disk_mb), Template.get_build_status(logs_offset): asked for")
async def _():
    MADE.add(f"{UNIQUE}-behind")
    info = await AsyncTemplate.build_in_background(
        template().from_template("base").run_cmd("sleep 1; echo a line"), f"{UNIQUE}-behind",
        cpu_count=1, memory_mb=512)

    async def ready():
        status = await AsyncTemplate.get_build_status(info, logs_offset=0)
        assert status.status.value != "error", status.reason
        return status.status.value == "ready"
    await until(ready, "it is built", 120)


@case("Template.build(skip_cache, tags, alias, min_free_disk_mb), Template.assign_tags, "
      "Template.get_tags, Template.remove_tags: names of builds", "2.45.0")
async def _():
    name = f"{UNIQUE}-tags"
    info = await build(template().from_template("base").run_cmd("echo 1 >/home/user/v"), name,
                       tags=["v1"], skip_cache=True)
    async with sandbox_of(f"{name}:v1") as sandbox:
        assert await out(sandbox, "cat /home/user/v") == "1"
    assert sorted((await AsyncTemplate.assign_tags(f"{name}:v1", ["a", "b"])).tags) == ["a", "b"]
    await AsyncTemplate.remove_tags(name, ["b"])
    tags = {each.tag for each in await AsyncTemplate.get_tags(info.template_id)}
    assert {"v1", "a"} <= tags and "b" not in tags, tags


@case("Template.skip_cache, Template.build: a step that fails")
async def _():
    with raises(Exception):
        await build(template().skip_cache().from_template("base").run_cmd("exit 9"),
                    f"{UNIQUE}-fails")
    with raises(Exception):
        await AsyncSandbox.create(f"{UNIQUE}-fails")


@case("Template.from_image(username, password), Template.from_dockerfile: from a registry")
async def _():
    await build(template().from_image(os.environ["E2B_IMAGE"]).run_cmd("echo x >x"),
                f"{UNIQUE}-image")
    user, word = os.environ["E2B_REGISTRY_LOGIN"].split(":")
    await build(template().from_image(os.environ["E2B_PRIVATE_IMAGE"], username=user, password=word)
                .run_cmd("echo x >x"), f"{UNIQUE}-private")
    await build(template().from_dockerfile(
        f"FROM {os.environ['E2B_IMAGE']}\nENV A=b\nRUN echo x >/x\n"), f"{UNIQUE}-dockerfile")


@case("Template.from_debian_image(variant), Template.from_ubuntu_image(variant), "
      "Template.from_python_image(version), Template.from_node_image(variant), "
      "Template.from_bun_image(variant), Template.from_base_image, Template.to_json, "
      "Template.to_dockerfile: names of images")
async def _():
    for of, expected in ((template().from_debian_image(variant="bookworm"), "debian:bookworm"),
                         (template().from_ubuntu_image(variant="24.04"), "ubuntu:24.04"),
                         (template().from_python_image(version="3.12"), "python:3.12"),
                         (template().from_node_image(variant="22"), "node:22"),
                         (template().from_bun_image(variant="1"), "oven/bun:1"),
                         (template().from_base_image(), "e2bdev/base")):
        assert f'"{expected}"' in AsyncTemplate.to_json(of)
        assert f"FROM {expected}" in AsyncTemplate.to_dockerfile(of)


@case("Template.from_fedora_image(variant), Template.from_alpine_image(variant), "
      "Template.from_arch_image(variant): names of images")
async def _():
    for of, expected in ((template().from_fedora_image(variant="42"), "fedora:42"),
                         (template().from_alpine_image(variant="3.22"), "alpine:3.22"),
                         (template().from_arch_image(variant="latest"), "archlinux")):
        assert expected in AsyncTemplate.to_json(of)


@case("wait_for_port, wait_for_url, wait_for_process, wait_for_file, wait_for_timeout: in a sandbox")
async def _():
    async with sandbox_of() as sandbox:
        server = await sandbox.commands.run("python3 -m http.server 8000", background=True, timeout=0)
        for ready in (wait_for_port(8000), wait_for_url("http://127.0.0.1:8000/"),
                      wait_for_process("python3"), wait_for_file("/etc/hostname"),
                      wait_for_timeout(100)):
            async def is_ready(ready=ready):
                return await out(sandbox, f"({ready.get_cmd()}) >/dev/null && echo yes || true") == "yes"
            await until(is_ready, ready.get_cmd(), 20)
        await server.kill()


async def main():
    try:
        await run_cases()
    finally:
        shutil.rmtree(CONTEXT)
        for name in MADE:
            request = urllib.request.Request(f"{API_URL}/templates/{name}", method="DELETE",
                                             headers={"X-API-KEY": os.environ["E2B_API_KEY"]})
            try:
                urllib.request.urlopen(request, timeout=30).close()
            except OSError:
                assert name or SYNC  # it was never built
