"""Real vLLM engines for tests: each one in-process in a forked child, driven over a pipe.

The parent imports vLLM once and forks, so that an engine starts in seconds. A child steps its engine as
vLLM's own loop does, also while only transfers are open. Its output and its host's go to a log file, of
which the end is shown when a check fails.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Callable

import inside

Params = dict[str, Any]
_fork = multiprocessing.get_context("fork")


class Answer:
    """How one request ended."""

    def __init__(self, tokens: list[int], params: Params | None, reason: str, cached: int) -> None:
        self.tokens, self.params, self.reason = tokens, params, reason
        #: Tokens of the prompt that this engine did not compute, as vLLM's scheduler counts them.
        self.cached = cached


class Engine:
    """The parent's handle of one engine. Both ways of ending it may be repeated."""

    def __init__(
        self,
        name: str,
        model: str,
        log_dir: Path,
        connector: Params | None,
        env: dict[str, str] | None = None,
        **args: Any,
    ) -> None:
        """`env`: more of the environment, for it and its host. `args`: vLLM's own."""
        self.name = name
        self.log = log_dir / f"{name}.log"
        self._conn, theirs = _fork.Pipe()
        self._answers: dict[str, Answer] = {}
        settings = (env or {}, name, model, connector, args)
        self._process = _fork.Process(target=_serve, args=(theirs, self.log, *settings), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def wait_ready(self) -> None:
        kind, value = self._receive(180)
        if kind != "ready":
            raise RuntimeError(f"{self.name} did not start: {value}")

    def submit(self, request_id: str, prompt: str, count: int, params: Params | None = None) -> None:
        self._conn.send(("submit", request_id, prompt, count, params))

    def wait(self, request_id: str, timeout_s: float = 180) -> Answer:
        deadline = time.monotonic() + timeout_s
        while request_id not in self._answers:
            kind, value = self._receive(deadline - time.monotonic())
            if kind != "end":
                raise RuntimeError(f"{self.name}: {kind} while waiting for {request_id}: {value}")
            self._answers[value[0]] = Answer(*value[1:])
        return self._answers.pop(request_id)

    def ask(self, request_id: str, prompt: str, count: int, params: Params | None = None) -> Answer:
        self.submit(request_id, prompt, count, params)
        return self.wait(request_id)

    def abort(self, request_id: str) -> None:
        self._conn.send(("abort", request_id))

    def call(self, command: str, *args: Any, timeout_s: float = 180) -> Any:
        """A function of inside.py; runs between two steps of the engine."""
        self._conn.send((command, *args))
        deadline = time.monotonic() + timeout_s
        while True:
            kind, value = self._receive(deadline - time.monotonic())
            if kind == command:
                return value
            if kind != "end":
                raise RuntimeError(f"{self.name}: {kind} instead of {command}: {value}")
            self._answers[value[0]] = Answer(*value[1:])

    def wait_until(self, what: str, is_met: Callable[[], bool], timeout_s: float = 180) -> None:
        deadline = time.monotonic() + timeout_s
        while not is_met():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: {what}")
            time.sleep(0.01)

    def stop(self) -> int | None:
        """Ends the engine in order. Returns its exit status."""
        if self._process.is_alive():
            try:
                self._conn.send(None)
            except OSError:
                pass
        self._process.join(30)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(5)
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()
        self._process.join(5)

    def log_tail(self, count: int = 8) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        noise = ("Loading safetensors", "Warning", "hasattr(value", "wrapper = lookup")
        lines = [line for line in text.splitlines() if line and not any(n in line for n in noise)]
        return "\n".join(f"    {self.name}| {line[:240]}" for line in lines[-count:])

    def _receive(self, timeout_s: float) -> tuple[str, Any]:
        if not self._conn.poll(max(0, timeout_s)):
            raise TimeoutError(f"{self.name} said nothing in time")
        try:
            return self._conn.recv()
        except EOFError:
            raise RuntimeError(f"{self.name} died") from None


def _serve(conn: Connection, log: Path, env: dict[str, str], *settings: Any) -> None:
    with open(log, "ab", buffering=0) as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.update(env)
    try:
        _serve_engine(conn, *settings)
    except EOFError:
        os._exit(1)  # the parent is gone; the host ends with this process
    except BaseException as error:  # the parent must hear of it, whatever it is
        traceback.print_exc()
        conn.send(("failed", f"{type(error).__name__}: {error}"))
    sys.stderr.flush()
    os._exit(1)


def _serve_engine(
    conn: Connection,
    name: str,
    model: str,
    connector: Params | None,
    args: Params,
) -> None:
    from vllm import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    settings: Params = dict(
        dtype="float32", enforce_eager=True, max_model_len=2048, max_num_seqs=8,
        kv_cache_memory_bytes=64 << 20, disable_log_stats=True,
    )  # fmt: skip
    if connector is not None:
        settings["kv_transfer_config"] = dict(
            kv_connector="KVFerryConnector",
            kv_connector_module_path="kvferry_vllm.connector",
            engine_id=name,
            **connector,
        )
    engine = LLMEngine.from_engine_args(EngineArgs(model, **{**settings, **args}))
    conn.send(("ready", None))
    _Loop(conn, engine).run()


class _Loop:
    """Commands in, steps while there is something to do, ends out."""

    def __init__(self, conn: Connection, engine: Any) -> None:
        self._conn = conn
        self._engine = engine
        self._scheduler = engine.engine_core.engine_core.scheduler
        #: A host that is to be stopped when it has promised a prompt.
        self._armed_pid: int | None = None

    def run(self) -> None:
        while True:
            is_busy = self._is_busy()
            while self._conn.poll(0 if is_busy else 0.02):
                self._obey(self._conn.recv())
                is_busy = True
            if not self._is_busy():
                continue
            for output in self._engine.step():
                if output.finished:
                    first = output.outputs[0]
                    ended = (list(first.token_ids), output.kv_transfer_params, first.finish_reason)
                    cached = output.num_cached_tokens or 0
                    self._conn.send(("end", (output.request_id, *ended, cached)))
            if self._armed_pid is not None and inside.stop_promising_host(self._scheduler, self._armed_pid):
                self._armed_pid = None
            if not self._scheduler.running:
                time.sleep(0.0003)  # only transfers are left; two cores are shared by all of us

    def _is_busy(self) -> bool:
        return self._scheduler.has_requests() or self._engine.has_unfinished_requests()

    def _obey(self, message: Any) -> None:
        from vllm import SamplingParams

        if message is None:
            self._engine.engine_core.engine_core.shutdown()
            os._exit(0)
        command = message[0]
        if command == "submit":
            _, request_id, prompt, count, params = message
            sampling = SamplingParams(
                temperature=0, max_tokens=count, ignore_eos=True,
                extra_args={"kv_transfer_params": params} if params else None,
            )  # fmt: skip
            self._engine.add_request(request_id, prompt, sampling)
        elif command == "abort":
            self._engine.abort_request([message[1]], internal=False)
        elif command == "arm":
            self._armed_pid = message[1]
            self._conn.send((command, None))
        else:
            self._conn.send((command, getattr(inside, command)(self._scheduler, *message[1:])))
