"""The Node process that runs the protocol: its start, its socket, its end.

One per engine, a child of the process that holds the KV cache. It inherits the memory's file descriptor and
one end of a socket pair, and ends when the other end closes. Nothing here waits, except `wait_for` (start
and one rare hook) and `close`. Whether what a dead host began, or let others begin, can still write is
answered by `is_reaped`: its own READs can't once the kernel has given its exit status, and peers can't
once its address space is gone too (life_sentinel.py). Knows frames, not meanings.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import subprocess
import time
from typing import Any, Callable, Sequence

from .life_sentinel import LifeSentinel
from .limits import BACKLOG_SIZE_BYTES_MAX, KILL_TIMEOUT_S, MESSAGE_SIZE_BYTES_MAX

Message = dict[str, Any]
_HEADER = struct.Struct("<I")
_RECEIVE_SIZE_BYTES = 65_536


class HostProcess:
    """A started host. `send` and `receive` never block; after the end they do nothing."""

    def __init__(self, command: Sequence[str], inherited_fds: Sequence[int]) -> None:
        """@raises OSError when the program can't be started."""
        self._sentinel = LifeSentinel()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._process = subprocess.Popen(
                [*command, "--socket-fd", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                # Results of the engine's own program go to stdout.
                stdout=2,
                pass_fds=[theirs.fileno(), self._sentinel.fd, *inherited_fds],
                # Ctrl-C at a terminal is for the engine, which then ends the host.
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            self._sentinel.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        self._socket: socket.socket | None = ours
        self._backlog = bytearray()
        self._received = bytearray()
        #: Why the connection ended; None while it's open.
        self.end_reason: str | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    @property
    def life(self) -> Message:
        """What it has to map, for its start message."""
        return {"fd": self._sentinel.fd, "sizeBytes": LifeSentinel.SIZE_BYTES}

    def is_reaped(self) -> bool:
        """Never waits. True once nothing can write through the process: it's gone, and its memory with it."""
        return self._process.poll() is not None and self._sentinel.is_over()

    def send(self, message: Message) -> None:
        """Hands a message over, or keeps what the socket doesn't take now for the next call."""
        if self._socket is None:
            return
        body = json.dumps(message, separators=(",", ":")).encode()
        if len(body) > MESSAGE_SIZE_BYTES_MAX:
            self._disconnect(f"a message of {len(body)} bytes")
            return
        self._backlog += _HEADER.pack(len(body))
        self._backlog += body
        self.flush()

    def flush(self) -> None:
        if self._socket is None or not self._backlog:
            return
        try:
            sent = self._socket.send(self._backlog)
            del self._backlog[:sent]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._disconnect(f"its socket closed: {error.strerror}")
            return
        if len(self._backlog) > BACKLOG_SIZE_BYTES_MAX:
            self._disconnect(f"it left {len(self._backlog)} bytes unread")

    def receive(self) -> list[Message]:
        """Every whole message that has arrived."""
        self._read()
        messages: list[Message] = []
        while len(self._received) >= _HEADER.size:
            (size,) = _HEADER.unpack_from(self._received)
            if size > MESSAGE_SIZE_BYTES_MAX:
                self._disconnect(f"a frame of {size} bytes")
                break
            end = _HEADER.size + size
            if len(self._received) < end:
                break
            body = bytes(memoryview(self._received)[_HEADER.size : end])
            del self._received[:end]
            try:
                message = json.loads(body)
            except ValueError as error:
                self._disconnect(f"an unreadable message: {error}")
                break
            if not isinstance(message, dict):
                self._disconnect("a message that is no object")
                break
            messages.append(message)
        return messages

    def wait_for(self, is_met: Callable[[Message], bool], timeout_s: float) -> list[Message]:
        """Blocks until a message meets the condition, the connection ends, or the time is over.

        Returns everything that arrived, in order; whether the condition was met is for the caller to see.
        """
        deadline = time.monotonic() + timeout_s
        messages: list[Message] = []
        while self._socket is not None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                break
            poll = select.poll()
            events = select.POLLIN | (select.POLLOUT if self._backlog else 0)
            poll.register(self._socket, events)
            poll.poll(1_000 * remaining)
            self.flush()
            arrived = self.receive()
            messages += arrived
            if any(is_met(message) for message in arrived):
                break
        return messages

    def kill(self, reason: str) -> None:
        """Ends the process at once. It's gone when `is_reaped` says so."""
        self._disconnect(reason)
        self._process.kill()

    def wait_for_end(self, timeout_s: float) -> int | None:
        """Exit status once it is reaped, or None when that doesn't come in time."""
        deadline = time.monotonic() + timeout_s
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        while not self._sentinel.is_over():
            if time.monotonic() > deadline:
                return None
            time.sleep(0.001)
        return status

    def close(self, timeout_s: float) -> int | None:
        """Asks the host to end by closing its socket; kills it past the deadline. Returns its exit status."""
        self._disconnect("closed by the engine")
        if self.wait_for_end(timeout_s) is None:
            self._process.kill()
        status = self.wait_for_end(KILL_TIMEOUT_S)
        self._sentinel.close()
        return status

    def _read(self) -> None:
        while self._socket is not None:
            try:
                chunk = self._socket.recv(_RECEIVE_SIZE_BYTES)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._disconnect(f"its socket failed: {error.strerror}")
                return
            if not chunk:
                self._disconnect("it closed its socket")
                return
            self._received += chunk
            if len(chunk) < _RECEIVE_SIZE_BYTES:
                return

    def _disconnect(self, reason: str) -> None:
        if self._socket is None:
            return
        self.end_reason = reason
        self._socket.close()
        self._socket = None
        self._backlog.clear()


def default_command() -> list[str]:
    """Node and the host program of the npm package that this file is part of; both can be overridden."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    program = os.environ.get("KVFERRY_VLLM_HOST", os.path.join(package, "bin", "kvferry-vllm-host.mjs"))
    return [os.environ.get("KVFERRY_NODE", "node"), program]
