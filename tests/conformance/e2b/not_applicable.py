"""What no check is about, and why: methods and options of the packages that say nothing to a server."""
LOCAL = "works inside the client and sends nothing"
RAW = "the client's own HTTP machinery, used by every other method"
IN_URL = "the client writes it into the URL that it gives to git"
MCP = "needs the template mcp-gateway, which is not there; asking for it is refused with that reason"
DEV = "needs the template devcontainer, which is not there"
CONTEXT = "says which context is meant, and is no option"
OLD = "the same as Sandbox.create, under its old name"
CLOUD = "needs an account of that cloud's registry"

JAVASCRIPT = {
    "Git.clone(username)": IN_URL,
    "Git.clone(password)": IN_URL,
    "Git.pull(username)": IN_URL,
    "Git.pull(password)": IN_URL,
    "Git.push(username)": IN_URL,
    "Git.push(password)": IN_URL,
    "Git.clone(dangerouslyStoreCredentials)": IN_URL,
    "Result.toJSON": LOCAL, "Execution.toJSON": LOCAL, "OutputMessage.toString": LOCAL,
    "LogEntry.*": LOCAL, "LogEntryStart.*": LOCAL, "LogEntryEnd.*": LOCAL, "ReadyCmd.getCmd": LOCAL,
    "VolumeConnectionConfig.getSignal": LOCAL,
    "ConnectionConfig.getSandboxUrl(envdPort)": LOCAL,
    "ConnectionConfig.getSandboxUrl(sandboxDomain)": LOCAL,
    "ConnectionConfig.getSandboxDirectUrl(envdPort)": LOCAL,
    "ConnectionConfig.getSandboxDirectUrl(sandboxDomain)": LOCAL,
    "E2B.Template": "the bound class is the one that other checks use",
    **{f"Sandbox.{method}({field})": CONTEXT for method in ("removeCodeContext", "restartCodeContext")
       for field in ("cwd", "id", "language")},
    "Sandbox.waitAndVerify": "runs a command again and again; the desktop's own start is made of it",
    "Template.addMcpServer": MCP, "Template.betaDevContainerPrebuild": DEV,
    "Template.betaSetDevContainerStart": DEV,
    **{f"Sandbox.betaCreate({option})": OLD for option in (
        "allowInternetAccess", "display", "dpi", "envs", "lifecycle", "mcp", "metadata", "network",
        "resolution", "secure", "template", "volumeMounts")},
    "Template.fromAWSRegistry": CLOUD, "Template.fromGCPRegistry": CLOUD,
}
PYTHON = {
    "Git.clone(username)": IN_URL,
    "Git.clone(password)": IN_URL,
    "Git.pull(username)": IN_URL,
    "Git.pull(password)": IN_URL,
    "Git.push(username)": IN_URL,
    "Git.push(password)": IN_URL,
    "Git.clone(dangerously_store_credentials)": IN_URL,
    "ApiClient.*": RAW, "ConnectionConfig.set_integration": LOCAL,
    "ConnectionConfig.sandbox_headers": LOCAL, "Context.from_json": LOCAL,
    "EntryInfo.from_dict": LOCAL, "WriteInfo.from_dict": LOCAL, "Execution.to_json": LOCAL,
    "ExecutionError.to_json": LOCAL, "Logs.to_json": LOCAL, "GitStatus.*": LOCAL,
    "ReadyCmd.get_cmd": LOCAL, "VolumeConnectionConfig.*": LOCAL,
    "ConnectionConfig.get_sandbox_url(port)": LOCAL,
    "ConnectionConfig.get_sandbox_direct_url(port)": LOCAL,
    "Sandbox.commands": "the module is what Commands checks use",
    "Sandbox.files": "the module is what Filesystem checks use",
    "Sandbox.pty": "the module is what Pty checks use",
    "Sandbox.git": "the module is what Git checks use",
    "Template.from_aws_registry": CLOUD, "Template.from_gcp_registry": CLOUD,
}
