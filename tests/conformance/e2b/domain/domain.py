"""A sandbox by host names alone; the last word printed is its id."""
import urllib.error
import urllib.request

from e2b import Sandbox


def fetch(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def fetch_patiently(url):
    """The port is knocked at for a moment; a program needs longer when the machine is busy."""
    for _ in range(20):
        try:
            return fetch(url)
        except urllib.error.HTTPError as error:
            assert error.code == 502, error
    return fetch(url)


sandbox = Sandbox.create(timeout=120)
try:
    assert sandbox.commands.run("echo over TLS").stdout == "over TLS\n"
    sandbox.files.write("a.txt", "there and back")
    assert sandbox.files.read("a.txt") == "there and back"
    assert fetch(sandbox.download_url("a.txt")) == "there and back"
    sandbox.commands.run("python3 -m http.server 3000 --bind 127.0.0.1", background=True)
    assert fetch_patiently(f"https://{sandbox.get_host(3000)}/a.txt") == "there and back"
finally:
    sandbox.kill()
print(sandbox.sandbox_id)
