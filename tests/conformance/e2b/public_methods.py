"""public_methods.py MODULE...: every public method of the classes that packages export, and the
options it takes: {"Class.method": ["option", ...]}. Classes for asyncio go under their plain name."""
import enum
import importlib
import inspect
import json
import sys

# Classes that one gets from a sandbox, not from the package.
FIELDS = ("commands", "files", "pty", "git")


def classes(module):
    for name in dir(module):
        thing = getattr(module, name)
        if not inspect.isclass(thing) or issubclass(thing, (BaseException, enum.Enum, dict, str, bytes)):
            continue
        yield name, thing
        for field in FIELDS:
            part = getattr(thing, field, None)
            if isinstance(part, property) and inspect.isclass(part.fget.__annotations__.get("return")):
                kind = part.fget.__annotations__["return"]
                yield kind.__name__, kind


def methods(kind):
    for name in dir(kind):
        if name.startswith("_"):
            continue
        thing = getattr(kind, name)
        static = inspect.getattr_static(kind, name)
        if isinstance(static, property):
            yield name, []
        elif callable(thing) and not inspect.isclass(thing):
            try:
                parameters = inspect.signature(thing).parameters.values()
            except ValueError:
                continue
            yield name, [each.name for each in parameters
                         if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
                         and each.name != "self" and each.default is not each.empty]


def main():
    found = {}
    for name in sys.argv[1:]:
        module = importlib.import_module(name)
        top = name.split(".", maxsplit=1)[0]
        for exported, kind in classes(module):
            if not kind.__module__.startswith(top):
                continue
            for method, options in methods(kind):
                key = f"{exported.removeprefix('Async')}.{method}"
                found[key] = sorted({*found.get(key, []), *options})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
