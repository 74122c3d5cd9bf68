"""Proof that nobody writes into memory through a process that is gone.

A peer may be inside one system call that writes into a host process's memory (CMA) when that process is
killed. The kernel gives the exit status and yet lets the call end, seconds later: the process's address
space lives as long as somebody is inside it. So each host maps a page of a file of its own, which nobody
else maps; the file can be sealed against writing once that mapping, and with it the address space, is gone.
Over every other transport the target's own process or its devices write, and they end with it.
"""

from __future__ import annotations

import fcntl
import os

_F_ADD_SEALS = 1033
_F_SEAL_WRITE = 8


class LifeSentinel:
    SIZE_BYTES = 4_096

    def __init__(self) -> None:
        """@raises OSError when the system gives no memory."""
        self.fd = os.memfd_create("kvferry-life", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.SIZE_BYTES)
        self._is_over = False

    def is_over(self) -> bool:
        """Never waits. Ask only when the process is reaped: before that it may not have mapped the page yet."""
        if self._is_over:
            return True
        try:
            fcntl.fcntl(self.fd, _F_ADD_SEALS, _F_SEAL_WRITE)
        except OSError:
            return False
        self._is_over = True
        self.close()
        return True

    def close(self) -> None:
        """Idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1
