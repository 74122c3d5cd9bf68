"""What a router does, in three lines, and the prompts that all scenarios share."""

from __future__ import annotations

import itertools
import random

from checks import equal
from engines import Answer, Engine, Params

#: Less than a block, whole blocks and part blocks of 32 and of 128 tokens (one byte is one token).
LENGTHS = (1, 2, 3, 7, 20, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 150, 200, 256, 321, 500, 700, 1000, 1400)
OUTPUT_COUNT = 24
PREFILL: Params = {"do_remote_decode": True, "do_remote_prefill": False}
_ids = itertools.count()


def prompt_of(length: int, seed: int = 0) -> str:
    letters = random.Random(1_000 * seed + length)
    return "".join(letters.choice("abcdefghijklmnopqrstuvwxyz ") for _ in range(length))


class Oracle:
    """What one engine alone says: the text that every other way must give."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tokens: dict[str, list[int]] = {}

    def __call__(self, prompt: str) -> list[int]:
        if prompt not in self._tokens:
            answer = self._engine.ask(new_id("alone"), prompt, OUTPUT_COUNT)
            self._tokens[prompt] = answer.tokens
        return self._tokens[prompt]


def new_id(prefix: str) -> str:
    return f"{prefix}-{next(_ids)}"


def prefill(engine: Engine, prompt: str) -> Params:
    """The handoff of a prompt."""
    answer = engine.ask(new_id("p"), prompt, 1, dict(PREFILL))
    if answer.params is None:
        raise AssertionError(f"{engine.name} returned no handoff ({answer.reason})")
    return answer.params


def disaggregated(producer: Engine, consumer: Engine, prompt: str) -> Answer:
    return consumer.ask(new_id("d"), prompt, OUTPUT_COUNT, prefill(producer, prompt))


def expect_answers(consumer: Engine, asked: list[str], prompts: list[str], oracle: Oracle) -> None:
    """Each of these requests has the text of its prompt."""
    for request_id, prompt in zip(asked, prompts):
        equal(consumer.wait(request_id).tokens, oracle(prompt), f"tokens of {request_id}, {len(prompt)} long")
