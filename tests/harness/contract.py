"""The contract (api/openapi.yaml) as a judge of everything that goes over the wire.

`Client.call` shows it every exchange. An answer must be one the contract lists: status, content
type, required headers, and a body that fits its schema with no field the schema does not name. A
request that the server took must be one the contract allows; one that it refused may be anything,
because tests send wrong requests on purpose. So nothing has to be marked.
"""
import functools
import json
import pathlib
import re
import urllib.parse

import jsonschema
import yaml

FILE = pathlib.Path(__file__).resolve().parents[2] / "api" / "openapi.yaml"
METHODS = ("get", "head", "put", "post", "patch", "delete")
# Longer arrays are judged by their ends; a directory may have 100,000 entries.
JUDGED_ITEMS = 400
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")

formats = jsonschema.FormatChecker(formats=())


@formats.checks("date-time")
def is_time(value):
    return not isinstance(value, str) or TIME.match(value) is not None


class ContractError(AssertionError):
    """What went over the wire is not what the contract says."""


def closed(schema):
    """The same schema, where objects have no fields but those it names."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    result = {name: closed(value) for name, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        result["additionalProperties"] = False
    return result


def without_middle(value):
    if isinstance(value, dict):
        return {name: without_middle(each) for name, each in value.items()}
    if isinstance(value, list):
        if len(value) > JUDGED_ITEMS:
            value = value[:JUDGED_ITEMS // 2] + value[-JUDGED_ITEMS // 2:]
        return [without_middle(each) for each in value]
    return value


def parameter_value(text, schema):
    """What a parameter's text means under its schema."""
    kind = schema.get("type")
    if kind == "integer":
        return int(text) if re.fullmatch(r"-?\d+", text) else text
    if kind == "boolean":
        return {"true": True, "1": True, "": True, "false": False, "0": False}.get(text, text)
    return text


