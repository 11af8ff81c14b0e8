# Atoll's Python interpreter driver: runs inside the sandbox, talks over descriptor 3.
#
# In:  lines "preload - MODULE,MODULE", "begin BASE64(DIRECTORY) ENVIRONMENT", "exec ID BASE64(CODE) [ENVIRONMENT]", "resize ROWS COLUMNS", "copy ID -". Out: one JSON object a line:
# ready, preloaded, begun, display, result, error, done, copied. Code runs in one persistent namespace in this process; its stdout and stderr are the
# process's own, so output of subprocesses and of C libraries is captured too. SIGINT interrupts the
# running code and nothing else. IPython's machinery is used when the image has it.
import base64
import json
import os
import signal
import sys
import traceback

SPARE_FIRST = 900  # copies of 0, 1, 2 in case the code closes them
CHARTS = sys.argv[1] if len(sys.argv) > 1 else ""  # the source of python_charts.py
CHART_TYPE = "application/vnd.atoll.chart+json"
FRAME_TYPE = "application/vnd.atoll.frame+json"
CHANNEL = SPARE_FIRST + 3  # where code that closes or uses low descriptors does not meet it


class Channel:
    def __init__(self):
        os.dup2(3, CHANNEL, inheritable=False)
        os.close(3)
        self.reader = os.fdopen(CHANNEL, "rb", buffering=0, closefd=False)
        self.pending = b""
        self.held = b""

    def hold(self, **message):
        """Goes out with the next one: whoever listens is woken once."""
        self.held += json.dumps(message, default=str).encode("utf-8", "replace") + b"\n"

    def send(self, **message):
        self.hold(**message)
        view, self.held = memoryview(self.held), b""
        while view:
            view = view[os.write(CHANNEL, view):]

    def lines(self):
        while True:
            while b"\n" not in self.pending:
                try:
                    chunk = os.read(CHANNEL, 65536)
                except KeyboardInterrupt:
                    continue
                if not chunk:
                    return
                self.pending += chunk
            line, self.pending = self.pending.split(b"\n", 1)
            yield line


MAX_SOURCES = 1000  # whose lines tracebacks can still show
channel = Channel()
current_id = None

# What a value can look like, richest first; a value's own _repr_*_ methods decide.
MIME_METHODS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "application/pdf": "_repr_pdf_",
    "text/latex": "_repr_latex_",
    "application/json": "_repr_json_",
    "application/javascript": "_repr_javascript_",
}


def encode(mime, value):
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if mime == "application/json" or mime.endswith("+json") or isinstance(value, str):
        return value
    return str(value)


def plain_bundle(value):
    bundle = {}
    try:
        bundle["text/plain"] = repr(value)
    except Exception as error:
        bundle["text/plain"] = f"<repr failed: {error!r}>"
    if not isinstance(value, type):
        for mime, method in MIME_METHODS.items():
            show = getattr(value, method, None)
            if not callable(show):
                continue
            try:
                shown = show()
            except Exception:
                continue
            if isinstance(shown, tuple):
                shown = shown[0]
            if shown is not None:
                bundle[mime] = encode(mime, shown)
    figure = figure_png(value)
    if figure:
        bundle.setdefault("image/png", figure)
        bundle[CHART_TYPE] = chart_of(value)
    if type(value).__module__ == "pandas.core.frame" and type(value).__name__ == "DataFrame":
        bundle[FRAME_TYPE] = frame_of(value)
    return {mime: shown for mime, shown in bundle.items() if shown is not None}


def charts():
    """The functions of python_charts.py, which most code never needs."""
    global charts_module
    if charts_module is None:
        import types
        charts_module = types.ModuleType("atoll_charts")
        exec(compile(CHARTS, "<atoll charts>", "exec"), charts_module.__dict__)
    return charts_module


charts_module = None


def chart_of(figure):
    """What a figure shows, as data; None when that cannot be told."""
    try:
        return charts().describe_figure(figure)
    except Exception:
        return None


def frame_of(frame):
    try:
        return charts().describe_frame(frame)
    except Exception:
        return None


def figure_png(value):
    if type(value).__module__.split(".")[0] != "matplotlib" or not hasattr(value, "savefig"):
        return None
    import io
    buffer = io.BytesIO()
    value.savefig(buffer, format="png", bbox_inches="tight")
    return base64.b64encode(buffer.getvalue()).decode()


