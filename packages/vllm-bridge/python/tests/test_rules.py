"""A connector's rules answer whatever the scheduler half asks: a name that one of them lacks shows in the engine only."""

import unittest

from kvferry_vllm.pull_rules import PullRules
from kvferry_vllm.push_rules import PushRules
from kvferry_vllm.rules import Rules
from kvferry_vllm.xavier_rules import XavierRules


class EveryConnectorsRules(unittest.TestCase):
    def test_answer_all_questions(self) -> None:
        asked = {name for name in vars(Rules) if not name.startswith("_")}
        self.assertIn("is_following", asked)
        for rules in (PullRules, PushRules, XavierRules):
            with self.subTest(rules=rules.__name__):
                self.assertEqual(asked - set(dir(rules)), set())


if __name__ == "__main__":
    unittest.main()
