"""E: MCP tool rules against a server made with the official SDK, and against the witness.

The server writes down which tools really ran; the witness keeps the body as it arrived, where no
reader, however it treats twins and case, may find a call that is closed.
"""
import gzip
import json

from attacks import attack, limited
from world import API

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "delete_repo", "arguments": {"name": "x"}}}
FINE = {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "add", "arguments": {"a": 1, "b": 2}}}
RULES = [{"name": "tools", "protocol": "mcp", "domains": ["mcp.harbour.com", "api.harbour.com"],
          "tlsMode": "terminate-reoriginate",
          "mcp": {"tools": {"denied": ["delete_repo"]},
                  "arguments": [{"tool": "read_file", "pointer": "/path", "pattern": "/data/.*"}]}}]
POLICY = limited("mcp.harbour.com", "api.harbour.com", protocolRules=RULES)


def text(value):
    return json.dumps(value)


BODIES = {
    "plain": text(CALL),
    "notification": text({key: value for key, value in CALL.items() if key != "id"}),
    "batch": text([FINE, CALL]),
    "batch-of-batches": text([[CALL]]),
    "duplicate-method": '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":'
                        '{"name":"delete_repo","arguments":{}}}',
    "duplicate-method-swapped": '{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"ping",'
                                '"params":{"name":"delete_repo","arguments":{}}}',
    "duplicate-name": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add",'
                      '"name":"delete_repo","arguments":{"a":1,"b":2}}}',
    "duplicate-params": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"},'
                        '"params":{"name":"delete_repo","arguments":{}}}',
    "case-method": '{"jsonrpc":"2.0","id":1,"method":"tools/call","Method":"ping","params":'
                   '{"name":"delete_repo","arguments":{}}}',
    "case-only": '{"jsonrpc":"2.0","id":1,"Method":"tools/call","Params":{"Name":"delete_repo"}}',
    "case-name": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","NAME":'
                 '"delete_repo","arguments":{}}}',
    "kelvin-case": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add",'
                   '"\\u006eame":"delete_repo"}}',
    "escaped-slash": text(CALL).replace("tools/call", "tools\\/call"),
    "escaped-method": text(CALL).replace("tools/call", "\\u0074ools/call"),
    "escaped-name": text(CALL).replace("delete_repo", "delete\\u005frepo"),
    "escaped-key": text(CALL).replace('"name": "delete', '"\\u006eame": "delete'),
    "space-in-name": text(CALL).replace("delete_repo", " delete_repo"),
    "space-behind-name": text(CALL).replace("delete_repo", "delete_repo\\u0000"),
    "byte-order-mark": "\ufeff" + text(CALL),
    "trailing": text(FINE) + text(CALL),
    "lines": text(FINE) + "\n" + text(CALL),
    "number-as-name": text(CALL).replace('"delete_repo"', "1"),
    "array-params": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["delete_repo",{}]}',
    "deep": '{"jsonrpc":"2.0","id":1,"method":"tools/call","x":' + "[" * 200 + "]" * 200 +
            ',"params":{"name":"delete_repo","arguments":{}}}',
    "lone-surrogate": text(CALL).replace("delete_repo", "delete_repo\\ud800"),
    "comment": text(CALL).replace("{", "{/* */", 1),
    "huge": text({**CALL, "padding": "x" * 1_500_000}),
    "response-shape": text({**CALL, "result": {}}),
    "retry": text({**CALL, "params": {**CALL["params"], "requestState": "abc",
                                      "inputResponses": {}}}),
}


def no_closed_call(field):
    """Neither ran, nor arrived in any form a reader could take for it."""
    assert not [each for each in field.calls() if each["tool"] == "delete_repo"], field.calls()
    for request in field.seen().requests(API):
        body = request["body"]
        assert "delete_repo" not in body, body[:300]
        try:
            assert "delete_repo" not in json.dumps(json.loads(body or "{}")), body[:300]
        except ValueError:
            raise AssertionError(f"unreadable, and yet passed on: {body[:300]!r}") from None


POST = """
        def post(name, body, headers=b"", path=b"/mcp", method=b"POST"):
            return to(name, method + b" " + path + b" HTTP/1.1\\r\\nHost: " + name.encode() +
                      b"\\r\\nContent-Type: application/json\\r\\nAccept: application/json, text/event-stream\\r\\n"
                      b"Content-Length: %d\\r\\nConnection: close\\r\\n" % len(body) + headers + b"\\r\\n" + body, 4)
"""


@attack("E", each=BODIES)
def closed_tool(field, body):
    field.policy(POLICY)
    got = field.run(POST + """
        for name in ("mcp.harbour.com", "api.harbour.com"):
            got[name] = post(name, BODY)
    """, BODY=body.encode())
    no_closed_call(field)
    assert '"deleted"' not in json.dumps(got)


@attack("E", each={"gzip": b"Content-Encoding: gzip\r\n", "text": b"Content-Type: text/plain\r\n",
                   "utf-16": b"Content-Type: application/json; charset=utf-16\r\n"})
