"""What the kernel says about processes that a test did not start itself, and about ports."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


def hosts_under(pid: int) -> list[int]:
    """KVFerry's host processes among all descendants of a process."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            children.setdefault(int(stat.rsplit(")", 1)[1].split()[1]), []).append(int(entry))
    found, open_pids = [], [pid]
    while open_pids:
        for child in children.get(open_pids.pop(), []):
            open_pids.append(child)
            if b"kvferry-vllm-host" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
