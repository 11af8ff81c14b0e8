"""The quick start of the official SDK's README."""
from sandbox0.apispec.models.sandbox_config import SandboxConfig

from support import check, client, finish


@check("the quick start")
def _():
    with client.sandboxes.open("default", config=SandboxConfig(ttl=300, hard_ttl=3600)) as sandbox:
        sandbox.run("python", "x = 41")
        result = sandbox.run("python", "print(x + 1)")
        assert result.output_raw == "42\n", result
        result = sandbox.cmd("sh -lc 'pwd && ls -la'")
        assert result.exit_code == 0 and "total " in result.output_raw, result


finish()
