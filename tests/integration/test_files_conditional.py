"""Conditional and range requests on files, with curl as the judge where it has an opinion."""
import subprocess

import pytest


@pytest.fixture
def curl(server, sandbox, tmp_path):
    def run(path, *arguments, method_path=None):
        """(status, headers with lower-case names, body)"""
        head, body = tmp_path / "head", tmp_path / "body"
        body.write_bytes(b"")
        url = server.url() + (method_path or sandbox.file_path(path))
        subprocess.run(["curl", "-sS", "--max-time", "60", "-H", f"Authorization: Bearer {server.key}",
                        "-D", head, "-o", body, *arguments, url], check=True)
        lines = head.read_text().strip().split("\r\n\r\n")[-1].splitlines()
        headers = {name.lower(): value.strip() for name, value in
                   (line.split(":", 1) for line in lines[1:] if ":" in line)}
        return int(lines[0].split()[1]), headers, body.read_bytes()
    return run


def get(sandbox, path, method="GET", **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return sandbox.client.call(method, sandbox.file_path(path), headers=headers)


def test_validators_come_with_every_read_and_write(sandbox):
    written = sandbox.client.expect(200, "POST", sandbox.file_path("/tmp/v"), b"content")
    read = get(sandbox, "/tmp/v")
    head = get(sandbox, "/tmp/v", "HEAD")
    for answer in (read, head):
        assert answer.status == 200
        assert answer.headers["ETag"] == written.headers["ETag"]
        assert answer.headers["Last-Modified"].endswith(" GMT")
        assert answer.headers["Content-Length"] == "7"
        assert answer.headers["Accept-Ranges"] == "bytes"
    assert read.body == b"content" and head.body == b""


def test_the_etag_follows_every_change(sandbox):
    """Also one that keeps size and modification time."""
    sandbox.write("/tmp/e", "aaaa")
    seen = {get(sandbox, "/tmp/e", "HEAD").headers["ETag"]}
    for command in ("printf bbbb > /tmp/e", "touch -d 2001-01-01 /tmp/e",
                    "printf cccc > /tmp/e; touch -d 2001-01-01 /tmp/e", "cp /tmp/e /tmp/e2; "
                    "touch -r /tmp/e /tmp/e2; mv /tmp/e2 /tmp/e", "chmod 600 /tmp/e"):
        sandbox.out(command)
        etag = get(sandbox, "/tmp/e", "HEAD").headers["ETag"]
        assert etag not in seen, command
        seen.add(etag)
    assert get(sandbox, "/tmp/e", "HEAD").headers["ETag"] == etag


def test_curl_etag_compare(sandbox, curl, tmp_path):
    sandbox.write("/tmp/c", "first")
    saved = tmp_path / "etag"
    assert curl("/tmp/c", "--etag-save", saved)[::2] == (200, b"first")
    assert curl("/tmp/c", "--etag-compare", saved)[::2] == (304, b"")
    sandbox.write("/tmp/c", "other")
    assert curl("/tmp/c", "--etag-compare", saved)[::2] == (200, b"other")


def test_curl_time_condition(sandbox, curl):
    sandbox.out("printf x > /tmp/z && touch -d '2020-05-05 12:00:00 UTC' /tmp/z")
    assert curl("/tmp/z", "-z", "Tue, 05 May 2020 12:00:00 GMT")[0] == 304
    status, headers, body = curl("/tmp/z", "-z", "Tue, 05 May 2020 11:59:59 GMT")
    assert (status, body) == (200, b"x")
    assert headers["last-modified"] == "Tue, 05 May 2020 12:00:00 GMT"


def test_curl_ranges(sandbox, curl):
    sandbox.write("/tmp/r", bytes(range(256)) * 16)
    content = bytes(range(256)) * 16
    assert curl("/tmp/r", "-r", "100-199")[::2] == (206, content[100:200])
    assert curl("/tmp/r", "-r", "-5")[::2] == (206, content[-5:])
    status, headers, _ = curl("/tmp/r", "-r", "4000-")
    assert status == 206 and headers["content-range"] == "bytes 4000-4095/4096"
    # Several ranges may be answered with everything.
    assert curl("/tmp/r", "-r", "0-1,5-6")[::2] == (200, content)
    status, headers, _ = curl("/tmp/r", "-r", "4096-")
    assert status == 416 and headers["content-range"] == "bytes */4096"


def test_curl_continues_a_broken_download(sandbox, server, tmp_path):
    content = b"0123456789" * 5000
    sandbox.write("/tmp/resume", content)
    part = tmp_path / "part"
    part.write_bytes(content[:12345])
    subprocess.run(["curl", "-sS", "-C", "-", "-H", f"Authorization: Bearer {server.key}", "-o", part,
                    server.url() + sandbox.file_path("/tmp/resume")], check=True)
    assert part.read_bytes() == content


def test_if_range(sandbox):
    sandbox.write("/tmp/ir", "0123456789")
    head = get(sandbox, "/tmp/ir", "HEAD").headers
    for validator in (head["ETag"], head["Last-Modified"]):
        answer = get(sandbox, "/tmp/ir", Range="bytes=2-3", If_Range=validator)
        assert (answer.status, answer.body) == (206, b"23")
    for stale in ('"other"', "W/" + head["ETag"], "Tue, 05 May 2020 12:00:00 GMT", "nonsense"):
        answer = get(sandbox, "/tmp/ir", Range="bytes=2-3", If_Range=stale)
        assert (answer.status, answer.body) == (200, b"0123456789"), stale


def test_if_match_and_if_unmodified_since_on_reads(sandbox):
    sandbox.write("/tmp/im", "x")
    etag = get(sandbox, "/tmp/im", "HEAD").headers["ETag"]
    assert get(sandbox, "/tmp/im", If_Match=f'"a", {etag}').status == 200
    refused = get(sandbox, "/tmp/im", If_Match='"a"')
    assert refused.status == 412 and refused.error["code"] == "precondition_failed"
    assert get(sandbox, "/tmp/im", If_Unmodified_Since="Tue, 05 May 2020 12:00:00 GMT").status == 412


def test_lists_of_etags_and_stars(sandbox):
    sandbox.write("/tmp/list", "x")
    etag = get(sandbox, "/tmp/list", "HEAD").headers["ETag"]
    for value in (etag, f'"a,b", {etag}', f"W/{etag}", "*"):
        answer = get(sandbox, "/tmp/list", If_None_Match=value)
        assert answer.status == 304 and answer.body == b"", value
        assert answer.headers["ETag"] == etag
    # An ETag counts more than a date.
    assert get(sandbox, "/tmp/list", If_None_Match='"x"',
               If_Modified_Since="Tue, 05 May 2099 12:00:00 GMT").status == 200
    assert get(sandbox, "/tmp/list", "HEAD", If_None_Match=etag).status == 304


def post(sandbox, path, content, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return sandbox.client.call("POST", sandbox.file_path(path), content, headers)


def test_writes_that_depend_on_a_version(sandbox):
    sandbox.remove("/tmp/w")
    created = post(sandbox, "/tmp/w", b"one", If_None_Match="*")
    assert created.status == 200
    again = post(sandbox, "/tmp/w", b"two", If_None_Match="*")
    assert again.status == 412 and again.error["code"] == "precondition_failed"
    etag = created.headers["ETag"]
    replaced = post(sandbox, "/tmp/w", b"two", If_Match=etag)
    assert replaced.status == 200
    assert post(sandbox, "/tmp/w", b"lost update", If_Match=etag).status == 412
    assert sandbox.read("/tmp/w") == b"two"
    assert post(sandbox, "/tmp/w", b"three", If_Match="*").status == 200
    assert post(sandbox, "/tmp/none", b"x", If_Match="*").status == 412
    assert post(sandbox, "/tmp/w", b"x",
                If_Unmodified_Since="Tue, 05 May 2020 12:00:00 GMT").status == 412


def test_one_of_many_writers_wins(sandbox):
    """Ten clients replace the same version at once: exactly one may succeed."""
    import threading
    sandbox.write("/tmp/race", "start")
    etag = get(sandbox, "/tmp/race", "HEAD").headers["ETag"]
    statuses = []

    def attempt(number):
        statuses.append(post(sandbox, "/tmp/race", b"%d" % number * 100_000, If_Match=etag).status)

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses)[0] == 200 and set(statuses) <= {200, 412}
    assert statuses.count(200) == 1, statuses


def test_head_of_what_is_missing_or_has_no_size(sandbox):
    assert get(sandbox, "/tmp/nothing-here", "HEAD").status == 404
    answer = get(sandbox, "/proc/version", "HEAD")
    assert answer.status == 200 and "ETag" not in answer.headers
    assert "Content-Length" not in answer.headers
    assert sandbox.read("/proc/version").startswith(b"Linux")


@pytest.mark.parametrize("name, expected", [
    ("a.png", "image/png"), ("a.PDF", "application/pdf"), ("a.txt", "text/plain; charset=utf-8"),
    ("a.html", "text/plain; charset=utf-8"), ("a.svg", "application/octet-stream"),
    ("a.json", "application/octet-stream"), ("a", "application/octet-stream"),
    ("dir.png/a", "application/octet-stream"),
])
def test_content_types_are_guessed_but_never_run(sandbox, name, expected):
    """JSON is what the contract's clients take for the base64 form; HTML and SVG could run."""
    sandbox.write(f"/tmp/types/{name}", "x")
    answer = get(sandbox, f"/tmp/types/{name}")
    assert answer.headers["Content-Type"] == expected
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["norm/f", "./norm/f", "norm/./f", "norm//f", "/workspace/norm/f",
                                  "x/../norm/f", "/workspace/../workspace/norm/f",
                                  "../../../../workspace/norm/f"])
