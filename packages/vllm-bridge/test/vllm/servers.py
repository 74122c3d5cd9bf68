"""Real vLLM servers and a router for tests, each a program of its own, as users start them.

A server is three processes (HTTP, engine core, worker) and its host; they share a process group, so that
nothing is left when a test fails half-way. Logs go to files, of which the end is shown.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from engines import Params
from processes import free_port

_libc = ctypes.CDLL(None)
_PACKAGES = Path(__file__).resolve().parents[3]
#: Three imports of vLLM one after the other, in each of two servers, on two cores.
START_TIMEOUT_S = 900
STOP_TIMEOUT_S = 60


class Program:
    """A process with a group and a log of its own, and an HTTP address."""

    def __init__(self, name: str, log_dir: Path, command: list[str], **env: str) -> None:
        self.name = name
        self.url = ""
        self.log = log_dir / f"{name}.log"
        with open(self.log, "wb") as out:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=out,
                env={**os.environ, **env}, start_new_session=True, preexec_fn=_end_with_parent,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    def get(self, path: str) -> tuple[int, str]:
        return self._request(path, None)

    def post(self, path: str, body: Params) -> tuple[int, str]:
        return self._request(path, json.dumps(body).encode())

    def wait_healthy(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self._process.returncode}")
            try:
                if self.get("/health")[0] == 200:
                    return
            except OSError:
                pass  # it doesn't listen yet
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} isn't healthy in {START_TIMEOUT_S} s")
            time.sleep(0.1)

    def stop(self) -> int | None:
        """SIGTERM, as an operator ends it. Returns the exit status."""
        self._process.terminate()
        try:
            return self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Whatever is left of the group. Idempotent."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait(5)

    def log_tail(self, count: int = 12) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if "HTTP/1.1" not in line]
        return "\n".join(f"    {self.name}| {line[:240]}" for line in lines[-count:])

    def _request(self, path: str, body: bytes | None) -> tuple[int, str]:
        request = urllib.request.Request(self.url + path, body, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


class Server(Program):
    """`vllm serve` with KVFerry, as the README starts it."""

    def __init__(self, name: str, model: str, log_dir: Path, role: str, config: Params) -> None:
        """`config` is KVFerry's; a producer of push must be told to the router, so its side channel has a port."""
        port = free_port()
        self.side_channel = f"127.0.0.1:{free_port()}"
        transfer = {
            "kv_connector": "KVFerryConnector",
            "kv_connector_module_path": "kvferry_vllm.connector",
            "engine_id": name,
            "kv_role": role,
            "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": {
                **config,
                "sideChannel": {"host": "127.0.0.1", "port": int(self.side_channel.split(":")[1])},
            },
        }
        arguments = {
            "--model": model, "--served-model-name": "tiny", "--host": "127.0.0.1", "--port": port,
            "--dtype": "float32", "--max-model-len": 2048, "--max-num-seqs": 8, "--block-size": 32,
            "--kv-cache-memory-bytes": 64 << 20, "--kv-transfer-config": json.dumps(transfer),
        }  # fmt: skip
        # The command `vllm serve` needs a distribution named `vllm`; the one for CPU is named otherwise.
        program = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager"]
        flat = [str(part) for pair in arguments.items() for part in pair]
        super().__init__(name, log_dir, program + flat, VLLM_ENABLE_V1_MULTIPROCESSING="1")
        self.url = f"http://127.0.0.1:{port}"

    def counter(self, name: str) -> int:
        """Of `/metrics`; vLLM shows a count within a step of its engine."""
        _, text = self.get("/metrics")
        found = re.search(rf"^vllm:kvferry_{name}_total{{.*}} (\S+)$", text, re.MULTILINE)
        if found is None:
            raise AssertionError(f"{self.name}: no counter {name} in /metrics")
        return int(float(found[1]))


class Router(Program):
    """`kvferry-router` in front of engines that can't describe themselves."""

    def __init__(self, log_dir: Path, prefill: Server, decode: Server, connector: str) -> None:
        program = str(_PACKAGES / "router" / "bin" / "kvferry-router.mjs")
        node = os.environ.get("KVFERRY_NODE", "node")
        super().__init__(
            f"{connector}-router", log_dir,
            [node, program, "--prefill", prefill.url, "--decode", decode.url, "--connector", connector,
             "--prefill-engine-id", prefill.name, "--prefill-side-channel", prefill.side_channel,
             "--prefill-tp", "1", "--port", "0", "--stop-on-stdin-end"],
        )  # fmt: skip
        deadline = time.monotonic() + 120
        while not self.url and time.monotonic() < deadline:
            found = re.search(r'"event":"ready","url":"([^"]+)"', self.log.read_text(errors="replace"))
            self.url = found[1] if found else ""
            time.sleep(0.05)


def answer_of(router: Program, prompt: str, count: int) -> list[int]:
    """The tokens of a completion. @raises AssertionError for any answer but a completion."""
    body: dict[str, Any] = dict(
        model="tiny", prompt=prompt, max_tokens=count, temperature=0, ignore_eos=True, return_token_ids=True
    )
    status, text = router.post("/v1/completions", body)
    if status != 200:
        raise AssertionError(f"{router.name} answered {status}: {text[:400]}")
    return list(json.loads(text)["choices"][0]["token_ids"])


def _end_with_parent() -> None:
    """In the child: SIGTERM when this process is gone, however it went. A server ends its own children then."""
    _libc.prctl(1, signal.SIGTERM)
