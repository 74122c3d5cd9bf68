"""What is left of a producer and a consumer after their scenarios: no block, and counters that add up."""

from __future__ import annotations

from checks import equal
from engines import Engine, Params
from router import LENGTHS


def settled(producer: Engine, consumer: Engine, empty: list[Params]) -> tuple[Params, Params]:
    """P's and D's counters, once both have the requests and blocks of the beginning again."""
    producer.wait_until("blocks come back", lambda: producer.call("requests") == empty[0])
    equal(consumer.call("requests"), empty[1], "D's requests and blocks")
    p, d = producer.call("describe"), consumer.call("describe")
    for counters in (p, d):
        wrong = ("divergences", "hookFailures", "hostDeaths", "messagesRefused")
        equal({name: counters[name] for name in wrong}, dict.fromkeys(wrong, 0), "counters")
    return p, d


def written(producer: Engine, consumer: Engine, empty: list[Params], at_once: int) -> Params:
    """P's counters, where P WRITEs: after two rounds of all lengths, and `at_once` prompts of one beginning."""
    p, d = settled(producer, consumer, empty)
    # Prompts of which D has all but the last token in its cache are no loads.
    if not len(LENGTHS) * 2 <= d["loadsDone"] <= len(LENGTHS) * 2 + at_once:
        raise AssertionError(f"{d['loadsDone']} loads")
    equal((d["loadsFailed"], p["writesFailed"]), (0, 0), "failed")
    if p["transfersDone"] < d["loadsDone"] or p["bytesMoved"] < 10_000_000:
        raise AssertionError(f"{p['transfersDone']} WRITEs moved {p['bytesMoved']} bytes")
    return p