class Contract:
    def __init__(self, path=FILE):
        self.document = yaml.safe_load(path.read_text())
        self.strict = closed(self.document)
        self.seen = set()  # operationIds that were answered with success
        self.routes = [(self.pattern(path), path) for path in self.document["paths"]]

    @staticmethod
    def pattern(path):
        pieces = (("[^/]+" if piece.startswith("{") else re.escape(piece))
                  for piece in path.split("/"))
        return re.compile("/".join(pieces) + r"\Z")

    def operations(self):
        for path, item in self.document["paths"].items():
            for method in METHODS:
                if method in item:
                    yield method, path, item[method]

    def resolve(self, value, root=None):
        while "$ref" in value:
            target = root or self.document
            for part in value["$ref"].removeprefix("#/").split("/"):
                target = target[part.replace("~1", "/").replace("~0", "~")]
            value = target
        return value

    def find(self, path):
        """The template of a path; literal segments win over names."""
        found = [template for pattern, template in self.routes if pattern.match(path)]
        return min(found, key=lambda template: template.count("{"), default=None)

    @functools.lru_cache(maxsize=None)
    def validator(self, pointer, strict):
        root = self.strict if strict else self.document
        schema = root
        for part in pointer:
            schema = self.resolve(schema, root)[part]
        return jsonschema.Draft202012Validator(
            schema, format_checker=formats,
            resolver=jsonschema.RefResolver("", root))

    def judge(self, what, pointer, value, strict):
        errors = sorted(self.validator(pointer, strict).iter_errors(without_middle(value)),
                        key=lambda error: len(error.path))
        if errors:
            where = "/".join(str(part) for part in errors[0].absolute_path)
            raise ContractError(f"{what}: {where or 'the whole'}: {errors[0].message[:600]}")

    def judge_schema(self, name, value):
        """A value that came another way than as a body, such as a WebSocket frame."""
        self.judge(name, ("components", "schemas", name), value, True)

    def judge_frame(self, operation_id, side, frame):
        """A JSON frame of a WebSocket: it must be one of those that this side may send."""
        (socket,) = [operation["x-websocket"] for _, _, operation in self.operations()
                     if operation["operationId"] == operation_id]
        names = [each["$ref"].rsplit("/", 1)[-1] for each in socket[side]]
        if not any(self.validator(("components", "schemas", name), True).is_valid(frame)
                   for name in names):
            raise ContractError(f"a frame of the {side} of {operation_id} that is none of "
                                f"{names}: {str(frame)[:600]}")
        self.seen.add(operation_id)

    # Exchanges ----------------------------------------------------------------------------------
    def check(self, method, target, request_headers, request_body, answer):
        url = urllib.parse.urlsplit(target)
        what = f"{method} {url.path} -> {answer.status}"
        template = self.find(url.path)
        item = self.document["paths"].get(template, {})
        verb = method.lower()
        if verb == "head" and verb not in item:
            verb = "get"  # what is public answers both
        if verb not in item:
            if answer.status not in (400, 401, 404, 405, 414, 431):
                raise ContractError(f"{what}: there is no such operation in the contract")
            return
        operation = item[verb]
        self.check_answer(what, ("paths", template, verb), operation, answer, method == "HEAD")
        body_error = None
        try:
            self.check_request(what, ("paths", template, verb), item, url.query, request_headers,
                               request_body)
        except ContractError as error:
            body_error = error
        if answer.status < 300 and body_error is not None:
            raise body_error
        if (answer.status == 400 and body_error is None and
                "application/json" in operation.get("requestBody", {}).get("content", {}) and
                answer.json["error"]["message"].startswith("unknown field")):
            raise ContractError(f"{what}: the contract allows it: {answer.json['error']}")
        if answer.status < 300:
            self.seen.add(operation["operationId"])

    def check_answer(self, what, pointer, operation, answer, bodiless):
        responses = operation["responses"]
        if str(answer.status) not in responses:
            raise ContractError(f"{what}: not a status of {operation['operationId']}; "
                                f"body {answer.body[:300]!r}")
        response = self.resolve(responses[str(answer.status)])
        for name, header in response.get("headers", {}).items():
            header = self.resolve(header)
            if header.get("required") and name not in answer.headers:
                raise ContractError(f"{what}: no header {name}")
        content = response.get("content")
        if bodiless or content is None:
            if answer.body:
                raise ContractError(f"{what}: a body where none belongs")
            return
        kind = answer.headers.get("Content-Type", "").split(";")[0].strip()
        if kind not in content and "*/*" in content:
            return  # any type, and nothing is said about it
        if kind not in content:
            raise ContractError(f"{what}: content type {answer.headers.get('Content-Type')!r}, "
                                f"not {sorted(content)}")
        if "schema" not in content[kind]:
            return
        place = pointer + ("responses", str(answer.status), "content", kind, "schema")
        if kind == "application/json":
            self.judge(what, place, answer.json, True)
        elif kind == "application/x-ndjson":
            for line in filter(None, answer.body.splitlines()):
                self.judge(what, place, json.loads(line), True)

    def check_request(self, what, pointer, item, query, headers, body):
        operation = item[pointer[-1]]
        declared = [self.resolve(each)
                    for each in item.get("parameters", []) + operation.get("parameters", [])]
        queries = {each["name"]: each for each in declared if each["in"] == "query"}
        given = urllib.parse.parse_qsl(query, keep_blank_values=True)
        for name, text in given:
            parameter = queries.get(name) or next(
                (each for each in declared if each.get("x-prefix") and
                 name.startswith(each["name"])), None)
            if parameter is None:
                raise ContractError(f"{what}: query parameter {name} is not in the contract")
            self.judge_parameter(what, parameter, text)
        for name, parameter in queries.items():
            if parameter.get("required") and name not in dict(given):
                raise ContractError(f"{what}: query parameter {name} is missing")
        for parameter in declared:
            if parameter["in"] == "header" and parameter["name"] in headers:
                self.judge_parameter(what, parameter, headers[parameter["name"]])
        self.check_request_body(what, pointer, operation, body)

    def judge_parameter(self, what, parameter, text):
        schema = self.resolve(parameter["schema"])
        schema = self.resolve(schema["items"]) if schema.get("type") == "array" else schema
        try:
            jsonschema.validate(parameter_value(text, schema), schema,
                                jsonschema.Draft202012Validator)
        except jsonschema.ValidationError as error:
            raise ContractError(f"{what}: parameter {parameter['name']}: {error.message}") from None

    def check_request_body(self, what, pointer, operation, body):
        request = operation.get("requestBody")
        if request is None:
            if body:
                raise ContractError(f"{what}: a request body where none belongs")
            return
        if not body:
            if request.get("required"):
                raise ContractError(f"{what}: no request body")
            return
        schema = request["content"].get("application/json")
        if schema is None:
            return
        try:
            value = json.loads(body) if isinstance(body, (str, bytes)) else body
        except (ValueError, RecursionError):
            raise ContractError(f"{what}: the request body is no JSON") from None
        self.judge(what, pointer + ("requestBody", "content", "application/json", "schema"), value,
                   True)


@functools.lru_cache(maxsize=None)
def contract():
    return Contract()
