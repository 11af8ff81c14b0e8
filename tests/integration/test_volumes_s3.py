"""Volumes in buckets: what is refused before any bucket is asked. Real buckets: conformance/."""
import pytest

VOLUMES = "/api/v1/sandboxvolumes"
GOOD = {"bucket": "data", "access_key": "AKIDEXAMPLE", "secret_key": "hidden-secret"}


@pytest.mark.parametrize("endpoint", [
    "http://127.0.0.1:9000", "https://127.0.0.1", "https://localhost", "https://[::1]:9000",
    "https://169.254.169.254", "http://169.254.169.254", "https://10.0.0.1", "https://192.168.1.1",
    "https://172.16.0.1", "https://0.0.0.0", "https://2130706433", "https://0x7f.1",
    "https://[::ffff:127.0.0.1]", "https://[fd00:ec2::254]", "https://100.100.100.200"])
def test_endpoints_inside_are_refused(client, endpoint):
    answer = client.call("POST", VOLUMES, {"backend": "s3",
                                           "s3": {**GOOD, "endpoint_url": endpoint}})
    assert answer.status == 400 and "--allow-s3-endpoint" in answer.error["message"], answer.body
    assert b"hidden-secret" not in answer.body


@pytest.mark.parametrize("change", [
    {"bucket": "UPPER"}, {"bucket": "a/b"}, {"bucket": "x"}, {"provider": "gcs"},
    {"provider": "r2"}, {"endpoint_url": "ftp://x"}, {"endpoint_url": "https://h/path"},
    {"endpoint_url": "https://user:pass@h"}, {"region": "a.b/"}, {"prefix": "a/../b"},
    {"access_key": ""}, {"secret_key": ""}, {"access_key": "a\r\nb"}, {"session_token": "a b"},
    {"unknown": "x"}, {"secret_key": None}])
def test_settings_that_make_no_sense_are_refused(client, change):
    answer = client.call("POST", VOLUMES, {"backend": "s3", "s3": {**GOOD, **change}})
    assert answer.status == 400, answer.body
    assert b"hidden-secret" not in answer.body


def test_a_bucket_needs_its_settings(client):
    assert client.call("POST", VOLUMES, {"backend": "s3"}).status == 400
    assert client.call("POST", VOLUMES, {"backend": "s3", "s3": GOOD,
                                         "snapshot_id": "vsnap-x"}).status == 400
