"""A gRPC server without generated code: one call that echoes, one that streams, one that fails.

    grpc_server.py ADDRESS CERTIFICATE KEY
"""
import sys
from concurrent import futures

import grpc


def echo(request, context):
    context.set_trailing_metadata((("x-saw", dict(context.invocation_metadata()).get(
        "authorization", "nobody")),))
    return b"echo:" + request


def stream(requests, _):
    for each in requests:
        yield b"one:" + each
        yield b"two:" + each


def fail(_, context):
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not today")


server = grpc.server(futures.ThreadPoolExecutor(4))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("harbour.Pier", {
    "Echo": grpc.unary_unary_rpc_method_handler(echo),
    "Stream": grpc.stream_stream_rpc_method_handler(stream),
    "Fail": grpc.unary_unary_rpc_method_handler(fail)}),))
server.add_secure_port(f"{sys.argv[1]}:443", grpc.ssl_server_credentials(
    ((open(sys.argv[3], "rb").read(), open(sys.argv[2], "rb").read()),)))
server.start()
server.wait_for_termination()
