"""Calls everything that grpc_server.py has, and prints what came."""
import grpc

channel = grpc.secure_channel("grpc.harbour.com:443", grpc.ssl_channel_credentials())
reply, call = channel.unary_unary("/harbour.Pier/Echo").with_call(b"hello", timeout=20)
print(reply.decode(), "x-saw" in dict(call.trailing_metadata()))
print([each.decode() for each in
       channel.stream_stream("/harbour.Pier/Stream")(iter([b"a", b"b"]), timeout=20)])
try:
    channel.unary_unary("/harbour.Pier/Fail")(b"x", timeout=20)
except grpc.RpcError as error:
    print(error.code().name, error.details())
