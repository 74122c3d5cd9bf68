"""Which requests of vLLM's have a prompt that their token ids tell."""

from __future__ import annotations

import unittest
from types import SimpleNamespace
from typing import Any

from kvferry_vllm.prompt_tokens import tokens_of


def request(**changes: Any) -> Any:
    plain = dict(prompt_token_ids=[5, 6], prompt_embeds=None, mm_features=[], lora_request=None)
    return SimpleNamespace(**{**plain, **changes})


class TokensOf(unittest.TestCase):
    def test_text(self) -> None:
        self.assertEqual(tokens_of(request()), [5, 6])

    def test_more_than_text(self) -> None:
        for changes in (
            {"prompt_embeds": object()},
            {"prompt_embeds": object(), "prompt_token_ids": None},
            {"mm_features": [object()]},
            {"lora_request": object()},
        ):
            with self.subTest(changes):
                self.assertIsNone(tokens_of(request(**changes)))


if __name__ == "__main__":
    unittest.main()
