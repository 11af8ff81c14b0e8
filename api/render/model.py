"""The contract as the pages need it: references followed, operations in the order of their tags,
examples, and a command line for each operation."""
import json
import re

METHODS = ("get", "head", "put", "post", "delete", "patch")
# What stands for a path parameter in a command line.
SHELL_NAMES = {"SandboxId": "$SANDBOX", "ContextId": "$CONTEXT", "TemplateId": "$TEMPLATE"}


class Operation:
    def __init__(self, contract, method, path, shared, body):
        self.contract = contract
        self.method = method.upper()
        self.path = path
        self.body = body
        self.id = body["operationId"]
        self.summary = body["summary"]
        self.description = body.get("description", "")
        self.tag = body["tags"][0]
        self.permission = body.get("x-permission")
        self.public = body.get("security") == []
        self.websocket = body.get("x-websocket")
        self.given = shared + body.get("parameters", [])
        self.parameters = [contract.resolve(each) for each in self.given]
        self.responses = {status: contract.resolve(each)
                          for status, each in body["responses"].items()}

    def request_content(self):
        """(content type, media type object) or None."""
        content = self.body.get("requestBody", {}).get("content", {})
        return next(iter(content.items()), None)

    def request_example(self):
        content = self.request_content()
        if content is None:
            return None
        examples = content[1].get("examples", {})
        first = next(iter(examples.values()), None)
        return None if first is None else first["value"]

    def url(self):
        path = self.path
        for given, parameter in zip(self.given, self.parameters):
            if parameter["in"] == "path":
                name = given.get("$ref", "").rsplit("/", 1)[-1]
                path = path.replace("{%s}" % parameter["name"],
                                    SHELL_NAMES.get(name, "$" + parameter["name"].upper()))
        query = "&".join(f"{each['name']}={each.get('example', '…')}" for each in self.parameters
                         if each["in"] == "query" and each.get("required"))
        return path + ("?" + query if query else "")

    def command(self):
        """How to do it from a shell."""
        key = '-H "Authorization: Bearer $ATOLL_API_KEY"'
        if self.websocket:
            return f'websocat {key} \\\n  "${{ATOLL_API_URL/http/ws}}{self.url()}"'
        words = ["curl -s"]
        streams = any("application/x-ndjson" in response.get("content", {})
                      for status, response in self.responses.items() if status < "300")
        if streams:
            words[0] += "N"
        lines = []
        if not self.public:
            lines.append(key)
        content = self.request_content()
        example = self.request_example()
        if example is not None:
            lines.append("-H 'Content-Type: application/json'")
            lines.append("-d '%s'" % json.dumps(example, ensure_ascii=False).replace("'", "'\\''"))
        elif content is not None and content[0] != "application/json":
            lines.append(f"--data-binary @{content[1].get('x-file', 'file')}")
        if self.method == "HEAD":
            words.append("-I")
        elif self.method != "GET" and not (self.method == "POST" and len(lines) > 1):
            words.append(f"-X {self.method}")
        words.append(f'"$ATOLL_API_URL{self.url()}"')
        return " \\\n  ".join([" ".join(words)] + lines)


class Contract:
    def __init__(self, document):
        self.document = document
        self.info = document["info"]
        self.schemas = document["components"]["schemas"]
        operations = [Operation(self, method, path, item.get("parameters", []), item[method])
                      for path, item in document["paths"].items()
                      for method in item if method in METHODS]
        self.groups = [(tag, [each for each in operations if each.tag == tag["name"]])
                       for tag in document["tags"]]
        placed = sum(len(each) for _, each in self.groups)
        assert placed == len(operations), "an operation has a tag that is not declared"

    def resolve(self, value):
        while "$ref" in value:
            target = self.document
            for part in value["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            value = target
        return value

    @staticmethod
    def reference(schema):
        """The name of a schema that is only a reference."""
        match = re.fullmatch(r"#/components/schemas/(\w+)", schema.get("$ref", ""))
        return match.group(1) if match else None

    @staticmethod
    def enveloped(schema):
        """The schema of `data`, when this is the envelope of a success; else None."""
        properties = schema.get("properties", {})
        if set(properties) == {"success", "data"}:
            return properties["data"]
        return None

    def type_text(self, schema, link=lambda name: name):
        """A short notation: string, [Sandbox], "a" | "b", integer 1..200."""
        if name := self.reference(schema):
            return link(name)
        if "oneOf" in schema:
            return " | ".join(self.type_text(each, link) for each in schema["oneOf"])
        if "const" in schema:
            return json.dumps(schema["const"])
        if "enum" in schema:
            return " | ".join(json.dumps(each) for each in schema["enum"])
        kind = schema.get("type", "any")
        if isinstance(kind, list):
            return " | ".join(kind)
        if kind == "array":
            return f"[{self.type_text(schema.get('items', {}), link)}]"
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            return f"{{string: {self.type_text(schema['additionalProperties'], link)}}}"
        bounds = (schema.get("minimum"), schema.get("maximum"))
        if kind in ("integer", "number") and bounds != (None, None):
            low, high = ("" if each is None else str(each) for each in bounds)
            return f"{kind} {low}..{high}"
        if schema.get("contentEncoding"):
            return f"{kind} ({schema['contentEncoding']})"
        if schema.get("format") == "date-time":
            return "time"
        return kind
