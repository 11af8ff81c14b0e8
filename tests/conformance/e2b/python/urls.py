"""Signed addresses of files, used without the SDK."""
import urllib.error
import urllib.request

from support import case, run_cases, sandbox_of


def fetch(url, content=None):
    """(status, body); content is sent as a form."""
    request = urllib.request.Request(url)
    if content is not None:
        edge = "edge-of-a-part"
        request.data = (f"--{edge}\r\nContent-Disposition: form-data; name=\"file\"; "
                        f"filename=\"named.txt\"\r\n\r\n{content}\r\n--{edge}--\r\n").encode()
        request.add_header("Content-Type", f"multipart/form-data; boundary={edge}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@case("Sandbox.download_url(user, use_signature_expiration): by anybody, while it is time")
async def _(sandbox):
    await sandbox.files.write("/home/user/for you.txt", "signed ä")
    assert fetch(sandbox.download_url("/home/user/for you.txt")) == (200, "signed ä")
    assert fetch(sandbox.download_url("for you.txt", user="user")) == (200, "signed ä")
    assert fetch(sandbox.download_url("for you.txt", use_signature_expiration=60))[0] == 200
    status, body = fetch(sandbox.download_url("for you.txt", use_signature_expiration=-10))
    assert status == 401 and "signature is already expired" in body, (status, body)
    assert fetch(sandbox.download_url("for you.txt").replace("for", "far"))[0] == 401


@case("Sandbox.upload_url(user, use_signature_expiration): a form, where it says")
async def _(sandbox):
    assert fetch(sandbox.upload_url("/home/user/up/loaded"), "content")[0] == 200
    assert await sandbox.files.read("up/loaded") == "content"
    assert fetch(sandbox.upload_url("by-root", user="root", use_signature_expiration=60),
                 "x")[0] == 200
    assert (await sandbox.commands.run("stat -c %U /root/by-root", user="root")).stdout == "root\n"
    assert fetch(sandbox.upload_url("late", use_signature_expiration=-10), "x")[0] == 401
    assert fetch(sandbox.download_url("/home/user/up/loaded"), "x")[0] == 401


async def main():
    async with sandbox_of() as sandbox:
        await run_cases(sandbox)
