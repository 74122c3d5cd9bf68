"""Pairs of engines that more than one scenario uses: the first one starts them, and they end after the last."""

from __future__ import annotations

from typing import Callable, Iterable, TypeVar

from engines import Engine
from push import PushEngine
from scenarios_death import TCP

Pair = TypeVar("Pair")

#: Of the pair whose host is killed: short, since what a dead consumer left is free at its end. The first prompt of new
#: engines outlasts less on a machine that compiles beside them: the handshake over TCP and vLLM's first step are in it.
LEASE_MS = 20_000


class Fleet:
    def __init__(self, start: Callable[..., Engine]) -> None:
        self._start = start
        self._pairs: dict[str, object] = {}
        self._engines: dict[str, tuple[Engine, Engine]] = {}

    def pull(self, block_size: int) -> tuple[Engine, Engine]:
        """P and D. With blocks of 32 over TCP, where a READ can be cut in its middle; of 128 as NIXL likes it on one machine."""
        return self._pair(f"pull-{block_size}", lambda: self._start_pull(block_size), lambda pair: pair)

    def push(self, block_size: int) -> tuple[PushEngine, PushEngine]:
        """P and D. With blocks of 32 prompts are computed in chunks of which each leaves when it is computed."""
        return self._pair(
            f"push-{block_size}",
            lambda: self._start_push(block_size),
            lambda pair: (pair[0].engine, pair[1].engine),
        )

    def end_all_but(self, names: Iterable[str]) -> None:
        """Idempotent; some may have ended by themselves."""
        for name in self._engines.keys() - set(names):
            del self._pairs[name]
            for engine in self._engines.pop(name):
                engine.stop()

    def _pair(
        self, name: str, start: Callable[[], Pair], engines_of: Callable[[Pair], tuple[Engine, Engine]]
    ) -> Pair:
        if name not in self._pairs:
            self._pairs[name] = pair = start()
            self._engines[name] = engines_of(pair)
            try:
                for engine in self._engines[name]:
                    engine.wait_ready()
            except BaseException:
                self.end_all_but(self._engines.keys() - {name})
                raise
        return self._pairs[name]  # type: ignore[return-value]

    def _start_pull(self, block_size: int) -> tuple[Engine, Engine]:
        def engine(role: str) -> Engine:
            connector: dict[str, object] = {"kv_role": f"kv_{role}"}
            if block_size != 32:
                return self._start(f"{role}-{block_size}", connector, block_size=block_size)
            connector["kv_load_failure_policy"] = "recompute"
            connector["kv_connector_extra_config"] = {"options": {"leaseDurationMs": LEASE_MS}}
            return self._start(f"{role}-{block_size}", connector, env=TCP, block_size=block_size)

        return engine("producer"), engine("consumer")

    def _start_push(self, block_size: int) -> tuple[PushEngine, PushEngine]:
        chunks = {"options": {"progressive": True}, "max_num_batched_tokens": 256} if block_size == 32 else {}
        producer = PushEngine(
            self._start, f"push-producer-{block_size}", "kv_producer", block_size=block_size, **chunks
        )
        consumer = PushEngine(
            self._start, f"push-consumer-{block_size}", "kv_consumer", block_size=block_size
        )
        return producer, consumer
