"""The host's process and socket, with a small program of Python's in the host's place."""

from __future__ import annotations

import os
import signal
import sys
import time
import unittest
from typing import Any, Callable
from unittest import mock

from kvferry_vllm import limits
from kvferry_vllm.host_process import HostProcess

#: Reads whole messages as `receive()`, writes them with `send(object)`, raw bytes with `link.sendall`.
PRELUDE = """
import json, os, socket, struct, sys, time
link = socket.socket(fileno=int(sys.argv[sys.argv.index("--socket-fd") + 1]))
def exactly(size):
    data = b""
    while len(data) < size:
        part = link.recv(size - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data
def receive():
    return json.loads(exactly(struct.unpack("<I", exactly(4))[0]))
def send(message):
    body = json.dumps(message).encode()
    link.sendall(struct.pack("<I", len(body)) + body)
"""
ECHO = PRELUDE + "while True: send(receive())"


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class HostProcessCase(unittest.TestCase):
    def start(self, program: str, fds: Any = ()) -> HostProcess:
        host = HostProcess([sys.executable, "-c", program], fds)
        self.addCleanup(host.close, 0)
        return host

    def wait_until(self, is_met: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not is_met():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)

    def test_messages_both_ways(self) -> None:
        host = self.start(ECHO)
        sent = [{"n": index, "text": "ü" * index} for index in range(50)]
        for message in sent:
            host.send(message)
        received: list[Any] = []
        while len(received) < len(sent):
            received += host.wait_for(lambda _: True, 60)
        self.assertEqual(received, sent)
        self.assertEqual(host.receive(), [])

    def test_a_message_larger_than_the_socket_takes_at_once(self) -> None:
        host = self.start(ECHO)
        message = {"text": "x" * 5_000_000}
        host.send(message)
        self.assertEqual(host.wait_for(lambda _: True, 60), [message])

    def test_frames_cut_anywhere(self) -> None:
        body = b'{"a":1}'
        frame = len(body).to_bytes(4, "little") + body
        host = self.start(
            PRELUDE + f"for byte in {frame * 2!r}: link.sendall(bytes([byte])); time.sleep(0.001)"
        )
        received: list[Any] = []
        while len(received) < 2:
            received += host.wait_for(lambda _: True, 60)
        self.assertEqual(received, [{"a": 1}, {"a": 1}])

    def test_what_is_no_message_ends_the_connection(self) -> None:
        wrong = {
            b"\x05\x00\x00\x00abcde": "unreadable",
            b"\x03\x00\x00\x00[1]": "no object",
            (limits.MESSAGE_SIZE_BYTES_MAX + 1).to_bytes(4, "little"): "a frame of",
        }
        for data, reason in wrong.items():
            with self.subTest(reason):
                host = self.start(PRELUDE + f"link.sendall({data!r}); time.sleep(600)")
                self.assertEqual(host.wait_for(lambda _: True, 60), [])
                self.assertFalse(host.is_open)
                self.assertIn(reason, host.end_reason or "")

    def test_what_was_sent_before_the_end_is_heard(self) -> None:
        host = self.start(PRELUDE + "send({'last': 1})")
        self.wait_until(host.is_reaped)
        self.assertEqual(host.receive(), [{"last": 1}])
        self.assertEqual(host.receive(), [])
        self.assertFalse(host.is_open)

    def test_a_host_that_reads_nothing_is_given_up_and_never_waited_for(self) -> None:
        host = self.start(PRELUDE + "time.sleep(600)")
        message = {"text": "x" * 1_000_000}
        started = time.monotonic()
        with mock.patch("kvferry_vllm.host_process.BACKLOG_SIZE_BYTES_MAX", 5_000_000):
            for _ in range(7):
                host.send(message)
        self.assertLess(time.monotonic() - started, 600)
        self.assertFalse(host.is_open)
        self.assertIn("unread", host.end_reason or "")

    def test_kill_and_reap(self) -> None:
        host = self.start(PRELUDE + "time.sleep(600)")
        self.assertFalse(host.is_reaped())
        host.kill("for the test")
        self.wait_until(host.is_reaped)
        self.assertEqual(host.end_reason, "for the test")
        with self.assertRaises(ProcessLookupError):
            os.kill(host.pid, 0)
        host.send({"dropped": 1})
        self.assertEqual(host.receive(), [])

    def test_reaped_means_that_nobody_is_inside_its_memory_either(self) -> None:
        """A peer's system call that writes into a killed host ends later; here a fork keeps the memory alive."""
        program = """
import mmap, signal
life = receive()
page = mmap.mmap(life["fd"], life["sizeBytes"], mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
page[0] = 1
inside = os.fork()
if inside == 0:
    link.close()
    signal.pause()
send({"inside": inside})
signal.pause()
"""
        host = self.start(PRELUDE + program)
        host.send(host.life)
        [message] = host.wait_for(lambda _: True, 60)
        inside = message["inside"]
        self.addCleanup(_kill, inside)
        self.assertFalse(host.is_reaped())
        host.kill("by the test")
        self.assertIsNone(host.wait_for_end(0.3), "the process is gone, its memory is not")
        self.assertFalse(host.is_reaped())
        _kill(inside)
        self.wait_until(host.is_reaped)
        self.assertEqual(host.wait_for_end(1), -signal.SIGKILL)

    def test_close_asks_first_and_kills_then(self) -> None:
        self.assertEqual(self.start(ECHO).close(60), 0)
        stubborn = self.start(PRELUDE + "time.sleep(600)")
        self.assertEqual(stubborn.close(0.05), -9)

    def test_signals_of_the_terminal_are_not_for_the_host(self) -> None:
        host = self.start(ECHO)
        self.assertEqual(os.getsid(host.pid), host.pid)

    def test_waiting_has_an_end(self) -> None:
        host = self.start(PRELUDE + "time.sleep(600)")
        started = time.monotonic()
        self.assertEqual(host.wait_for(lambda _: True, 0.1), [])
        self.assertLess(time.monotonic() - started, 600)

    def test_inherited_memory_and_nothing_else(self) -> None:
        kept = os.memfd_create("kept", os.MFD_CLOEXEC)
        other = os.memfd_create("other", os.MFD_CLOEXEC)
        try:
            os.write(kept, b"shared")
            program = f"""
def is_open(fd):
    try:
        os.fstat(fd)
        return True
    except OSError:
        return False
send({{"kept": is_open({kept}) and os.pread({kept}, 6, 0).decode(), "other": is_open({other})}})"""
            host = self.start(PRELUDE + program, [kept])
            [answer] = host.wait_for(lambda _: True, 60)
        finally:
            os.close(kept)
            os.close(other)
        self.assertEqual(answer, {"kept": "shared", "other": False})


if __name__ == "__main__":
    unittest.main()