def closed_tool_in_another_wrapping(field, header):
    field.policy(POLICY)
    body = text(CALL).encode()
    body = (gzip.compress(body) if b"gzip" in header else
            text(CALL).encode("utf-16") if b"utf-16" in header else body)
    field.run(POST + """
        for name in ("mcp.harbour.com", "api.harbour.com"):
            got[name] = post(name, BODY, HEADER)
            got[name + " put"] = post(name, BODY, HEADER, b"/mcp", b"PUT")
    """, BODY=body, HEADER=header)
    assert not [each for each in field.calls() if each["tool"] == "delete_repo"]
    for request in field.seen().requests(API):
        assert request["body"].encode("latin-1") != body or request["method"] == "PUT", request


@attack("E")
def closed_tool_in_chunks(field):
    field.policy(POLICY)
    body = text(CALL).encode()
    chunked = b"".join(b"1\r\n%c\r\n" % each for each in body) + b"0\r\n\r\n"
    field.run("""
        for name in ("mcp.harbour.com", "api.harbour.com"):
            got[name] = to(name, b"POST /mcp HTTP/1.1\\r\\nHost: " + name.encode() + b"\\r\\nContent-Type: application/json\\r\\nAccept: application/json, text/event-stream\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n" + BODY, 3)
    """, BODY=chunked)
    no_closed_call(field)


@attack("E")
def closed_tool_in_http2(field):
    field.policy(POLICY)
    field.run("""
        h = H2(API, "api.harbour.com")
        h.get(1, "api.harbour.com", "/mcp", "POST", [("content-type", "application/json")], end=False)
        h.data(1, BODY[:20], end=False)
        h.data(1, BODY[20:])
        got["answers"] = h.collect(2)
    """, BODY=text(CALL).encode())
    no_closed_call(field)


@attack("E", each={"other": {"path": "/etc/shadow"}, "dots": {"path": "/data/../etc/shadow\n"},
                   "missing": {}, "list": {"path": ["/etc/shadow"]},
                   "twice": '{"path":"/data/x","path":"/etc/shadow"}'})
def closed_argument(field, arguments):
    if isinstance(arguments, dict):
        arguments = text(arguments)
    field.policy(POLICY)
    body = ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file",'
            f'"arguments":{arguments}}}}}')
    field.run(POST + ' ' * 8 + 'got["a"] = post("mcp.harbour.com", BODY)', BODY=body.encode())
    for each in field.calls():
        assert each["tool"] != "read_file" or each["path"].startswith("/data/"), each
        assert "\n" not in each.get("path", ""), each


@attack("E")
def mirror_headers_that_lie(field):
    field.policy(POLICY)
    field.run(POST + """
        lie = b"MCP-Protocol-Version: 2026-07-28\\r\\nMcp-Method: tools/call\\r\\nMcp-Name: add\\r\\n"
        for name in ("mcp.harbour.com", "api.harbour.com"):
            got[name] = post(name, BODY, lie)
            got[name + "2"] = post(name, FINE, lie.replace(b": add", b": delete_repo"))
    """, BODY=text(CALL).encode(), FINE=text(FINE).encode())
    no_closed_call(field)


@attack("E")
def list_names_no_closed_tool(field):
    """What may not be called is not offered, in JSON and in an event stream."""
    field.policy(POLICY)
    tools = {"jsonrpc": "2.0", "id": 5, "result": {"tools": [
        {"name": "add", "inputSchema": {}}, {"name": "delete_repo", "inputSchema": {}}]}}
    whole = json.dumps(tools)
    events = ("id: 1\nevent: message\ndata: " + whole[:60] + "\ndata: " + whole[60:] + "\n\n").encode()
    head = ("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            f"Content-Length: {len(events)}\r\nConnection: close\r\n\r\n")
    field.names(at={API: "old"}, answers={"/sse": head.encode() + events})
    got = field.run(POST + """
        got["json"] = post("mcp.harbour.com", LIST)
        got["sse"] = post("api.harbour.com", LIST, b"", b"/sse")
    """, LIST=b'{"jsonrpc":"2.0","id":5,"method":"tools/list"}')
    assert '"add"' in got["json"]["data"] and "delete_repo" not in got["json"]["data"], got["json"]
    assert "delete_repo" not in got["sse"]["data"], got["sse"]


@attack("E")
def denial_that_an_agent_can_read(field):
    field.policy(POLICY)
    got = field.run(POST + ' ' * 8 + 'got["a"] = post("mcp.harbour.com", BODY)', BODY=text(CALL).encode())
    answer = json.loads(got["a"]["data"].split("\r\n\r\n", 1)[1].split("\r\n")[-1]
                        if "chunked" in got["a"]["data"].lower() else
                        got["a"]["data"].split("\r\n\r\n", 1)[1])
    assert answer["id"] == 1 and "delete_repo" in json.dumps(answer), answer
    no_closed_call(field)
