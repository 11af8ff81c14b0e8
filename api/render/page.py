"""The contract as one page that needs nothing else: its style and script are in it, and the policy
that goes with it allows these two and nothing more. Without the script everything is there too."""
import base64
import hashlib
import html
import json
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
VERBS = {"DELETE": "DEL"}  # short, for the narrow column
LOGO = ('<svg viewBox="0 0 32 32" aria-hidden="true"><circle cx="16" cy="16" r="15" fill="#0b7285"/>'
        '<path d="M16 5.5a10.5 10.5 0 1 1-9.6 6.3" fill="none" stroke="#ffe8b8" stroke-width="4.4" '
        'stroke-linecap="round"/><circle cx="16" cy="16" r="5.6" fill="#4fc3d7"/></svg>')


def escape(text):
    return html.escape(str(text), quote=True)


def inline(text):
    """`code`, **strong** and nothing else."""
    text = escape(text)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)


def prose(text):
    paragraphs = [each for each in re.split(r"\n\s*\n", text.strip()) if each]
    return "".join(f"<p>{inline(' '.join(each.split()))}</p>" for each in paragraphs)


def link(name):
    return f'<a href="#schema-{name}">{name}</a>'


def type_html(contract, schema):
    # Everything but the links is text.
    marked = contract.type_text(schema, lambda name: f"\0{name}\0")
    pieces = marked.split("\0")
    return "".join(link(piece) if number % 2 else escape(piece)
                   for number, piece in enumerate(pieces))


def code_block(label, text):
    return (f'<div class="code"><span class="label">{escape(label)}</span>'
            f"<pre>{escape(text)}</pre></div>")


def pretty(value):
    return json.dumps(value, indent=2, ensure_ascii=False)


def field_row(contract, name, schema, required, kind=""):
    must = ' <span class="must">required</span>' if required else ""
    kind = f'<span class="kind">{kind}</span>' if kind else ""
    notes = [inline(" ".join(schema.get("description", "").split()))]
    if "default" in schema:
        notes.append(f"Default <code>{escape(json.dumps(schema['default']))}</code>.")
    if "examples" in schema:
        shown = ", ".join(f"<code>{escape(each)}</code>" for each in schema["examples"])
        notes.append(f"Such as {shown}.")
    note = " ".join(each for each in notes if each)
    inner = ""
    if "properties" in schema:
        inner = fields(contract, schema)
    return (f'<tr><td><span class="name">{escape(name)}</span>{must}{kind}</td>'
            f'<td><span class="type">{type_html(contract, schema)}</span>'
            f'{f"<p>{note}</p>" if note else ""}{inner}</td></tr>')


def fields(contract, schema):
    rows = (field_row(contract, name, each, name in schema.get("required", ()))
            for name, each in schema["properties"].items())
    return f'<table class="fields"><tbody>{"".join(rows)}</tbody></table>'


def parameters(contract, operation):
    if not operation.parameters:
        return ""
    rows = []
    for each in operation.parameters:
        schema = {**each["schema"]}
        if each.get("description"):
            schema["description"] = each["description"]
        rows.append(field_row(contract, each["name"], schema, each.get("required"), each["in"]))
    return f'<h4>Parameters</h4><table class="fields"><tbody>{"".join(rows)}</tbody></table>'


def request_body(contract, operation):
    content = operation.request_content()
    if content is None:
        return ""
    kind, media = content
    if "schema" not in media:
        return "<h4>Request body</h4><p>The bytes themselves.</p>"
    schema = media["schema"]
    target = contract.resolve(schema)
    table = fields(contract, target) if "properties" in target else ""
    return (f'<h4>Request body · <span class="type">{type_html(contract, schema)}</span></h4>'
            f"{table}")


def answer_text(contract, response):
    kinds = []
    for kind, media in response.get("content", {}).items():
        schema = media.get("schema")
        data = contract.enveloped(schema or {})
        if data is not None:
            kinds.append(f"<code>data</code>: {type_html(contract, data)}")
        elif kind == "application/x-ndjson":
            kinds.append(f"lines of {type_html(contract, schema)}")
        elif schema is not None:
            kinds.append(type_html(contract, schema))
        else:
            kinds.append(f"<code>{escape(kind)}</code>")
    shown = f' <span class="type">{" or ".join(kinds)}</span>' if kinds else ""
    return f"{inline(response['description'])}{shown}"


def answers(contract, operation):
    good = [(status, each) for status, each in operation.responses.items() if status < "400"]
    bad = [(status, each) for status, each in operation.responses.items() if status >= "400"]
    items = "".join(f"<li><b>{status}</b><span>{answer_text(contract, each)}</span></li>"
                    for status, each in good)
    failures = "".join(f"<li><b>{status}</b><span>{inline(each['description'])}</span></li>"
                       for status, each in bad)
    text = f'<h4>Answers</h4><ul class="answers">{items}</ul>'
    if failures:
        text += (f'<details><summary>{len(bad)} failures</summary>'
                 f'<ul class="answers"><div class="fails">{failures}</div></ul></details>')
    return text


