"""No exception leaves a hook of the connector that vLLM loads, whatever vLLM hands it and whatever fails behind it.

vLLM is replaced by empty classes: what counts is which methods are guarded, and that the guard holds.
"""

from __future__ import annotations

import ast
import importlib
import logging
import sys
import unittest
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Iterator
from unittest import mock

import kvferry_vllm

logging.getLogger("vllm.kvferry").setLevel(logging.CRITICAL + 1)

START = "start-up: an engine that was asked to transfer and can't must not start"
LOGS = "of the class, in the process that logs: there is no instance that could count"
EMPTY = "does nothing"
#: Public methods that no decorator guards, and why none has to.
UNGUARDED = {
    "get_mem_pool_context": START,
    "register_kv_caches": START,
    "get_handshake_metadata": START,
    "set_xfer_handshake_metadata": START,
    "request_finished": "passes its arguments on to request_finished_all_groups, which is guarded",
    "get_block_ids_with_load_errors": "swaps one set for another",
    "build_kv_connector_stats": LOGS,
    "build_prom_metrics": LOGS,
    "start_load_kv": EMPTY,
    "wait_for_layer_load": EMPTY,
    "save_kv_layer": EMPTY,
    "shutdown": "the engine ends anyway, and what is wrong then is to be seen",
    "describe": "for tests and tools; vLLM doesn't know of it",
}
STUBBED = (
    "torch",
    "torch.overrides",
    "vllm",
    "vllm.distributed",
    "vllm.distributed.kv_transfer",
    "vllm.distributed.kv_transfer.kv_connector",
    "vllm.distributed.kv_transfer.kv_connector.v1",
    "vllm.distributed.kv_transfer.kv_connector.v1.base",
    "vllm.distributed.kv_transfer.kv_connector.v1.metrics",
    "vllm.v1",
    "vllm.v1.metrics",
    "vllm.v1.metrics.utils",
)
IMPORTERS = ("connector", "memfd_pool", "vllm_messages", "vllm_stats")


class Hostile:
    """Whatever is asked of it fails."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"{name}, for the test")


def methods() -> dict[str, ast.FunctionDef]:
    """The public ones, as they are written."""
    source = Path(kvferry_vllm.__path__[0], "connector.py").read_text()
    [connector] = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == "KVFerryConnector"
    ]
    defined = [node for node in connector.body if isinstance(node, ast.FunctionDef)]
    return {node.name: node for node in defined if not node.name.startswith("_")}


def is_guarded(method: ast.FunctionDef) -> bool:
    """Its outermost decorator is one of hook_timing.py's."""
    if not method.decorator_list:
        return False
    outermost = method.decorator_list[0]
    return (
        isinstance(outermost, ast.Call)
        and isinstance(outermost.func, ast.Name)
        and outermost.func.id in ("hook", "guard")
    )


@contextmanager
def without_vllm() -> Iterator[Any]:
    """The connector's class, while empty classes stand for all that it takes from vLLM and torch."""
    stubs: dict[str, Any] = {}
    for name in STUBBED:
        stubs[name] = ModuleType(name)
        stubs[name].__getattr__ = lambda attribute: type(attribute, (), {})
    modules = [f"kvferry_vllm.{name}" for name in IMPORTERS]
    with mock.patch.dict(sys.modules, stubs):
        for name in modules:
            sys.modules.pop(name, None)
        yield importlib.import_module("kvferry_vllm.connector").KVFerryConnector


class ConnectorHooks(unittest.TestCase):
    def test_every_method_is_guarded_or_has_a_reason(self) -> None:
        unguarded = {name for name, method in methods().items() if not is_guarded(method)}
        self.assertEqual(unguarded, set(UNGUARDED))

    def test_what_is_said_to_do_nothing_does_nothing(self) -> None:
        for name, reason in UNGUARDED.items():
            if reason == EMPTY:
                [statement] = methods()[name].body
                self.assertTrue(isinstance(statement, ast.Return) and statement.value is None, name)

    def test_nothing_that_fails_leaves_a_guarded_method(self) -> None:
        with without_vllm() as connector_class:
            for name, method in methods().items():
                if not is_guarded(method):
                    continue
                with self.subTest(name):
                    connector = object.__new__(connector_class)
                    for field in ("_scheduler", "_worker", "_latest", "_connector_metadata"):
                        setattr(connector, field, Hostile())
                    connector.hook_failures, connector._is_alone = 0, True
                    getattr(connector, name)(*(Hostile() for _ in method.args.args[1:]))
                    self.assertGreaterEqual(connector.hook_failures, 1)


if __name__ == "__main__":
    unittest.main()
