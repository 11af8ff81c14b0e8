// Templates: what the builder sends, what a build makes of it, tags, names, failures.
import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { Sandbox, Template, waitForFile, waitForPort, waitForProcess, waitForTimeout, waitForURL }
    from "e2b";
import { check, finish, learn, since, until, withSandbox } from "./support.mjs";

learn("Template", Template());
const unique = `conformance-${process.pid}-${Date.now()}`;
const context = fs.mkdtempSync(path.join(os.tmpdir(), "e2b-context-"));
fs.mkdirSync(path.join(context, "sources", "deep"), { recursive: true });
fs.writeFileSync(path.join(context, "one.txt"), "one\n");
fs.writeFileSync(path.join(context, "sources", "two.txt"), "two\n");
fs.writeFileSync(path.join(context, "sources", "deep", "three.txt"), "three\n");
fs.writeFileSync(path.join(context, "sources", "skipped.log"), "no\n");
fs.symlinkSync("two.txt", path.join(context, "sources", "link"));
const template = (options) => Template({ fileContextPath: context, ...options });
const out = async (sandbox, command, options) =>
    (await sandbox.commands.run(command, options)).stdout.trim();
const made = new Set();
const build = async (of, name, options) => {
  made.add(name);
  // Older versions know the name as an option only.
  return since("2.45.0") ? Template.build(of, name, options)
                         : Template.build(of, { alias: name, ...options });
};

