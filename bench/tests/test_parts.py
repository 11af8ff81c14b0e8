"""What parts make of their numbers: ratios only of what was quiet, and no silent absence."""
import os
import socket
import threading

import pytest

import api
import state
from state_report import ratios
from suite import place
from suite.client import Failed
from suite.parts import egress, http

CALM = [10.0, 10.1, 9.9, 10.0, 10.2, 9.8]
WILD = [10.0, 30.0, 9.0, 40.0, 11.0, 25.0]


def line(name, rate, good=10000):
    return f"  {name:28} {rate:9.0f} req/s   mean 1.0ms     {good} answers 2xx"


def test_requests_per_second_are_grouped_by_turn():
    names = ("atoll, HTTP/1.1", "nginx (a file), HTTP/1.1", "atoll, HTTP/2")
    rates = http.collect("\n".join(["bench: a title", *(line(name, 1000 + turn) for turn in range(6)
                                                        for name in names)]))
    assert list(rates) == list(names) and all(len(each) == 6 for each in rates.values())
    rows, figures = http.judge(rates)
    assert figures["atoll, HTTP/1.1"]["over_peer"]["value"] == 1
    assert figures["atoll, HTTP/2"]["over_peer"] is None, "its peer is not installed"
    assert [row[0] for row in rows] == list(names)


@pytest.mark.parametrize("good", [0, 9999])
def test_a_refused_request_is_a_failure(good):
    with pytest.raises(Failed, match=f"{good} of 10000 well"):
        http.collect(line("atoll, HTTP/1.1", 1000, good=good))


def test_a_peer_that_moves_gives_no_ratio():
    _, figures = http.judge({"atoll, HTTP/1.1": CALM, "nginx (a file), HTTP/1.1": WILD})
    assert figures["atoll, HTTP/1.1"]["over_peer"]["value"] is None


def test_the_boundary_is_judged_by_who_has_no_proxy():
    rows, figures = egress.judge({
        "calm": {"loopback": CALM, "nginx": CALM, "atoll": [2 * each for each in CALM]},
        "wild": {"loopback": WILD, "nginx": CALM, "atoll": CALM},
        "once": {"nginx": [9.0], "atoll": [8.0]}})
    assert figures["calm"]["nginx"]["atoll_over_it"]["value"] == 2
    assert figures["wild"]["nginx"]["atoll_over_it"]["value"] is None
    assert figures["once"]["nginx"]["atoll_over_it"] is None, "one value is no ratio"
    assert figures["calm"]["atoll"]["p50"] == 20
    assert [row[-1] for row in rows if row[0] == "calm"] == ["2.00", "2.00", ""]


def test_ratios_of_sizes_need_a_quiet_reference():
    kinds = ("snapshot", "pause", "resume, frozen")
    size = {name: {kind: {"acknowledged": [factor * each for each in CALM]} for kind in kinds}
            for name, factor in (("small", 1), ("large", 1.5), ("larger", 3))}
    told = ratios(size, CALM)
    assert told["pause, acknowledged"]["value"] == 3, "the slowest of the large ones"
    assert "pause, stopped" not in told
    assert ratios(size, WILD)["pause, acknowledged"]["value"] is None


def test_a_pause_is_the_gap_around_it_not_the_longest():
    gaps = [(0.0, 5.0), (6.0, 7.0), (8.0, 8.5)]
    assert state.gap_around(gaps, 6.5) == (6.0, 7.0)
    assert state.gap_around(gaps, 7.5) == (7.5, 7.5)


def test_without_an_archive_it_is_said_what_to_do(tmp_path):
    with pytest.raises(Failed, match="ATOLL_CACHE_DIR"):
        place.newest_archive(tmp_path)
    for age, name in ((10, "default-b.tar.zst"), (20, "default-a.tar.zst")):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    assert place.newest_archive(tmp_path).name == "default-b.tar.zst"


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"])
def test_a_server_that_closes_in_the_middle_does_not_hang_the_client(answer):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            connection, _ = listener.accept()
            connection.recv(65536)
            connection.sendall(answer)
            connection.close()
        thread = threading.Thread(target=serve)
        thread.start()
        client = api.Api(f"http://127.0.0.1:{listener.getsockname()[1]}", "key")
        with pytest.raises(ConnectionError):
            client.call("GET", "/")
        thread.join()
        client.socket.close()
