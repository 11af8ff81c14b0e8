"""The git module: it only runs commands, so what it needs is git in the template and a shell."""
from support import case, raises, run_cases, sandbox_of

REPOSITORY, REMOTE, CLONED = "/home/user/repository", "/home/user/remote.git", "/home/user/cloned"


async def out(sandbox, command):
    return (await sandbox.commands.run(command)).stdout.strip()


@case("Git.configure_user(scope, path), Git.set_config(scope, path), Git.get_config(scope, path): "
      "global, then of one repository")
async def _(sandbox):
    git = sandbox.git
    await git.configure_user("A Person", "person@example.com")
    assert await git.get_config("user.name") == "A Person"
    await git.set_config("pull.rebase", "false")
    assert await git.get_config("not.set") is None
    await git.init("/home/user/configured")
    await git.set_config("core.editor", "ed", scope="local", path="/home/user/configured")
    assert await git.get_config("core.editor", scope="local", path="/home/user/configured") == "ed"
    await git.configure_user("O", "o@example.com", scope="local", path="/home/user/configured")


@case("Git.init(bare, initial_branch), Git.status(envs, user, cwd, timeout, request_timeout): "
      "what changed")
async def _(sandbox):
    git = sandbox.git
    await git.init(REPOSITORY, initial_branch="main")
    await git.init(REMOTE, bare=True, initial_branch="main")
    await sandbox.files.write(f"{REPOSITORY}/a.txt", "1\n")
    status = await git.status(".", envs={"LANG": "C"}, user="user", cwd=REPOSITORY, timeout=20,
                              request_timeout=20)
    assert (status.current_branch, status.is_clean, status.has_untracked) == ("main", False, True)


@case("Git.add(files, all), Git.commit(author_name, author_email, allow_empty): history")
async def _(sandbox):
    git = sandbox.git
    await git.add(REPOSITORY, files=["a.txt"])
    await git.commit(REPOSITORY, "first: it's", author_name="An", author_email="a@example.com")
    assert await out(sandbox, f"git -C {REPOSITORY} log -1 --format='%an|%s'") == "An|first: it's"
    await git.commit(REPOSITORY, "empty", allow_empty=True)
    await sandbox.files.write(f"{REPOSITORY}/b.txt", "2\n")
    await git.add(REPOSITORY, all=True)
    await git.commit(REPOSITORY, "second")
    assert (await git.status(REPOSITORY)).is_clean


@case("Git.create_branch, Git.branches, Git.checkout_branch, Git.delete_branch(force)")
async def _(sandbox):
    git = sandbox.git
    await git.create_branch(REPOSITORY, "side")
    await git.checkout_branch(REPOSITORY, "main")
    branches = await git.branches(REPOSITORY)
    assert (sorted(branches.branches), branches.current_branch) == (["main", "side"], "main")
    await git.delete_branch(REPOSITORY, "side", force=True)


@case("Git.remote_add(fetch, overwrite), Git.remote_get, Git.push(remote, branch, set_upstream), "
      "Git.clone(path, branch, depth), Git.pull(remote, branch): there and back")
async def _(sandbox):
    git = sandbox.git
    await git.remote_add(REPOSITORY, "origin", "/nowhere")
    await git.remote_add(REPOSITORY, "origin", REMOTE, overwrite=True, fetch=True)
    assert await git.remote_get(REPOSITORY, "origin") == REMOTE
    assert await git.remote_get(REPOSITORY, "other") is None
    await git.push(REPOSITORY, remote="origin", branch="main", set_upstream=True)
    await git.clone(f"file://{REMOTE}", path=CLONED, branch="main", depth=1)
    await sandbox.files.write(f"{REPOSITORY}/c.txt", "3\n")
    await git.add(REPOSITORY)
    await git.commit(REPOSITORY, "third")
    await git.push(REPOSITORY)
    await git.pull(CLONED, remote="origin", branch="main")
    assert await sandbox.files.read(f"{CLONED}/c.txt") == "3\n"
    with raises(Exception):
        await git.clone("file:///no/such/repository", path="/home/user/none")


@case("Git.restore(paths, staged, worktree, source), Git.reset(mode, target, paths)")
async def _(sandbox):
    git = sandbox.git
    await sandbox.files.write(f"{REPOSITORY}/a.txt", "changed\n")
    await git.restore(REPOSITORY, paths=["a.txt"], worktree=True)
    assert await sandbox.files.read(f"{REPOSITORY}/a.txt") == "1\n"
    await sandbox.files.write(f"{REPOSITORY}/a.txt", "changed\n")
    await git.add(REPOSITORY)
    await git.restore(REPOSITORY, paths=["a.txt"], staged=True, source="HEAD")
    await git.add(REPOSITORY)
    await git.reset(REPOSITORY, paths=["a.txt"])
    assert not (await git.status(REPOSITORY)).has_staged
    await git.reset(REPOSITORY, mode="hard", target="HEAD~1")
    assert not await sandbox.files.exists(f"{REPOSITORY}/c.txt")


@case("Git.dangerously_authenticate(username, password, host, protocol): kept by git")
async def _(sandbox):
    await sandbox.git.dangerously_authenticate(username="me", password="word", host="git.example",
                                               protocol="https")
    assert await out(sandbox, "printf 'protocol=https\\nhost=git.example\\n\\n' | "
                              "git credential fill | grep password") == "password=word"


async def main():
    async with sandbox_of() as sandbox:
        await run_cases(sandbox)
