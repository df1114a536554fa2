"""A small HTTP/1.1 client with many streams at once.

One event loop on a thread of its own reads all streams; tests stay plain synchronous code and can
look at a stream while it runs.
"""

import asyncio
import json
import socket
import threading
import time
import weakref

from lib import sse

DEFAULT_TIMEOUT = 60
SLOW_BUFFER = 2**14  # bytes that a slow client has room for


class Reply:
    """One request and what has come back so far. Fields are written by the loop thread and may be
    read at any time.

    status     HTTP status or None before the head has come
    events     data of the server-sent events so far: parsed JSON, or the text "[DONE]"
    times      monotonic second of each event
    body       the whole body (bytes) of an answer that isn't an event stream
    error      text of a transport failure (refused, reset, cut short, timeout), else None
    """

    def __init__(self):
        self.status = None
        self.headers = {}
        self.events = []
        self.times = []
        self.body = b""
        self.error = None
        self.sent_at = None
        self.ended_at = None
        self.finished = threading.Event()
        self.task = None

    def wait(self, seconds=DEFAULT_TIMEOUT):
        """Waits for the end of the answer and returns self."""
        assert self.finished.wait(seconds), f"no complete answer after {seconds} s: {self}"
        return self

    def json(self):
        return json.loads(self.body)

    def close(self):
        """Drops the connection, as a client does that goes away."""
        _loop().call_soon_threadsafe(lambda: self.task and self.task.cancel())
        self.finished.wait(5)

    @property
    def seconds(self):
        return self.ended_at - self.sent_at

    def __repr__(self):
        tail = self.events[-1:] if self.events else self.body[:300]
        return f"<Reply {self.status} error={self.error} events={len(self.events)} {tail}>"


_state = {}
_open = weakref.WeakSet()
_guard = threading.Lock()


def _loop():
    with _guard:
        if "loop" not in _state:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="http", daemon=True).start()
            _state["loop"] = loop
        return _state["loop"]


async def _read_head(reader, reply):
    status_line = await reader.readline()
    if not status_line:
        raise ConnectionError("closed before the status line")
    reply_headers = {}
    while True:
        line = (await reader.readline()).strip()
        if not line:
            break
        name, _, value = line.decode("latin-1").partition(":")
        reply_headers[name.strip().lower()] = value.strip()
    reply.headers = reply_headers
    reply.status = int(status_line.split()[1])


async def _chunks(reader, headers):
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while True:
            size = int((await reader.readline()).split(b";")[0], 16)
            data = await reader.readexactly(size)
            await reader.readexactly(2)
            if size == 0:
                return
            yield data
    elif "content-length" in headers:
        yield await reader.readexactly(int(headers["content-length"]))
    else:
        yield await reader.read()


async def _connect(host, port, slow):
    if not slow:
        return await asyncio.open_connection(host, port, limit=2**22)
    sock = socket.socket()
    sock.setsockopt(
        socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BUFFER
    )  # before connect: no room for a whole answer
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, (host, port))
    return await asyncio.open_connection(sock=sock, limit=SLOW_BUFFER)


async def _exchange(reply, host, port, request, hold):
    writer = None
    try:
        reader, writer = await _connect(host, port, slow=hold is not None)
        writer.write(request)
        await writer.drain()
        await _read_head(reader, reply)
        while hold is not None and not hold.is_set():
            await asyncio.sleep(0.02)
        parser = sse.Parser() if "event-stream" in reply.headers.get("content-type", "") else None
        async for data in _chunks(reader, reply.headers):
            if parser is None:
                reply.body += data
                continue
            for event in parser.feed(data):
                reply.times.append(time.monotonic())
                reply.events.append(event)
    finally:
        if writer is not None:
            writer.close()


async def _run(reply, host, port, request, timeout, hold):
    try:
        await asyncio.wait_for(_exchange(reply, host, port, request, hold), timeout)
    except asyncio.CancelledError:
        reply.error = "closed by the client"
    except (asyncio.TimeoutError, TimeoutError):
        reply.error = f"timeout after {timeout} s"
    except (OSError, asyncio.IncompleteReadError, ValueError) as error:
        reply.error = f"{type(error).__name__}: {error}"
    finally:
        reply.ended_at = time.monotonic()
        reply.finished.set()


def start(port, method, path, body=None, headers=None, timeout=DEFAULT_TIMEOUT, hold=None):
    """Sends a request (body: JSON value, bytes or None) and returns its Reply at once.

    hold: a threading.Event; until it is set nothing after the head is read, with small buffers (a
    slow client).
    """
    host = "127.0.0.1"
    data = body if isinstance(body, bytes) else (b"" if body is None else json.dumps(body).encode())
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: {host}:{port}",
        "Connection: close",
        f"Content-Length: {len(data)}",
    ]
    if body is not None:
        lines.append("Content-Type: application/json")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    request = ("\r\n".join(lines) + "\r\n\r\n").encode() + data
    reply = Reply()
    reply.sent_at = time.monotonic()
    _open.add(reply)

    async def spawn():
        reply.task = asyncio.current_task()
        await _run(reply, host, port, request, timeout, hold)

    asyncio.run_coroutine_threadsafe(spawn(), _loop())
    return reply


def close_all():
    """Drops every connection that is still open (what a failed test has left running)."""
    for reply in [reply for reply in _open if not reply.finished.is_set()]:
        reply.close()


def get(port, path, timeout=5):
    """GET and wait; raises OSError on a transport failure, so that polling can go on."""
    reply = start(port, "GET", path, timeout=timeout).wait(timeout + 5)
    if reply.error:
        raise OSError(reply.error)
    return reply
