// The git module: it only runs commands, so what it needs is git in the template and a shell.
import assert from "node:assert/strict";
import { check, finish, NotApplicable, withSandbox } from "./support.mjs";

await withSandbox(async (sandbox) => {
  const { git } = sandbox;
  if (git === undefined) {
    await check("Git.init: the module", async () => {
      throw new NotApplicable("this version has no git module");
    });
    return;
  }
  const out = async (command) => (await sandbox.commands.run(command)).stdout.trim();
  const repository = "/home/user/repository";
  const remote = "/home/user/remote.git";

  await check("Git.configureUser(scope, path), Git.setConfig(scope, path), Git.getConfig(scope, " +
              "path): global, then of one repository", async () => {
    await git.configureUser("A Person", "person@example.com");
    assert.equal(await git.getConfig("user.name"), "A Person");
    await git.setConfig("pull.rebase", "false");
    assert.equal(await git.getConfig("pull.rebase"), "false");
    assert.equal(await git.getConfig("not.set"), undefined);
    await git.init("/home/user/configured");
    await git.setConfig("core.editor", "ed", { scope: "local", path: "/home/user/configured" });
    assert.equal(await git.getConfig("core.editor", { scope: "local", path: "/home/user/configured" }),
                 "ed");
    await git.configureUser("Other", "o@example.com",
                            { scope: "local", path: "/home/user/configured" });
    assert.equal(await out("git -C configured config user.name"), "Other");
  });
  await check("Git.init(initialBranch, bare): both kinds", async () => {
    await git.init(repository, { initialBranch: "main" });
    await git.init(remote, { bare: true, initialBranch: "main" });
    assert.equal(await out(`git -C ${remote} rev-parse --is-bare-repository`), "true");
  });
  await check("Git.status: what changed", async () => {
    await sandbox.files.write(`${repository}/a.txt`, "1\n");
    const status = await git.status(repository);
    assert.deepEqual([status.currentBranch, status.isClean, status.hasUntracked, status.totalCount],
                     ["main", false, true, 1]);
    assert.equal(status.fileStatus[0].name, "a.txt");
  });
  await check("Git.add(files, all), Git.commit(authorName, authorEmail, allowEmpty): history", async () => {
    await git.add(repository, { files: ["a.txt"] });
    assert.equal((await git.status(repository)).stagedCount, 1);
    await git.commit(repository, "first: it's \"quoted\"",
                     { authorName: "An Author", authorEmail: "author@example.com" });
    assert.equal(await out(`git -C ${repository} log -1 --format='%an|%ae|%s'`),
                 "An Author|author@example.com|first: it's \"quoted\"");
    await git.commit(repository, "empty", { allowEmpty: true });
    await sandbox.files.write(`${repository}/b.txt`, "2\n");
    await git.add(repository, { all: true });
    await git.commit(repository, "second");
    assert.equal((await git.status(repository)).isClean, true);
  });
  await check("Git.createBranch, Git.branches, Git.checkoutBranch, Git.deleteBranch(force)", async () => {
    await git.createBranch(repository, "side");
    assert.equal((await git.branches(repository)).currentBranch, "side");
    await git.checkoutBranch(repository, "main");
    const { branches, currentBranch } = await git.branches(repository);
    assert.deepEqual([branches.sort(), currentBranch], [["main", "side"], "main"]);
    await git.deleteBranch(repository, "side", { force: true });
    assert.deepEqual((await git.branches(repository)).branches, ["main"]);
  });
  await check("Git.remoteAdd(fetch, overwrite), Git.remoteGet", async () => {
    await git.remoteAdd(repository, "origin", "/nowhere");
    await git.remoteAdd(repository, "origin", remote, { overwrite: true, fetch: true });
    assert.equal(await git.remoteGet(repository, "origin"), remote);
    assert.equal(await git.remoteGet(repository, "other"), undefined);
  });
  await check("Git.push(remote, branch, setUpstream), Git.clone(path, branch, depth), " +
              "Git.pull(remote, branch): there and back", async () => {
    await git.push(repository, { remote: "origin", branch: "main", setUpstream: true });
    await git.clone(`file://${remote}`, { path: "/home/user/cloned", branch: "main", depth: 1 });
    assert.equal(await sandbox.files.read("cloned/b.txt"), "2\n");
    assert.equal(await out("git -C cloned rev-list --count HEAD"), "1");
    await sandbox.files.write(`${repository}/c.txt`, "3\n");
    await git.add(repository);
    await git.commit(repository, "third");
    await git.push(repository);
    await git.pull("/home/user/cloned", { remote: "origin", branch: "main" });
    assert.equal(await sandbox.files.read("cloned/c.txt"), "3\n");
  });
  await check("Git.restore(paths, staged, worktree, source), Git.reset(mode, target, paths)", async () => {
    await sandbox.files.write(`${repository}/a.txt`, "changed\n");
    await git.restore(repository, { paths: ["a.txt"], worktree: true });
    assert.equal(await sandbox.files.read(`${repository}/a.txt`), "1\n");
    await sandbox.files.write(`${repository}/a.txt`, "changed\n");
    await git.add(repository);
    await git.restore(repository, { paths: ["a.txt"], staged: true, source: "HEAD" });
    assert.equal((await git.status(repository)).hasStaged, false);
    await git.add(repository);
    await git.reset(repository, { paths: ["a.txt"] });
    assert.equal((await git.status(repository)).hasStaged, false);
    await git.reset(repository, { mode: "hard", target: "HEAD~1" });
    assert.equal(await sandbox.files.exists(`${repository}/c.txt`), false);
  });
  await check("Git.dangerouslyAuthenticate(username, password, host, protocol): kept by git", async () => {
    await git.dangerouslyAuthenticate({ username: "me", password: "word", host: "git.example",
                                        protocol: "https" });
    assert.equal(await out("printf 'protocol=https\\nhost=git.example\\n\\n' | git credential fill | " +
                           "grep password"), "password=word");
  });
  await check("Git.status(envs, user, cwd, timeoutMs, requestTimeoutMs): as commands have them",
      async () => {
    const status = await git.status(".", { cwd: repository, user: "user", envs: { LANG: "C" },
                                           timeoutMs: 20_000, requestTimeoutMs: 20_000 });
    assert.equal(status.currentBranch, "main");
  });
  await check("Git.clone: what is not there", async () => {
    await assert.rejects(git.clone("file:///no/such/repository", { path: "/home/user/none" }));
  });
});
finish();