def display(*values):
    for value in values:
        flush()
        channel.send(op="display", id=current_id, data=make_bundle(value))


def show_figures():
    """Shows and closes the figures the code left open, as a notebook does."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    for number in pyplot.get_fignums():
        display(pyplot.figure(number))
    pyplot.close("all")


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


def repair_streams():
    """Brings back descriptors 0 to 2 and the stream objects when the code has closed them."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.dup2(SPARE_FIRST + fd, fd)
    if getattr(sys.stdout, "closed", True):
        sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)
    if getattr(sys.stderr, "closed", True):
        sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)


class PlainInterpreter:
    """Python alone: the last expression is the value, top-level await works."""

    def __init__(self):
        import types
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        self.namespace = module.__dict__
        self.namespace["__builtins__"] = __builtins__
        self.namespace["display"] = display
        self.loop = None
        self.count = 0

    bundle = staticmethod(plain_bundle)

    def warm(self):
        """Loads what the first code would otherwise wait for."""
        import ast, inspect, linecache  # noqa: E401, F401

    def run(self, code):
        import ast
        import linecache
        self.count += 1
        name = f"<input {self.count}>"
        # So that tracebacks show the source line.
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        linecache.cache.pop(f"<input {self.count - MAX_SOURCES}>", None)
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        if tree.body:
            self.evaluate(compile(tree, name, "exec", flags))
        if last is None:
            return None
        value = self.evaluate(compile(ast.Expression(last.value), name, "eval", flags))
        if value is not None:
            self.namespace["_"] = value
        return value

    def evaluate(self, compiled):
        import inspect
        result = eval(compiled, self.namespace)
        if compiled.co_flags & inspect.CO_COROUTINE:
            import asyncio
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                asyncio.set_event_loop(self.loop)
            result = self.loop.run_until_complete(result)
        return result

    def describe(self, kind, error, trace):
        # Without the driver's own frames.
        while trace and not trace.tb_frame.f_code.co_filename.startswith("<input "):
            trace = trace.tb_next
        return traceback.format_exception(kind, error, trace)


class RichInterpreter:
    """IPython's machinery: magics, its formatters, its tracebacks."""

    def __init__(self):
        from IPython.core.interactiveshell import InteractiveShell
        from IPython.display import display as display_function
        from traitlets.config import Config
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "NoColor"
        config.InteractiveShell.ast_node_interactivity = "last_expr"
        self.shell = shell = InteractiveShell.instance(config=config)

        class Publisher(type(shell.display_pub)):
            def publish(self, data, *_, **__):
                flush()
                channel.send(op="display", id=current_id,
                             data={mime: encode(mime, shown) for mime, shown in data.items()})

            def clear_output(self, wait=False):
                pass

        def keep_value(hook, value=None):
            hook.fill_exec_result(value)
            if value is not None:
                hook.update_user_ns(value)

        shell.display_pub = Publisher(parent=shell)
        type(shell.displayhook).__call__ = keep_value
        # IPython.display and the backend of notebooks may choose other formats later.
        shell.display_formatter.formatters["image/png"].for_type_by_name(
            "matplotlib.figure", "Figure", figure_png)
        self.add_formatter(CHART_TYPE, "matplotlib.figure", "Figure", chart_of)
        self.add_formatter(FRAME_TYPE, "pandas.core.frame", "DataFrame", frame_of)
        shell.user_ns["display"] = display_function
        self.shell.showtraceback = lambda *args, **kwargs: None
        self.shell.showsyntaxerror = lambda *args, **kwargs: None
        if "matplotlib" not in sys.modules:
            os.environ.setdefault("MPLBACKEND", "agg")

    def add_formatter(self, mime, module, name, function):
        from IPython.core.formatters import JSONFormatter
        formatter = JSONFormatter(parent=self.shell.display_formatter)
        formatter.format_type = mime
        formatter.print_method = "_repr_atoll_"
        formatter.for_type_by_name(module, name, function)
        self.shell.display_formatter.formatters[mime] = formatter

    def bundle(self, value):
        data, _ = self.shell.display_formatter.format(value)
        return {mime: encode(mime, shown) for mime, shown in data.items()}

    def run(self, code):
        result = self.shell.run_cell(code, store_history=True)
        failure = result.error_before_exec or result.error_in_exec
        if failure is not None:
            raise failure
        return result.result

    def warm(self):
        """Loads what the first code would otherwise wait for, and leaves no trace."""
        self.shell.run_cell("None", store_history=False)
        try:
            raise ValueError
        except ValueError as error:
            self.describe(ValueError, error, error.__traceback__)

    def describe(self, kind, error, trace):
        text = self.shell.InteractiveTB.structured_traceback(kind, error, trace, tb_offset=1)
        return [line + "\n" for line in text]


