"""A push producer and consumer, and what a router does for them: both are told of a transfer at once."""

from __future__ import annotations

from typing import Any, Callable

from engines import Answer, Engine, Params
from processes import free_port
from router import OUTPUT_COUNT, new_id


class PushEngine:
    """An engine whose side channel has a port that others can be told, also after its host died."""

    def __init__(self, start: Callable[..., Engine], name: str, role: str, **args: Any) -> None:
        """`options` of the connector, `bridge`, `policy`; the rest goes to vLLM."""
        self.port = free_port()
        extra = {
            "connector": "push",
            "sideChannel": {"host": "127.0.0.1", "port": self.port},
            "options": args.pop("options", {}),
            "bridge": args.pop("bridge", {}),
        }
        policy = args.pop("policy", "recompute")
        connector = dict(kv_role=role, kv_load_failure_policy=policy, kv_connector_extra_config=extra)
        self.engine = start(name, connector, **args)

    def produce(self, prompt: str, transfer_id: str) -> str:
        request_id = new_id("p")
        params = {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": transfer_id}
        self.engine.submit(request_id, prompt, 1, params)
        return request_id

    def consume(self, prompt: str, transfer_id: str, producer: PushEngine) -> str:
        request_id = new_id("d")
        self.engine.submit(request_id, prompt, OUTPUT_COUNT, producer.params(request_id, transfer_id))
        return request_id

    def params(self, request_id: str, transfer_id: str) -> Params:
        """What a router writes for the consumer of this engine's blocks."""
        return {
            "do_remote_prefill": True, "do_remote_decode": False, "transfer_id": transfer_id,
            "remote_engine_id": self.engine.name, "remote_host": "127.0.0.1", "remote_port": self.port,
            "remote_request_id": request_id, "tp_size": 1, "pp_size": 1,
        }  # fmt: skip


def pushed(producer: PushEngine, consumer: PushEngine, prompt: str) -> Answer:
    """The consumer's answer. It hears of the transfer first, so it has registered when the prompt is computed."""
    transfer_id = new_id("x")
    asked = consumer.consume(prompt, transfer_id, producer)
    prefilled = producer.produce(prompt, transfer_id)
    answer = consumer.engine.wait(asked)
    producer.engine.wait(prefilled)
    return answer
