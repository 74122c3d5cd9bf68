"""vLLM's configuration and ours: one of them says it, and what can't be served is refused by name."""

from __future__ import annotations

import unittest
from types import SimpleNamespace
from typing import Any

from kvferry_vllm.settings import Settings, read_settings, start_message


def vllm_config(
    extra: dict[str, Any], world_size: int = 1, revision: str | None = None, **transfer: Any
) -> Any:
    defaults = dict(
        engine_id="p0",
        kv_role="kv_producer",
        kv_load_failure_policy="recompute",
        kv_connector_extra_config=extra,
    )
    return SimpleNamespace(
        kv_transfer_config=SimpleNamespace(**{**defaults, **transfer}),
        parallel_config=SimpleNamespace(world_size=world_size),
        model_config=SimpleNamespace(model="./tiny", revision=revision),
    )


def read(extra: dict[str, Any], **transfer: Any) -> Settings:
    return read_settings(vllm_config(extra, **transfer))


class ReadSettings(unittest.TestCase):
    def test_what_vllm_knows_is_taken_from_vllm(self) -> None:
        settings = read({"sideChannel": {"port": 5600}})
        expected = {
            "connector": "pull",
            "engineId": "p0",
            "role": "producer",
            "loadFailurePolicy": "recompute",
            "sideChannel": {"port": 5600},
        }
        self.assertEqual(settings.config, expected)
        self.assertEqual(settings.model_name, "./tiny")
        message = start_message(settings, {"dtype": "float32"})
        self.assertEqual(message["caches"], {"model": "./tiny", "dtype": "float32"})

    def test_another_revision_is_another_model(self) -> None:
        # Issue 55776 upstream: two revisions pass for one model, and KV of other weights is read.
        names = [read_settings(vllm_config({}, revision=at)).model_name for at in (None, "a1", "b2")]
        self.assertEqual(names, ["./tiny", "./tiny@a1", "./tiny@b2"])
        named = vllm_config({"bridge": {"modelName": "m"}}, revision="a1")
        self.assertEqual(read_settings(named).model_name, "m")

    def test_the_extra_config_is_left_as_it_was(self) -> None:
        extra = {"bridge": {"modelName": "m"}, "engineId": "other"}
        settings = read(extra)
        self.assertEqual(extra, {"bridge": {"modelName": "m"}, "engineId": "other"})
        self.assertEqual((settings.engine_id, settings.model_name), ("other", "m"))

    def test_a_clash_is_an_error(self) -> None:
        for key, value, named in (
            ("role", "consumer", "kv_role"),
            ("role", "kv_consumer", "kv_role"),
            ("loadFailurePolicy", "fail", "kv_load_failure_policy"),
        ):
            with self.subTest(value), self.assertRaisesRegex(ValueError, named):
                read({key: value})
        self.assertEqual(read({"role": "kv_producer"}).config["role"], "producer")

    def test_the_connector_is_one_word(self) -> None:
        self.assertEqual(read({}).config["connector"], "pull")
        self.assertEqual(read({"connector": "push"}).config["connector"], "push")

    def test_supervision(self) -> None:
        supervision = read({"bridge": {"answerTimeoutMs": 1500, "restartCountMax": 0}}).supervision
        self.assertEqual((supervision.answer, supervision.restart_count_max), (1.5, 0))
        self.assertEqual(supervision.start, 60.0)

    def test_unknown_keys_of_the_bridge(self) -> None:
        with self.assertRaisesRegex(ValueError, "bridge.answerTimeout: .*answerTimeoutMs"):
            read({"bridge": {"answerTimeout": 1}})

    def test_several_ranks_are_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "ERR_KV_UNSUPPORTED.*one rank"):
            read_settings(vllm_config({}, world_size=2))


if __name__ == "__main__":
    unittest.main()