def make_interpreter():
    try:
        return RichInterpreter()
    except ImportError:
        return PlainInterpreter()


def set_environment(words):
    """Sets the variables; returns what they were before."""
    before = {}
    for pair in filter(None, words.split(",")):
        name, value = (base64.b64decode(each).decode("utf-8", "surrogateescape")
                       for each in pair.split(":"))
        before[name] = os.environ.get(name)
        os.environ[name] = value
    return before


def restore_environment(before):
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


executions = 0


def execute(interpreter, identifier, code, environment):
    global current_id, executions
    current_id = identifier
    executions += 1
    status = "ok"
    before = set_environment(environment)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            value = interpreter.run(code)
            show_figures()
            if value is not None:
                channel.hold(op="result", id=identifier, data=make_bundle(value))
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    except BaseException as error:
        kind = type(error)
        status = "interrupted" if isinstance(error, KeyboardInterrupt) else "error"
        try:
            lines = interpreter.describe(kind, error, error.__traceback__)
        except BaseException:
            lines = traceback.format_exception_only(kind, error)
        try:
            value = str(error)
        except BaseException:
            value = "<the exception cannot be shown>"
        channel.hold(op="error", id=identifier, name=kind.__name__, value=value,
                     traceback="".join(lines))
    restore_environment(before)
    flush()
    repair_streams()
    current_id = None
    channel.send(op="done", id=identifier, status=status, count=executions)


def say_ready():
    channel.send(op="ready", language="python", version=sys.version.split()[0])


def preload(interpreter, names):
    """Before anybody's code: what it would otherwise wait for. Copies of this process have it."""
    import gc
    import importlib
    failures = []
    interpreter.warm()
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:
            reason = "".join(traceback.format_exception_only(type(error), error)).strip()
            failures.append({"module": name, "error": reason[:500]})
    flush()
    repair_streams()
    find_user_packages()
    gc.collect()
    gc.freeze()  # so that collecting garbage does not write to what copies share
    channel.send(op="preloaded", failures=failures)


def begin(directory, environment):
    """In the sandbox that is to have this copy."""
    set_environment(environment)
    try:
        os.chdir(directory)
    except OSError as error:
        channel.send(op="begun", error=str(error))
        return
    channel.send(op="begun")


COPY_SECONDS = 40  # how long a copy is kept for whoever asked for it
copying = False


def leave_channel():
    """A forked child that goes on running this loop would answer for its parent."""
    if not copying:
        os.close(CHANNEL)


def copy_self(interpreter, identifier):
    """Makes a copy of this process that stands still, to be taken elsewhere and woken up there.

    In the process itself it returns when the copy is gone; in the copy, when that has been woken,
    and then it is true."""
    global copying
    flush()
    if not hasattr(os, "pidfd_open"):
        channel.send(op="copied", id=identifier, error="it takes Python 3.9 or newer")
        return False
    threads = len(os.listdir("/proc/self/task")) - 1
    # Code that asked to be told about children is not told about this one.
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    told = signal.SIGCHLD in signal.sigpending()
    copying = True
    try:
        pid = os.fork()
        if pid == 0:
            park(interpreter)
            return True
        wait_for_copy(pid, identifier, threads)
        if not told and signal.SIGCHLD in signal.sigpending():
            signal.sigtimedwait({signal.SIGCHLD}, 0)
    except BaseException as error:
        channel.send(op="copied", id=identifier, error=repr(error)[:200])
    finally:
        copying = False
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
    return False


