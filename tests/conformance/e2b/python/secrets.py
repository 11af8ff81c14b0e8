"""Secrets: write-only values, their versions, and how they are used."""
import os
import time

import e2b
from support import SYNC, case, raises, run_cases

NAME = f"conformance-{os.getpid()}-{time.time_ns()}"
Secret = getattr(e2b, "Secret" if SYNC else "AsyncSecret", None)


@case("Secret.create(metadata), Secret.get_info: what it tells, and what it does not")
async def _():
    made = await Secret.create(NAME, "the value", metadata={"owner": "me"})
    assert (made.name, made.version, made.metadata) == (NAME, 1, {"owner": "me"}), made
    assert "the value" not in repr(made)
    assert (await Secret.get_info(made.secret_id)).name == NAME
    assert (await Secret.get_info(NAME)).secret_id == made.secret_id
    with raises(Exception):
        await Secret.create(NAME, "again")
    with raises(e2b.SecretNotFoundException):
        await Secret.get_info("no-such-secret")


@case("Secret.update(metadata), Secret.exists: a new version")
async def _():
    updated = await Secret.update(NAME, "another", metadata={"owner": "you"})
    assert (updated.version, updated.metadata) == (2, {"owner": "you"}), updated
    assert await Secret.exists(NAME) is True
    assert await Secret.exists("no-such-secret") is False


@case("Secret.list(limit, next_token), SecretPaginator.next_items, SecretPaginator.has_next, "
      "SecretPaginator.next_token: page by page")
async def _():
    await Secret.create(f"{NAME}-2", "x")
    paginator, found, token = Secret.list(limit=1), [], None
    while paginator.has_next:
        found += await paginator.next_items()
        token = token or paginator.next_token
    assert {NAME, f"{NAME}-2"} <= {each.name for each in found}
    assert (await Secret.list(limit=1, next_token=token).next_items())[0].name == found[1].name


@case("Secret.fill, Secret.iam_token: forms")
async def _():
    assert Secret.fill("key") == "${e2b.secrets.key}"


@case("Secret.destroy: true, then false")
async def _():
    await Secret.destroy(f"{NAME}-2")
    assert await Secret.destroy(NAME) is True
    assert await Secret.destroy(NAME) is False


async def main():
    await run_cases()
