"""What daphne takes in before any view sees a request: a bounded body, in memory, an answer to a line that is too long
or has no path, a crowd of connections at once, and so many frames of one socket.

Daphne reads a whole body first, and a large one into a file in /tmp. So a stranger could fill the disk, and a full disk
would break the requests of others. Django still answers bodies over DATA_UPLOAD_MAX_MEMORY_SIZE politely; beyond MOST
the connection ends at once.
"""

from __future__ import annotations

import functools
import io
import json
import time

MOST = 2 << 20  # bytes of a body
TYPE = 256  # bytes of a Content-Type; a browser's with the boundary of a form has 80
CROWD = 1024
# Frames of one WebSocket: at once, and each second. A viewer's are one in 64 events or a second; each takes some 20 us
# of the one thread that serves everybody, and a packet has ten thousand of the shortest.
FRAMES, FRAMES_PER_SECOND = 1000, 50.0
_TOO_LARGE = (413, "Payload Too Large", f"The request is over {MOST >> 20} MiB.", "Paste only the module to optimise.")
_TOO_LONG = (414, "URI Too Long", "A line of the request is longer than 16 KiB.", "Send long texts in a body.")
_TYPE_TOO_LONG = (400, "Bad Request", f"The Content-Type is longer than {TYPE} bytes.", "Send the type alone.")
_NO_PATH = (400, "Bad Request", "The address of the request does not begin with a slash.", "Check the link.")


def bound_requests() -> None:
    """Bound what the daphne that imports us takes in. Does nothing under another server, or the second time."""
    try:
        from daphne.http_protocol import WebRequest
        from twisted.web.http import HTTPChannel
    except ImportError:
        return
    if "gotLength" in vars(WebRequest):
        return

    def got_length(request, length: int | None) -> None:
        """`length`: the announced one; None for a body in chunks."""
        request.content = io.BytesIO()
        if length is not None and length > MOST:
            _end(request.channel, *_TOO_LARGE)

    def handle_content_chunk(request, data: bytes) -> None:
        if request.content.tell() + len(data) <= MOST:
            request.content.write(data)
        else:
            _end(request.channel, *_TOO_LARGE)

    begin, process = WebRequest.__init__, WebRequest.process

    def without_forms(request, *args, **options) -> None:
        # Twisted parses forms in that thread, too, a second for 2 MB, and nobody reads what it makes of them.
        begin(request, *args, parsePOSTFormSubmission=False, **options)

    def with_a_path(request) -> object:
        # Daphne believes this header of anybody, who could move every link of a page, and what a path means.
        request.requestHeaders.removeHeader(b"Daphne-Root-Path")
        # Django parses it in the thread that serves everybody, and one of 15 KB of semicolons takes a second.
        if any(len(x) > TYPE for x in request.requestHeaders.getRawHeaders(b"Content-Type", ())):
            return _end(request.channel, *_TYPE_TOO_LONG)
        if request.path.startswith(b"/"):
            return process(request)
        return _end(request.channel, *_NO_PATH)  # as `OPTIONS *` and CONNECT, at which Django fails

    WebRequest.__init__ = without_forms
    WebRequest.process = with_a_path
    WebRequest.gotLength = got_length
    WebRequest.handleContentChunk = handle_content_chunk
    HTTPChannel.lineLengthExceeded = lambda channel, line: _end(channel, *_TOO_LONG)


def take_in_crowds() -> None:
    """Let CROWD connections wait to be accepted. Twisted's 50 make the others of a class that opens a link at once wait
    for their next packet, a second later. Does nothing under another server, or for an endpoint with its own number."""
    try:
        from daphne import server
    except ImportError:
        return
    listen = server.serverFromString
    if hasattr(listen, "__wrapped__"):
        return

    @functools.wraps(listen)
    def with_backlog(reactor, description: str):
        plain = description.startswith("tcp:") and "backlog=" not in description
        return listen(reactor, f"{description}:backlog={CROWD}" if plain else description)

    server.serverFromString = with_backlog


def bound_frames() -> None:
    """Close a WebSocket that sends more frames than a viewer does: pings, empty ones and parts of messages count, which
    no consumer sees. Does nothing under another server, or the second time."""
    try:
        from daphne.ws_protocol import WebSocketProtocol
    except ImportError:
        return
    if "onFrameBegin" in vars(WebSocketProtocol):
        return
    begin = WebSocketProtocol.onFrameBegin
    error = {"error": f"This socket sent over {FRAMES} frames faster than {FRAMES_PER_SECOND:.0f} a second."}

    def counted(protocol) -> None:
        now = time.monotonic()
        left, then = getattr(protocol, "frames_left", (FRAMES, now))
        left = min(FRAMES, left + (now - then) * FRAMES_PER_SECOND) - 1
        protocol.frames_left = left, now
        if left >= 0:
            begin(protocol)
            return
        protocol.sendMessage(json.dumps(error).encode())
        protocol.data = b""
        protocol.dropConnection(abort=False)  # which reads nothing more

    WebSocketProtocol.onFrameBegin = counted


def _end(channel, status: int, words: str, error: str, fix: str) -> None:
    """Answer once, read nothing more, and close."""
    channel.dataReceived = channel.lineReceived = channel.rawDataReceived = lambda *data: None
    body = json.dumps({"error": error, "fix": fix}).encode()
    head = f"HTTP/1.1 {status} {words}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    channel.transport.write(f"{head}Connection: close\r\n\r\n".encode() + body)
    channel.transport.loseConnection()
