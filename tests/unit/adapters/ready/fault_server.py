"""A server like OpenAI's on 127.0.0.1 that misbehaves as the model's name says."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FaultServer:
    """Runs in a thread; `requests` are the bodies it got, `keys` the keys that came with them, `times` when.

    The model `busy` is rate limited at the requests whose numbers are in `refused`, with what `wait` returns as
    Retry-After.
    """

    def __init__(self) -> None:
        self.requests: list[dict] = []
        self.keys: list[str] = []
        self.times: list[float] = []
        self.refused: set[int] = set()
        self.wait: Callable[[], str | None] = lambda: "2"
        self._counting = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer._counting:
                    number = len(outer.requests)
                    outer.requests.append(body)
                    outer.times.append(time.time())
                outer.keys.append(self.headers.get("Authorization", ""))
                if body["model"] == "busy" and number in outer.refused:
                    wait = outer.wait()
                    headers = {} if wait is None else {"Retry-After": wait}
                    send(self, 429, {"error": {"message": "slow down"}}, headers)
                else:
                    answer(self, body)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> FaultServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def answer(request: BaseHTTPRequestHandler, body: dict) -> None:
    kind = body["model"]
    key = request.headers.get("Authorization", "")
    if kind.isdigit():
        headers = {"Retry-After": "2"} if kind == "429" else {}
        send(request, int(kind), {"error": {"message": f"no: {key}", "code": kind}}, headers)
    elif kind == "reset":
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.connection.close()
    elif kind == "truncated":
        send_bytes(request, 200, b'{"id": "x", "choices": [{"mess', {})
    elif kind == "stall":
        time.sleep(1.5)
    elif kind == "no-choices":
        send(request, 200, {"id": "x", "choices": [], "object": "chat.completion"}, {})
    else:
        send(request, 200, complete(kind, body), {})


def complete(kind: str, body: dict) -> dict:
    message: dict = {"role": "assistant", "content": route(body["messages"])}
    if kind == "empty":
        message["content"] = None
    if kind == "refusal":
        message |= {"content": None, "refusal": "I will not."}
    reply = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": kind,
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
    }
    if kind != "no-usage":
        reply["usage"] = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return reply


def route(messages: list[dict]) -> str:
    """The queue of the example in the system message that shares the most words with the ticket."""
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    words = set(messages[-1]["content"].lower().split())
    best, queue = 0, "other"
    for part in system.split("Ticket: ")[1:]:
        ticket, _, rest = part.partition("\nQueue: ")
        shared = len(words & set(ticket.lower().split()))
        if shared > best:
            best, queue = shared, rest.split("\n")[0]
    return queue


def send(request: BaseHTTPRequestHandler, status: int, body: dict, headers: dict[str, str]) -> None:
    send_bytes(request, status, json.dumps(body).encode(), headers)


def send_bytes(request: BaseHTTPRequestHandler, status: int, data: bytes, headers: dict[str, str]) -> None:
    request.send_response(status)
    for name, value in {
        "Content-Type": "application/json",
        "Content-Length": str(len(data)),
        **headers,
    }.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(data)