try {
  await check("Template.build(cpuCount, memoryMB, onBuildLogs), Template.fromTemplate, " +
              "Template.copy(user, mode, forceUpload, resolveSymlinks, gzip), " +
              "Template.copyItems, Template.runCmd(user), Template.setEnvs, Template.setWorkdir, " +
              "Template.setUser, Template.makeDir(mode, user), Template.makeSymlink(force, user), " +
              "Template.rename(force, user), Template.remove(force, recursive, user): every step, in " +
              "a sandbox of it", async () => {
    const logs = [];
    const info = await build(template({ fileIgnorePatterns: ["**/*.log"] })
        .fromTemplate("base")
        .setEnvs({ COLOUR: "blue", BOTH: "$COLOUR-sky" })
        .copy("one.txt", "/opt/one.txt", { user: "root", mode: 0o640, forceUpload: true })
        .copy("sources", "/opt/sources", { resolveSymlinks: false, gzip: true })
        .copyItems([{ src: "one.txt", dest: "/opt/copied/" }])
        .setUser("root")
        .makeDir("/opt/made", { mode: 0o700, user: "root" })
        .makeDir(["/opt/made/a", "/opt/made/b"])
        .makeSymlink("/opt/one.txt", "/opt/made/link", { force: true, user: "root" })
        .runCmd("echo ran >/opt/ran && id -un >>/opt/ran")
        .runCmd(["echo first >/opt/list", "echo second >>/opt/list"], { user: "root" })
        .rename("/opt/list", "/opt/renamed", { force: true, user: "root" })
        .runCmd("mkdir -p /opt/gone/deep && touch /opt/gone/deep/x")
        .remove("/opt/gone", { recursive: true, force: true, user: "root" })
        .setUser("user")
        .setWorkdir("/home/user/project")
        .runCmd("pwd >where && id -un >>where"), unique,
        { cpuCount: 1, memoryMB: 512, onBuildLogs: (entry) => { logs.push(entry.message); } });
    assert.ok(info.templateId && info.buildId);
    assert.ok(logs.length > 0);
    await withSandbox(async (sandbox) => {
      assert.equal(await out(sandbox, "pwd; id -un"), "/home/user/project\nuser");
      assert.equal(await out(sandbox, "cat where"), "/home/user/project\nuser");
      assert.equal(await out(sandbox, "echo $COLOUR $BOTH"), "blue blue-sky");
      assert.equal(await out(sandbox, "cat /opt/ran /opt/renamed", { user: "root" }),
                   "ran\nroot\nfirst\nsecond");
      assert.equal(await out(sandbox, "stat -c '%U %a' /opt/one.txt; cat /opt/copied/one.txt",
                             { user: "root" }), "root 640\none");
      assert.equal(await out(sandbox, "cd /opt/sources && find . | sort | tr '\\n' ' '; readlink link",
                             { user: "root" }),
                   ". ./deep ./deep/three.txt ./link ./two.txt two.txt");
      assert.equal(await out(sandbox, "stat -c %a /opt/made; ls /opt/made; readlink /opt/made/link; " +
                                      "ls -d /opt/gone 2>/dev/null || echo gone", { user: "root" }),
                   "700\na\nb\nlink\n/opt/one.txt\ngone");
      const information = await sandbox.getInfo();
      assert.deepEqual([information.cpuCount, information.memoryMB, information.name],
                       [1, 512, unique]);
    }, { template: unique });
  });
  await check("Template.exists, Template.aliasExists: yes and no", async () => {
    assert.equal(await Template.aliasExists(unique), true);
    assert.equal(await Template.aliasExists(`${unique}-none`), false);
    assert.equal(await Template.exists(unique), true);
    assert.equal(await Template.exists(`${unique}-none`), false);
  });
  await check("Template.setStartCmd: it runs already when a sandbox begins", async () => {
    const name = `${unique}-start`;
    await build(template().fromTemplate("base")
        .setStartCmd("touch /home/user/begun && exec -a started sleep 3600",
                     waitForFile("/home/user/begun")), name);
    await withSandbox(async (sandbox) => {
      assert.equal(await out(sandbox, "pgrep -cf '^started'"), "1");
      assert.ok((await sandbox.commands.list()).some((each) => each.args.join(" ").includes("started")));
    }, { template: name });
  });
  await check("Template.setReadyCmd, Template.skipCache, Template.build(skipCache): built again",
      async () => {
    const steps = () => template().fromTemplate("base").skipCache()
        .runCmd("date +%s%N >/home/user/stamp").setReadyCmd("test -e /home/user/stamp");
    const name = `${unique}-cache`;
    const stamps = [];
    for (const skipCache of [false, true]) {
      await build(steps(), name, { skipCache });
      await withSandbox(async (sandbox) => {
        stamps.push(await out(sandbox, "cat /home/user/stamp"));
      }, { template: name });
    }
    assert.notEqual(stamps[0], stamps[1]);
  });
  await check("Template.build: layers that did not change are not made again", async () => {
    const steps = (last) => template().fromTemplate("base")
        .runCmd("date +%s%N >/home/user/stamp").runCmd(`echo ${last} >/home/user/last`);
    const stamps = [];
    for (const last of ["one", "two"]) {
      await build(steps(last), `${unique}-layers`);
      await withSandbox(async (sandbox) => {
        stamps.push(await out(sandbox, "cat /home/user/stamp"));
        assert.equal(await out(sandbox, "cat /home/user/last"), last);
      }, { template: `${unique}-layers` });
    }
    assert.equal(stamps[0], stamps[1]);
  });
  await check("Template.buildInBackground(onBuildLogs, cpuCount, memoryMB, skipCache, tags, alias, " +
              "minFreeDiskMb), " +
              "Template.getBuildStatus(logsOffset, templateId, buildId): asked for", async () => {
    const name = `${unique}-behind`;
    made.add(name);
    const steps = template().fromTemplate("base").runCmd("sleep 1; echo a line of output");
    const info = await Template.buildInBackground(steps, { alias: name, cpuCount: 1, memoryMB: 512,
      skipCache: false, onBuildLogs() {}, ...(since("2.51.0") && { minFreeDiskMb: 100 }) });
    const status = await Template.getBuildStatus(info, { logsOffset: 0 });
    assert.ok(["building", "waiting", "ready"].includes(status.status), status.status);
    const ready = await until(async () => {
      const now = await Template.getBuildStatus(info);
      assert.notEqual(now.status, "error", JSON.stringify(now.reason));
      return now.status === "ready" && now;
    }, "it is built", 120);
    assert.ok(ready.logEntries.some((entry) => entry.message.includes("a line of output")));
  });
  await check("Template.build: a step that fails, by its number and words", async () => {
    await assert.rejects(build(template().fromTemplate("base").runCmd("true")
        .runCmd("echo trouble >&2; exit 9"), `${unique}-fails`), (error) => {
      assert.match(error.message, /exit 9|exit status 9|failed/);
      return true;
    });
    await assert.rejects(Sandbox.create(`${unique}-fails`));
  });
  await check("Template.build: a ready command that never is, or a base that is not there", async () => {
    await assert.rejects(build(template().fromTemplate(`${unique}-none`).runCmd("true"),
                               `${unique}-nobase`));
  });
  await check("Template.build(tags, alias, minFreeDiskMb), Template.assignTags, Template.getTags, Template.removeTags: " +
              "names of builds", async () => {
    const name = `${unique}-tags`;
    const info = await build(template().fromTemplate("base").runCmd("echo 1 >/home/user/version"), name,
                             { tags: ["v1"] });
    await build(template().fromTemplate("base").runCmd("echo 2 >/home/user/version"), name,
                { tags: ["v2"], ...(since("2.51.0") && { minFreeDiskMb: 100 }) });
    const versionOf = (reference) => withSandbox((sandbox) => out(sandbox, "cat /home/user/version"),
                                                 { template: reference });
    assert.equal(await versionOf(`${name}:v1`), "1");
    assert.equal(await versionOf(`${name}:v2`), "2");
    const assigned = await Template.assignTags(`${name}:v1`, ["stable", "old"]);
    assert.deepEqual([...assigned.tags].sort(), ["old", "stable"]);
    assert.equal(await versionOf(`${name}:stable`), "1");
    const tags = (await Template.getTags(info.templateId)).map((each) => each.tag).sort();
    assert.ok(["old", "stable", "v1", "v2"].every((each) => tags.includes(each)), `${tags}`);
    await Template.removeTags(name, "old");
    assert.ok(!(await Template.getTags(info.templateId)).some((each) => each.tag === "old"));
    await assert.rejects(Sandbox.create(`${name}:old`));
  }, { since: "2.20.0" });
  await check("Template.fromDockerfile: its instructions", async () => {
    const name = `${unique}-dockerfile`;
    const file = path.join(context, "Dockerfile");
    fs.writeFileSync(file, `FROM ${process.env.E2B_IMAGE ?? "scratch"}\nENV FROM_FILE=yes\n` +
                           "WORKDIR /work\nCOPY one.txt /work/one.txt\nRUN cat one.txt >copied\n");
    assert.ok(process.env.E2B_IMAGE, "no image to begin with");
    await build(template().fromDockerfile(file), name);
    assert.equal(await Template.aliasExists(name), true);
  });
  await check("Template.fromImage(username, password): from a registry", async () => {
    await build(template().fromImage(process.env.E2B_IMAGE).runCmd("echo built >built"),
                `${unique}-image`);
    const [username, password] = process.env.E2B_REGISTRY_LOGIN.split(":");
    await build(template().fromImage(process.env.E2B_PRIVATE_IMAGE, { username, password })
        .runCmd("echo built >built"), `${unique}-private`);
    await assert.rejects(build(template().fromImage(process.env.E2B_PRIVATE_IMAGE,
        { username, password: "wrong" }).skipCache().runCmd("true"), `${unique}-wrong`));
  });
  await check("Template.fromDebianImage, Template.fromUbuntuImage, Template.fromPythonImage, " +
              "Template.fromNodeImage, Template.fromBunImage, Template.fromBaseImage, " +
              "Template.toJSON: names of images", async () => {
    for (const [of, expected] of [[template().fromDebianImage("bookworm"), "debian:bookworm"],
                                  [template().fromUbuntuImage("24.04"), "ubuntu:24.04"],
                                  [template().fromPythonImage("3.12"), "python:3.12"],
                                  [template().fromNodeImage("22"), "node:22"],
                                  [template().fromBunImage("1"), "oven/bun:1"],
                                  [template().fromBaseImage(), "e2bdev/base"]]) {
      assert.equal(JSON.parse(await Template.toJSON(of)).fromImage, expected);
    }
  });
  await check("Template.fromFedoraImage, Template.fromAlpineImage, Template.fromArchImage: names of " +
              "images", async () => {
    for (const [of, expected] of [[template().fromFedoraImage("42"), /fedora:42/],
                                  [template().fromAlpineImage("3.22"), /alpine:3.22/],
                                  [template().fromArchImage("latest"), /archlinux.*latest/]]) {
      assert.match(JSON.parse(await Template.toJSON(of)).fromImage, expected);
    }
  });
  await check("Template.pipInstall(g), Template.npmInstall(g, dev), Template.bunInstall(g, dev), " +
              "Template.aptInstall(noInstallRecommends, fixMissing), Template.gitClone(branch, depth, " +
              "user), Template.toDockerfile: are commands of a step", async () => {
    const text = Template.toDockerfile(template().fromImage("debian:bookworm")
        .pipInstall(["numpy"], { g: true }).npmInstall("left-pad", { g: true, dev: false })
        .bunInstall("left-pad", { g: true, dev: false })
        .aptInstall(["curl"], { noInstallRecommends: true })
        .gitClone("https://git.example/r.git", "/r", { branch: "main", depth: 1, user: "root" }));
    for (const words of [/pip install.*numpy/, /npm install.*left-pad/, /bun install.*left-pad/,
                         /apt-get install.*curl/, /git clone.*r\.git/]) {
      assert.match(text, words);
    }
  }, { since: "2.45.0" });
  await check("waitForPort, waitForURL, waitForProcess, waitForFile, waitForTimeout: in a sandbox",
      async () => {
    await withSandbox(async (sandbox) => {
      await sandbox.commands.run("python3 -m http.server 8000", { background: true, timeoutMs: 0 });
      for (const ready of [waitForPort(8000), waitForURL("http://127.0.0.1:8000/", 200),
                           waitForProcess("python3"), waitForFile("/etc/hostname"),
                           waitForTimeout(100)]) {
        await until(async () => (await sandbox.commands.run(ready.getCmd())
            .catch((error) => error)).exitCode === 0, ready.getCmd(), 20);
      }
    });
  });
} finally {
  fs.rmSync(context, { recursive: true });
  for (const name of made) {
    await fetch(new URL(`/templates/${name}`, process.env.E2B_API_URL),
                { method: "DELETE", headers: { "X-API-KEY": process.env.E2B_API_KEY } });
  }
}
finish();
