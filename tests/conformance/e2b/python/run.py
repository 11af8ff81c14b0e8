"""run.py sync|async AREA: runs a script of this directory against one of the two SDKs.

For the synchronous one the source is read with the words of asynchrony taken out: a script is
written once, and both SDKs are asked for the same.
"""
import asyncio
import io
import os
import pathlib
import sys
import time
import tokenize
import types

HERE = pathlib.Path(__file__).resolve().parent
# What is spelled otherwise; every other name loses its leading `Async`.
OTHERWISE = {"__aenter__": "__enter__", "__aexit__": "__exit__", "__anext__": "__next__",
             "__aiter__": "__iter__", "asynccontextmanager": "contextmanager", "aclose": "close"}


class Unhurried(types.ModuleType):
    """What is left of asyncio when nothing is asynchronous."""
    sleep = staticmethod(time.sleep)

    @staticmethod
    def run(nothing):
        return nothing


def synchronous(source):
    """The same program without `async` and `await`."""
    out = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind, text = token.type, token.string
        if kind == tokenize.NAME:
            if text in ("async", "await"):
                kind, text = tokenize.OP, ""
            elif text in OTHERWISE:
                text = OTHERWISE[text]
            elif text.startswith("Async") and text != "Async":
                text = text.removeprefix("Async")
        out.append((kind, text))
    # Names and indentation are all that matters; the layout inside a line is not kept.
    return tokenize.untokenize(out)


def load(name, sync):
    path = HERE / f"{name}.py"
    source = path.read_text(encoding="utf-8")
    module = types.ModuleType(name)
    module.__file__ = str(path)
    if sync:
        source = synchronous(source)
    # Areas are called as they like: only what they share can be imported.
    sys.modules[name if name == "support" else f"area_{name}"] = module
    exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102: our own source
    return module


def main():
    mode, area = sys.argv[1:]
    os.environ["E2B_MODE"] = mode
    sys.path.remove(str(HERE))
    if mode == "sync":
        load("support", True).asyncio = Unhurried("asyncio")
        module = load(area, True)
        module.asyncio = Unhurried("asyncio")
        module.main()
    else:
        load("support", False)
        asyncio.run(load(area, False).main())
    sys.modules["support"].finish()


if __name__ == "__main__":
    main()