def frames(contract, operation):
    if not operation.websocket:
        return ""
    parts = []
    for side, title in (("client", "Frames you send"), ("server", "Frames you get")):
        names = ", ".join(type_html(contract, each) for each in operation.websocket[side])
        parts.append(f'<h4>{title}</h4><p class="type">{names}</p>')
    return "".join(parts)


def sample(operation):
    blocks = [code_block("Shell", operation.command())]
    content = operation.request_content()
    others = list((content[1] if content else {}).get("examples", {}).items())[1:]
    blocks += [code_block(f"Body: {name}", pretty(each["value"])) for name, each in others]
    for status, response in operation.responses.items():
        for media in response.get("content", {}).values():
            if "example" in media:
                blocks.append(code_block(f"Answer {status}", pretty(media["example"])))
            lines = [json.dumps(each["value"]) for each in media.get("examples", {}).values()]
            if lines:
                blocks.append(code_block(f"Answer {status}", "\n".join(lines)))
    return f'<div class="sample">{"".join(blocks)}</div>'


def search_text(*pieces):
    return escape(" ".join(" ".join(pieces).lower().split()))


def operation_html(contract, operation):
    verb = operation.method.lower()
    path = re.sub(r"\{(\w+)\}", r"<b>{\1}</b>", escape(operation.path))
    if operation.public:
        needs = "No key needed."
    else:
        needs = f"Needs a key that may <code>{escape(operation.permission)}</code>."
    search = search_text(operation.method, operation.path, operation.id, operation.summary,
                         operation.description)
    return (f'<article class="operation" id="{operation.id}" data-search="{search}"><div>'
            f'<h3><a href="#{operation.id}">{escape(operation.summary)}</a></h3>'
            f'<div class="route"><span class="verb {verb}">{operation.method}</span>'
            f'<span class="path">{path}</span></div>'
            f'<div class="prose">{prose(operation.description)}</div>'
            f'<p class="needs">{needs}</p>'
            f"{parameters(contract, operation)}{request_body(contract, operation)}"
            f"{frames(contract, operation)}{answers(contract, operation)}"
            f"</div>{sample(operation)}</article>")


def schema_html(contract, name, schema):
    search = search_text(name, schema.get("description", ""), *schema.get("properties", {}))
    body = fields(contract, schema) if "properties" in schema else \
        f'<p class="type">{type_html(contract, schema)}</p>'
    return (f'<article id="schema-{name}" data-search="{search}">'
            f'<h3><a href="#schema-{name}">{name}</a></h3>'
            f'<div class="prose">{prose(schema.get("description", ""))}</div>{body}</article>')


def navigation(contract):
    parts = []
    for tag, operations in contract.groups:
        items = "".join(
            f'<li data-search="{search_text(each.method, each.path, each.id, each.summary, each.description)}">'
            f'<a href="#{each.id}"><span class="verb {each.method.lower()}">{VERBS.get(each.method, each.method)}</span>'
            f"<span>{escape(each.summary)}</span></a></li>" for each in operations)
        parts.append(f'<div data-group><h2>{escape(tag["name"])}</h2><ul>{items}</ul></div>')
    return "".join(parts)


def main_html(contract):
    info = contract.info
    parts = [f'<header><h1>{escape(info["title"])}</h1>'
             f'<p class="lead">{escape(info["summary"])}</p>'
             f'<div class="prose">{prose(info["description"])}</div>'
             '<ul class="files"><li><a href="/openapi.json">openapi.json</a></li>'
             '<li><a href="/llms.txt">llms.txt</a></li>'
             '<li><a href="/llms-full.txt">llms-full.txt</a></li></ul></header>'
             '<p id="nothing" hidden>Nothing fits.</p>']
    for tag, operations in contract.groups:
        articles = "".join(operation_html(contract, each) for each in operations)
        parts.append(f'<section data-group><h2 id="{tag["name"].lower()}">{escape(tag["name"])}</h2>'
                     f'<div class="prose">{prose(tag["description"])}</div>{articles}</section>')
    schemas = "".join(schema_html(contract, name, each) for name, each in contract.schemas.items())
    parts.append(f'<section data-group><h2 id="objects">Objects</h2>{schemas}</section>')
    return "".join(parts)


def hash_source(text):
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def render(contract):
    """The page and the Content-Security-Policy to serve it with."""
    style = (HERE / "page.css").read_text()
    script = (HERE / "page.js").read_text()
    policy = (f"default-src 'none'; style-src {hash_source(style)}; "
              f"script-src {hash_source(script)}; base-uri 'none'; form-action 'none'; "
              "frame-ancestors 'none'")
    document = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(contract.info["title"])}</title>'
        f"<style>{style}</style></head><body>"
        f'<nav aria-label="Contents"><div class="brand">{LOGO}<a href="#">Atoll API</a>'
        '<button id="theme" type="button" aria-label="Light or dark">◐</button></div>'
        '<input id="filter" type="search" placeholder="Filter  ( / )" aria-label="Filter" '
        'autocomplete="off" spellcheck="false">'
        f'<div class="list">{navigation(contract)}'
        '<h2>Reference</h2><ul><li><a href="#objects">Objects</a></li></ul></div></nav>'
        f"<main>{main_html(contract)}</main><script>{script}</script></body></html>\n")
    return document, policy