def test_paths_are_normalised_alike_on_all_routes(sandbox, path):
    sandbox.write("norm/f", "x")
    assert sandbox.read(path) == b"x"
    assert sandbox.stat(path)["size"] == 1
    sandbox.client.expect(200, "POST", f"{sandbox.path}/files/chmod", {"path": path, "mode": "0600"})
    sandbox.move(path, path + "2")
    assert sandbox.stat(path + "2")["mode"] == "0600"
    sandbox.remove(path + "2")


def test_the_dot_is_the_working_directory(sandbox):
    sandbox.write("dot/marker", "x")
    for path in (".", "./", "/workspace", "/workspace/", "dot/.."):
        assert "dot" in [entry["name"] for entry in sandbox.list(path)], path
        assert sandbox.stat(path)["type"] == "dir"


def test_listings_come_in_pages(sandbox):
    sandbox.out("mkdir -p /tmp/pages && cd /tmp/pages && seq 250 | xargs touch")
    names, offset = [], 0
    while True:
        page = sandbox.client.expect(
            200, "GET", sandbox.file_path("/tmp/pages", "/list", limit=100, offset=offset)).data
        names += [entry["name"] for entry in page["entries"]]
        offset += len(page["entries"])
        if not page["has_more"]:
            break
        assert len(page["entries"]) == 100
    assert sorted(names, key=int) == [str(number) for number in range(1, 251)]
    assert sandbox.client.call("GET", sandbox.file_path("/tmp/pages", "/list", limit=0)).status == 400
