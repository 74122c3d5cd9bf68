"""What tests look at and do inside an engine's process, between two of its steps. Called by engines.py."""

from __future__ import annotations

import os
import re
import signal
import sys
from typing import Any

#: The engine's own reading of where a value of a head lies: token 5, the first element of V, its highest byte.
_TOKEN, _ELEMENT_BYTES = 5, 4
PREEMPTION_BEGINS, PREEMPTION_ENDS = "test: a preemption begins", "test: a preemption ends"
_preempted: list[str] = []


def requests(scheduler: Any) -> dict[str, int]:
    pool = scheduler.kv_cache_manager.block_pool
    return {"open": len(scheduler.requests), "freeBlocks": pool.get_num_free_blocks()}


def hooks(scheduler: Any) -> tuple[list[int], list[int]]:
    from kvferry_vllm.hook_timing import timer

    return timer.take()


def describe(scheduler: Any) -> dict[str, int]:
    from vllm.distributed.kv_transfer import get_kv_transfer_group

    halves = (get_kv_transfer_group().describe(), scheduler.get_kv_connector().describe())
    return {**halves[0], "hookFailures": sum(half["hookFailures"] for half in halves)}


def incarnation(scheduler: Any) -> str:
    """Of the host that is ready."""
    from vllm.distributed.kv_transfer import get_kv_transfer_group

    return str(get_kv_transfer_group()._worker.facts.epoch)


def unknown_hooks(scheduler: Any) -> list[str]:
    """Public methods of our connector that this vLLM knows nothing of, so never calls."""
    ours, *bases = type(scheduler.get_kv_connector()).__mro__
    names = [name for name in vars(ours) if not name.startswith("_")]
    return [name for name in names if not any(hasattr(base, name) for base in bases)]


def watch_preemptions(scheduler: Any) -> None:
    """From now on preemptions are counted, and the log says when one waits for transfers and has waited."""
    from vllm.distributed.kv_transfer import get_kv_transfer_group

    half = get_kv_transfer_group()._worker
    settle = half.settle_preempted

    def settle_loudly(step: Any) -> None:
        _preempted.extend(step.preempted)
        print(f"{PREEMPTION_BEGINS}: {step.preempted}", file=sys.stderr, flush=True)
        settle(step)
        print(f"{PREEMPTION_ENDS}: {step.preempted}", file=sys.stderr, flush=True)

    half.settle_preempted = settle_loudly


def preempted(scheduler: Any) -> list[str]:
    """Requests, each as often as it was preempted, since they are watched."""
    return _preempted


def forget(scheduler: Any) -> bool:
    """vLLM's own cache drops everything; False while blocks are in use."""
    return bool(scheduler.reset_prefix_cache())


def reset(scheduler: Any) -> bool:
    """The same, and what the connector keeps, as after a change of the weights."""
    return bool(scheduler.reset_prefix_cache(reset_connector=True))


def loading(scheduler: Any) -> int:
    """Requests that wait for KV from elsewhere."""
    waiting = [*scheduler.waiting, *scheduler.kv_holding_waiting]
    return sum(request.status.name == "WAITING_FOR_REMOTE_KVS" for request in waiting)


def blocks(scheduler: Any) -> dict[str, list[int]]:
    """Of the requests that have any, ended ones included."""
    ids = {r: scheduler.kv_cache_manager.get_block_ids(r)[0] for r in scheduler.requests}
    return {request_id: list(held) for request_id, held in ids.items() if held}


def stop_promising_host(scheduler: Any, pid: int) -> bool:
    """Stops the host (SIGSTOP) once it has promised a prompt out of its history and vLLM has not taken it yet."""
    rules = scheduler.get_kv_connector()._scheduler._rules
    records = rules._returning._records.values()
    if not any(record.state == "answered" and record.block_count > 0 for record in records):
        return False
    os.kill(pid, signal.SIGSTOP)
    return True


def spoil(scheduler: Any, pid: int, block_id: int) -> int:
    """Turns one byte of what the host's history has of this block; the block has its content. Returns the copies found."""
    from vllm.distributed.kv_transfer import get_kv_transfer_group

    connector = get_kv_transfer_group()
    caches = connector._worker._keeper._start_message["caches"]
    region = caches["regions"][0]
    at = _TOKEN * 2 * caches["headSize"] * _ELEMENT_BYTES + caches["headSize"] * _ELEMENT_BYTES
    start = region["offsetBytes"] + block_id * region["blockStrideBytes"] + at
    wanted = os.pread(caches["memories"][region["memory"]]["fd"], caches["headSize"] * _ELEMENT_BYTES, start)
    assert any(wanted), "the block is empty"
    found = 0
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for begin, end in _private_memory(pid):
            memory.seek(begin)
            content = memory.read(end - begin) or b""
            index = content.find(wanted)
            while index >= 0:
                memory.seek(begin + index + _ELEMENT_BYTES - 1)
                memory.write(bytes([content[index + _ELEMENT_BYTES - 1] ^ 0x40]))
                found += 1
                index = content.find(wanted, index + 1)
    return found


def _private_memory(pid: int) -> list[tuple[int, int]]:
    """Large anonymous memory of that process, in which its tiers are; the engine's own cache is a file's."""
    found = []
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0\s*$", line)
            if match:
                begin, end = (int(part, 16) for part in match.groups())
                if end - begin >= 1 << 20:
                    found.append((begin, end))
    return found
