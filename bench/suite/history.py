"""A long past for a stopped server: rows as its own tables have them, in the real schema.

What grows with use and stays: events (outbox), deleted ancestors (relatives), answers that were
promised to idempotency keys (claim_keys), restores, and the flows of the network log.
"""
import hashlib
import pathlib
import sqlite3
import time

from suite.client import Failed


def columns(database, table):
    return {row[1] for row in database.execute(f"PRAGMA table_info({table})")}


def insert(database, table, count, row):
    """Only where the schema still is as we know it: a wrong guess must not pass for a past."""
    names = list(row(0))
    missing = set(names) - columns(database, table)
    if missing:
        raise Failed(f"{table} has no {', '.join(sorted(missing))}; see suite/history.py")
    marks = ", ".join("?" * len(names))
    database.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})",
                         (tuple(row(number).values()) for number in range(count)))


def fill(data_dir, rows):
    """Adds about `rows` rows; how many each table got. The shares are what a long life leaves: the
    server keeps at most 5,000 deleted ancestors and trims the rest by age."""
    now = int(time.time() * 1000)
    name = lambda number: f"rs-default-past{number:06d}"  # noqa: E731
    data = pathlib.Path(data_dir)
    with sqlite3.connect(find(data, "sandboxes")) as database:
        team = database.execute("SELECT id FROM teams LIMIT 1").fetchone()[0]
        past = {
            "outbox": (rows * 2 // 5, lambda number: {
                "kind": "sandbox.deleted", "subject": name(number), "team_id": team,
                "at": now - number, "detail": "{}"}),
            "claim_keys": (rows * 2 // 5, lambda number: {
                "team_id": team, "key": f"past-{number}",
                "body_sha256": hashlib.sha256(str(number).encode()).digest(), "answer": "{}",
                "created_at": now - number}),
            "relatives": (min(rows // 20, 5000), lambda number: {
                "id": name(number), "team_id": team, "kind": "sandbox",
                "parent_id": name(number + 1), "cause": "fork", "name": "", "template": "default",
                "created_at": now - number - 60_000, "deleted_at": now - number}),
            "restores": (rows // 20, lambda number: {
                "sandbox_id": name(number // 50), "snapshot_id": f"past-{number}",
                "at": now - number})}
        for table, (count, row) in past.items():
            insert(database, table, count, row)
    database.close()
    told = {table: count for table, (count, _) in past.items()}
    with sqlite3.connect(find(data, "flows")) as database:
        told["flows"] = rows - sum(told.values())
        insert(database, "flows", told["flows"], lambda number: {
            "revision": number, "id": f"past-{number}", "sandbox_id": name(number), "team_id": team,
            "began_at": now - number, "kind": "tcp", "protocol": "http", "name": "example.org",
            "outcome": "allowed", "rule": "", "context_id": "", "detail": "{}"})
    database.close()
    return told


def find(data, table):
    """The database file that has the table."""
    for path in sorted(path for path in data.rglob("*") if path.is_file() and "db" in path.name
                       and "pool" not in path.parts and "cells" not in path.parts):
        with open(path, "rb") as file:
            if not file.read(16).startswith(b"SQLite format 3"):
                continue
        with sqlite3.connect(path) as database:
            found = columns(database, table)
        database.close()
        if found:
            return path
    raise Failed(f"no database with {table} in {data}")
