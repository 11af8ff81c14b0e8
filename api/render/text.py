"""llms.txt: what a language model needs to use Atoll, in plain Markdown."""
import json

QUICK_START = """\
## Quick start

Start a server (Linux, root), then talk to it:

    atoll serve --data-dir /var/lib/atoll --listen 127.0.0.1:7070
    export ATOLL_API_URL=http://127.0.0.1:7070 ATOLL_API_KEY=$(cat /var/lib/atoll/admin.key)

Command line:

    atoll run --rm -- python3 -c 'print(6 * 7)'
    id=$(atoll create -q); atoll exec $id -- ls -la; atoll cp file.txt $id:/workspace/; atoll rm $id

Python (`pip install atoll-sandbox`):

    from atoll_sandbox import Sandbox
    with Sandbox.create() as sandbox:
        print(sandbox.run_code("1 + 1").text)

JavaScript and TypeScript (`npm install @atoll/sandbox`):

    import { Sandbox } from '@atoll/sandbox'
    await Sandbox.with(async sandbox => console.log((await sandbox.runCode('1 + 1')).text))

HTTP, every route with `Authorization: Bearer $ATOLL_API_KEY`:

    POST /api/v1/sandboxes {"template": "default"}                       -> data.sandbox_id
    POST /api/v1/sandboxes/{id}/contexts
         {"type": "cmd", "cmd": {"command": ["sh", "-c", "echo hi"]}, "wait_until_done": true}
                                                                -> data.stdout, data.exit_code
    POST /api/v1/sandboxes/{id}/contexts {"type": "repl", "repl": {"alias": "python"}} -> data.id
    POST /api/v1/sandboxes/{id}/contexts/{ctx_id}/exec {"data": "x = 1\\nx + 1"}
                                                                -> data.results, data.error
    POST /api/v1/sandboxes/{id}/files?path=a.txt   (the body is the content)
    GET  /api/v1/sandboxes/{id}/files?path=a.txt   (the answer is the content)
    DELETE /api/v1/sandboxes/{id}

Answers are {"success": true, "data": …} or {"success": false, "error": {"code", "message"}}.
Unknown fields in a request are refused with a message that names the allowed ones. The template
`code-interpreter-v1` has numpy, pandas and matplotlib; figures and frames come back as MIME bundles
in `results`. Always delete what you create, or give it a `hard_ttl`.
"""


def head(contract):
    return (f"# Atoll\n\n> {contract.info['summary']} Each sandbox is its own isolated Linux computer, "
            "made in milliseconds, with files, processes, interpreters and limits, behind a plain "
            "HTTP API.\n\n" + QUICK_START)


def short(contract):
    lines = [head(contract), "## Documents\n",
             "- [llms-full.txt](/llms-full.txt): every route and every field, as text",
             "- [openapi.json](/openapi.json): the contract, OpenAPI 3.1",
             "- [docs](/docs): the contract as a page\n"]
    for tag, operations in contract.groups:
        lines.append(f"## {tag['name']}\n")
        lines += [f"- [{each.method} {each.path}](/docs#{each.id}): {each.summary}"
                  for each in operations]
        lines.append("")
    return "\n".join(lines)


def parameter_lines(contract, operation):
    for each in operation.parameters:
        if each["in"] == "path":
            continue
        required = " (required)" if each.get("required") else ""
        description = " ".join(each.get("description", "").split())
        yield f"- {each['in']} `{each['name']}`{required}: " \
              f"{contract.type_text(each['schema'])}. {description}".rstrip()


def body_line(contract, operation):
    content = operation.request_content()
    if content is None:
        return []
    if "schema" not in content[1]:
        return ["- body: bytes"]
    line = f"- body: {contract.type_text(content[1]['schema'])}"
    example = operation.request_example()
    return [line + ("" if example is None else f", such as `{json.dumps(example)}`")]


def answer_lines(contract, operation):
    for status, response in operation.responses.items():
        if status >= "300":
            continue
        kinds = []
        for kind, media in response.get("content", {}).items():
            schema = media.get("schema", {})
            data = contract.enveloped(schema)
            if data is not None:
                kinds.append(f"data: {contract.type_text(data)}")
            elif kind == "application/x-ndjson":
                kinds.append(f"lines of {contract.type_text(schema)}")
            else:
                kinds.append(f"{kind} {contract.type_text(schema) if schema else ''}".strip())
        yield f"- {status}: {' or '.join(kinds) or response['description']}"


def operation_text(contract, operation):
    lines = [f"### {operation.method} {operation.path}\n", operation.summary + ".",
             operation.description.strip(), ""]
    lines += parameter_lines(contract, operation)
    lines += body_line(contract, operation)
    lines += answer_lines(contract, operation)
    if operation.websocket:
        for side in ("client", "server"):
            frames = ", ".join(contract.type_text(each) for each in operation.websocket[side])
            lines.append(f"- frames of the {side}: {frames}")
    failures = [status for status in operation.responses if status >= "400"]
    if failures:
        lines.append(f"- failures: {', '.join(failures)}")
    return "\n".join(lines) + "\n"


def schema_text(contract, name, schema):
    lines = [f"### {name}\n"]
    if schema.get("description"):
        lines.append(" ".join(schema["description"].split()) + "\n")
    if "properties" not in schema:
        return "\n".join(lines + [contract.type_text(schema), ""])
    for field, value in schema["properties"].items():
        mark = "" if field in schema.get("required", ()) else "?"
        description = " ".join(value.get("description", "").split())
        lines.append(f"- {field}{mark}: {contract.type_text(value)}"
                     + (f" — {description}" if description else ""))
    return "\n".join(lines) + "\n"


def full(contract):
    parts = [head(contract), contract.info["description"]]
    for tag, operations in contract.groups:
        parts.append(f"## {tag['name']}\n\n{tag['description'].strip()}\n")
        parts += [operation_text(contract, each) for each in operations]
    parts.append("## Objects\n\nA `?` marks a field that may be missing.\n")
    parts += [schema_text(contract, name, each) for name, each in contract.schemas.items()]
    return "\n".join(parts)
