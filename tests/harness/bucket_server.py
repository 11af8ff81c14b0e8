"""A real S3 server (moto, from PyPI) that checks signatures with the signer of AWS's own client.

Run as a program, with moto on the path: makes a user, a bucket and says where they are in one line
of JSON; then answers one line of JSON for each on standard input, until that ends. What it is told
to do it does as somebody else who uses the bucket, not through the server under test.
"""
import json
import sys

import boto3
from moto import settings
from moto.server import ThreadedMotoServer

BUCKET = "test-bucket"


def main():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    where = {"endpoint_url": f"http://{host}:{port}", "region_name": "us-east-1"}
    setup = {**where, "aws_access_key_id": "setup", "aws_secret_access_key": "setup"}
    iam = boto3.client("iam", **setup)
    iam.create_user(UserName="volume")
    key = iam.create_access_key(UserName="volume")["AccessKey"]
    iam.put_user_policy(UserName="volume", PolicyName="all", PolicyDocument=json.dumps(
        {"Version": "2012-10-17",
         "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}))
    boto3.client("s3", **setup).create_bucket(Bucket=BUCKET)
    settings.INITIAL_NO_AUTH_ACTION_COUNT = 0  # from here on every request must be signed
    s3 = boto3.client("s3", **where, aws_access_key_id=key["AccessKeyId"],
                      aws_secret_access_key=key["SecretAccessKey"])

    def put(keys, size=0):
        for each in keys:
            s3.put_object(Bucket=BUCKET, Key=each, Body=b"x" * size)

    def keys(prefix=""):
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [each["Key"] for page in pages for each in page.get("Contents", [])]

    def get(key):
        return s3.get_object(Bucket=BUCKET, Key=key)["Body"].read().decode("latin-1")

    def uploads():
        return [each["Key"] for each in
                s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])]

    def say(value):
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()

    say({"host": host, "port": port, "bucket": BUCKET, "access_key": key["AccessKeyId"],
         "secret_key": key["SecretAccessKey"]})
    for line in sys.stdin:
        name, arguments = json.loads(line)
        say({"put": put, "keys": keys, "get": get, "uploads": uploads}[name](**arguments))
    server.stop()


if __name__ == "__main__":
    main()
