"""An MCP server made with the official SDK; writes every tool that really runs into a file.

    mcp_server.py PORT FILE
"""
import json
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

port, path = int(sys.argv[1]), sys.argv[2]
server = MCPServer("harbour")


def ran(tool, **arguments):
    with open(path, "a") as log:
        log.write(json.dumps({"tool": tool, **arguments}) + "\n")


@server.tool()
def read_file(path: str) -> str:
    """Reads."""
    ran("read_file", path=path)
    return f"content of {path}"


@server.tool()
def delete_repo(name: str = "") -> str:
    """Deletes."""
    ran("delete_repo", name=name)
    return "deleted"


@server.tool()
def add(a: int, b: int) -> int:
    """Adds."""
    ran("add", a=a, b=b)
    return a + b


plain = server.streamable_http_app(
    stateless_http=True, json_response=True,
    transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False))


if __name__ == "__main__":
    uvicorn.run(plain, host="127.0.0.1", port=port, log_level="warning", ws="none")
