# Runs one function of a sandbox: a small HTTP server on loopback that stays, so that no request
# waits for an interpreter. Told what to run by CONFIG (see function_worker.h); says on descriptor 3
# which port it has. What the function prints is the output of its context.
import asyncio
import base64
import concurrent.futures
import ctypes
import hashlib
import inspect
import json
import linecache
import os
import sys
import threading
import traceback
import types

MAX_HEAD = 128 * 1024
MAX_BODY = 9 * 1024 * 1024
MAX_MESSAGE = 16 * 1024 * 1024
# A dictionary with other keys than these is an answer as it is, in JSON.
RESPONSE_KEYS = {"status", "headers", "body", "body_base64"}
WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class TooLong(BaseException):
    """Raised inside a handler that has run out of time."""


def load(config):
    name = "<function %s>" % config["service_id"]
    code = config["code"]
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    module = types.ModuleType("function")
    sys.modules["function"] = module
    exec(compile(code, name, "exec"), module.__dict__)
    handler = getattr(module, config["handler"], None)
    if not callable(handler):
        raise SystemExit("the code has no function called %r" % config["handler"])
    return handler


class WebSocket:
    """What a handler gets as its second argument."""

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer
        self.closed = False

    async def _frame(self):
        first, second = await self._reader.readexactly(2)
        size = second & 0x7F
        if size == 126:
            size = int.from_bytes(await self._reader.readexactly(2), "big")
        elif size == 127:
            size = int.from_bytes(await self._reader.readexactly(8), "big")
        if size > MAX_MESSAGE:
            raise ConnectionError("a message is too large")
        mask = await self._reader.readexactly(4) if second & 0x80 else None
        data = await self._reader.readexactly(size)
        if mask:
            whole = (mask * (size // 4 + 1))[:size]
            data = (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(size, "big")
        return first & 0x0F, bool(first & 0x80), data

    async def recv(self):
        """The next message, text as str and binary as bytes; None when the peer has closed."""
        kind, parts = None, []
        while not self.closed:
            try:
                opcode, last, data = await self._frame()
            except (asyncio.IncompleteReadError, ConnectionError):
                self.closed = True
                return None
            if opcode == 8:
                await self._send(8, data[:2])
                self.closed = True
            elif opcode == 9:
                await self._send(10, data)
            elif opcode in (0, 1, 2):
                kind = opcode or kind
                parts.append(data)
                if sum(map(len, parts)) > MAX_MESSAGE:
                    await self.close(1009)
                elif last:
                    whole = b"".join(parts)
                    return whole.decode() if kind == 1 else whole
        return None

    receive = recv

    async def _send(self, opcode, data):
        size = len(data)
        head = bytes([0x80 | opcode])
        if size < 126:
            head += bytes([size])
        elif size < 65536:
            head += bytes([126]) + size.to_bytes(2, "big")
        else:
            head += bytes([127]) + size.to_bytes(8, "big")
        self._writer.write(head + data)
        await self._writer.drain()

    async def send(self, message):
        if isinstance(message, (bytes, bytearray, memoryview)):
            await self._send(2, bytes(message))
        else:
            text = message if isinstance(message, str) else json.dumps(message)
            await self._send(1, text.encode())

    async def close(self, code=1000):
        if not self.closed:
            self.closed = True
            await self._send(8, code.to_bytes(2, "big"))

    def __aiter__(self):
        return self

    async def __anext__(self):
        message = await self.recv()
        if message is None:
            raise StopAsyncIteration
        return message


class Answer:
    """What a handler returned, as the parts of a response."""

    def __init__(self, result):
        self.status, self.headers, self.stream = 200, [], None
        body = result
        if isinstance(result, dict) and result and set(result) <= RESPONSE_KEYS:
            self.status = int(result.get("status", 200))
            headers = result.get("headers") or {}
            items = headers.items() if isinstance(headers, dict) else headers
            for name, value in items:
                for each in value if isinstance(value, (list, tuple)) else [value]:
                    self.headers.append((str(name), str(each)))
            if result.get("body_base64") is not None:
                body = base64.b64decode(result["body_base64"])
            else:
                body = result.get("body", b"")
            as_json = not isinstance(body, str)
        else:
            as_json = True
        if not 200 <= self.status <= 599:
            raise ValueError("the status must be from 200 to 599")
        if any(c in n + v for n, v in self.headers for c in "\r\n\0"):
            raise ValueError("a header is not one line")
        if isinstance(body, (bytes, bytearray, memoryview)):
            self.body = bytes(body)
            self.default_type("application/octet-stream")
        elif body is None and not as_json:
            self.body = b""
        elif isinstance(body, str) and not as_json:
            self.body = body.encode()
            self.default_type("text/plain; charset=utf-8")
        elif hasattr(body, "__aiter__") or inspect.isgenerator(body) or (
            hasattr(body, "__next__")
        ):
            self.stream, self.body = body, b""
            self.default_type("text/event-stream")
        else:
            self.body = json.dumps(body).encode()
            self.default_type("application/json")

    def default_type(self, kind):
        if self.body is not None and not any(n.lower() == "content-type" for n, _ in self.headers):
            self.headers.append(("content-type", kind))

    def head(self, framing):
        own = {"content-length", "transfer-encoding", "connection"}
        lines = ["HTTP/1.1 %d Function" % self.status]
        lines += ["%s: %s" % (n, v) for n, v in self.headers if n.lower() not in own]
        return ("\r\n".join(lines + [framing, "", ""])).encode("latin-1", "replace")


class Worker:
    def __init__(self, config):
        self.config = config
        self.handler = load(config)
        self.is_async = inspect.iscoroutinefunction(self.handler)
        try:
            taken = [
                p
                for p in inspect.signature(self.handler).parameters.values()
                if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
            ]
            self.wants_socket = len(taken) > 1 or any(p.kind == p.VAR_POSITIONAL for p in taken)
        except (TypeError, ValueError):
            self.wants_socket = False
        count = config["max_concurrency"] or 64
        self.threads = concurrent.futures.ThreadPoolExecutor(min(count, 256))

    def in_thread(self, function, *arguments):
        """Runs on a thread that can be told to stop."""
        ident = []

        def run():
            ident.append(threading.get_ident())
            try:
                return function(*arguments)
            except TooLong:
                raise TimeoutError("the function took too long") from None
            finally:
                ident.clear()

        def stop():
            if ident:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(ident[0]), ctypes.py_object(TooLong)
                )

        return asyncio.get_running_loop().run_in_executor(self.threads, run), stop

    async def call(self, request, timeout):
        if self.is_async:
            arguments = (request, None) if self.wants_socket else (request,)
            return await asyncio.wait_for(self.handler(*arguments), timeout)
        future, stop = self.in_thread(self.handler, request)
        done, _ = await asyncio.wait({future}, timeout=timeout)
        if not done:
            stop()
            future.add_done_callback(lambda each: each.exception())
            raise asyncio.TimeoutError
        result = future.result()
        return await asyncio.wait_for(result, timeout) if inspect.isawaitable(result) else result

    async def pieces(self, stream):
        if hasattr(stream, "__aiter__"):
            async for piece in stream:
                yield piece
            return
        end = object()
        while True:
            future, _ = self.in_thread(next, stream, end)
            piece = await future
            if piece is end:
                return
            yield piece

    async def send(self, writer, answer, head_only):
        if answer.stream is None:
            writer.write(answer.head("content-length: %d" % len(answer.body)))
            if not head_only:
                writer.write(answer.body)
            return await writer.drain()
        writer.write(answer.head("transfer-encoding: chunked"))
        await writer.drain()
        async for piece in self.pieces(answer.stream):
            if not isinstance(piece, (bytes, bytearray)):
                piece = (piece if isinstance(piece, str) else json.dumps(piece)).encode()
            if piece:
                writer.write(b"%x\r\n%s\r\n" % (len(piece), bytes(piece)))
                await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def websocket(self, request, headers, reader, writer):
        if not self.wants_socket:
            answer = Answer({"status": 426, "body": "this function takes no WebSockets"})
            return await self.send(writer, answer, False)
        key = headers.get("sec-websocket-key", "").encode()
        accept = base64.b64encode(hashlib.sha1(key + WEBSOCKET_GUID).digest()).decode()
        writer.write(
            (
                "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n"
                "connection: Upgrade\r\nsec-websocket-accept: %s\r\n\r\n" % accept
            ).encode()
        )
        socket = WebSocket(reader, writer)
        code = 1000
        try:
            result = self.handler(request, socket)
            if inspect.isawaitable(result):
                await result
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except Exception:
            traceback.print_exc()
            code = 1011
        await socket.close(code)

    async def answer(self, request, timeout):
        try:
            return Answer(await self.call(request, timeout))
        except asyncio.TimeoutError:
            print("the function took longer than %g s" % timeout, file=sys.stderr, flush=True)
            return Answer({"status": 504, "body": "the function took too long"})
        except Exception:
            traceback.print_exc()
            sys.stderr.flush()
            return Answer({"status": 500, "body": "the function failed"})

    async def exchange(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        headers = {}
        for line in lines[1:]:
            if line:
                name, value = line.split(":", 1)
                name, value = name.strip().lower(), value.strip()
                headers[name] = headers[name] + ", " + value if name in headers else value
        body = await self.body(reader, headers)
        ours = {n: headers.pop(n) for n in list(headers) if n.startswith("x-atoll-")}
        if "x-atoll-ping" in ours:
            await self.send(writer, Answer({"status": 204}), True)
            return True
        path, _, query = target.partition("?")
        request = {
            "service_id": self.config["service_id"],
            "route_id": ours.get("x-atoll-route", ""),
            "method": method,
            "path": path,
            "raw_query": query,
            "headers": headers,
            "body_base64": base64.b64encode(body).decode(),
        }
        if headers.get("upgrade", "").lower() == "websocket":
            await self.websocket(request, headers, reader, writer)
            return False
        timeout = int(ours.get("x-atoll-timeout-ms", "30000")) / 1000
        await self.send(writer, await self.answer(request, timeout), method == "HEAD")
        return True

    async def body(self, reader, headers):
        if "chunked" in headers.get("transfer-encoding", "").lower():
            parts, total = [], 0
            while True:
                size = int((await reader.readline()).split(b";")[0], 16)
                total += size
                if total > MAX_BODY:
                    raise ConnectionError("the request is too large")
                parts.append(await reader.readexactly(size))
                await reader.readline()
                if size == 0:
                    return b"".join(parts)
        size = int(headers.get("content-length", "0"))
        if size > MAX_BODY:
            raise ConnectionError("the request is too large")
        return await reader.readexactly(size)

    async def serve(self, reader, writer):
        try:
            while await self.exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except Exception:
            traceback.print_exc()
        finally:
            writer.close()

    async def run(self):
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0, limit=MAX_HEAD, backlog=1024)
        os.write(3, b"%d\n" % server.sockets[0].getsockname()[1])
        async with server:
            await server.serve_forever()


asyncio.run(Worker(CONFIG).run())