def wait_for_copy(pid, identifier, threads):
    import select
    handle = os.pidfd_open(pid)
    try:
        _, status = os.waitpid(pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            channel.send(op="copied", id=identifier, error="the copy ended")
            return
        channel.send(op="copied", id=identifier, pid=pid, channel=CHANNEL, threads=threads)
        ended = select.poll()
        ended.register(handle, select.POLLIN)
        if not ended.poll(COPY_SECONDS * 1000):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    finally:
        os.close(handle)


def park(interpreter):
    """Stands still. Goes on only where the channel is another one: not beside the original."""
    global boot_id
    try:
        drop_event_loops(interpreter)
        renew_entropy()  # what it sets up for the first time, it sets up once for all
        here = os.fstat(CHANNEL).st_ino
        os.kill(os.getpid(), signal.SIGSTOP)
        if os.fstat(CHANNEL).st_ino == here:
            os._exit(0)
        renew_entropy()
        boot_id = read_boot_id()
        channel.pending = channel.held = b""
    except BaseException:
        os._exit(1)


def drop_event_loops(interpreter):
    """An event loop has connections to itself, which cannot be taken along; the next is new."""
    helpers = sys.modules.get("IPython.core.async_helpers")
    for owner, name in ((interpreter, "loop"), (helpers, "_asyncio_event_loop")):
        loop = getattr(owner, name, None)
        if loop is not None:
            setattr(owner, name, None)
            if not loop.is_running():
                loop.close()
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        asyncio.set_event_loop(None)


def renew_entropy():
    """What was drawn from the system's randomness once is drawn again: copies differ."""
    modules = sys.modules
    if "random" in modules:
        modules["random"].seed()
    if "ssl" in modules:
        modules["ssl"].RAND_add(os.urandom(64), 64.0)
    if "numpy.random" in modules:
        modules["numpy.random"].seed()
    if "tempfile" in modules:
        modules["tempfile"]._name_sequence = None
    if "uuid" in modules:
        modules["uuid"]._node = modules["uuid"]._last_timestamp = None
    main_thread = modules["threading"].main_thread() if "threading" in modules else None
    if hasattr(main_thread, "_set_native_id"):
        main_thread._set_native_id()


def find_user_packages():
    """pip may have made the directory since we started; Python looks for it only then."""
    import site
    directory = site.getusersitepackages() if site.ENABLE_USER_SITE is not False else ""
    if directory and directory not in sys.path and os.path.isdir(directory):
        site.addsitedir(directory)


def read_boot_id():
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read()
    except OSError:
        return ""


def renew_in_a_fork():
    """Memory that goes on as another sandbox has the same variables, but another boot id."""
    global boot_id
    now = read_boot_id()
    if now != boot_id:
        boot_id = now
        renew_entropy()


def main():
    global boot_id
    boot_id = read_boot_id()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for fd in (0, 1, 2):
        os.dup2(fd, SPARE_FIRST + fd, inheritable=False)
    os.register_at_fork(after_in_child=leave_channel)
    sys.argv = [""]
    if "" not in sys.path:
        sys.path.insert(0, "")
    os.environ.setdefault("MPLBACKEND", "agg")
    repair_streams()
    for stream in (sys.stdout, sys.stderr):  # a line in one piece, as on a terminal
        stream.reconfigure(encoding="utf-8", errors="replace", line_buffering=True,
                           write_through=False)
    interpreter = make_interpreter()
    global make_bundle
    make_bundle = interpreter.bundle
    say_ready()
    for line in channel.lines():
        verb, identifier, body = line.decode().split(" ", 2)
        renew_in_a_fork()
        find_user_packages()
        if verb == "exec":
            code, _, environment = body.partition(" ")
            execute(interpreter, identifier, base64.b64decode(code).decode("utf-8", "replace"),
                    environment)
        elif verb == "begin":
            begin(base64.b64decode(identifier).decode("utf-8", "surrogateescape"), body)
        elif verb == "preload":
            preload(interpreter, [name for name in body.split(",") if name])
        elif verb == "copy":
            if copy_self(interpreter, identifier):
                say_ready()
        elif verb == "resize":  # there is no terminal: this is what programs ask without one
            os.environ["LINES"], os.environ["COLUMNS"] = identifier, body


main()
