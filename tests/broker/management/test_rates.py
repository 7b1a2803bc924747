"""Rates: told from totals that are looked at now and then."""

from __future__ import annotations

import pytest

from amqpforge.broker.management import WINDOWS, Sampler
from tests.broker.amqp_1_0.ground import Ground, a_ground


def sampled(*queues: str) -> tuple[Ground, Sampler]:
    ground = a_ground(*queues)
    sampler = Sampler(ground.clock, lambda: ground.hosts)
    sampler.start()
    return ground, sampler


def test_a_steady_flow_has_the_same_rate_in_all_windows() -> None:
    ground, sampler = sampled("q")
    queue = ground.host.queue("q")
    for _ in range(1300):
        queue.counters.published += 50
        queue.counters.delivered += 20
        ground.clock.advance(1.0)
    told = sampler.rates_of(queue)
    assert list(told) == [f"{window}s" for window in WINDOWS]
    for rates in told.values():
        assert rates == {"published": 50.0, "delivered": 20.0, "accepted": 0.0}


def test_a_burst_is_forgotten_soon_in_the_short_window_and_late_in_the_long_one() -> None:
    ground, sampler = sampled("q")
    queue = ground.host.queue("q")
    ground.clock.advance(1000.0)
    queue.counters.published += 600
    ground.clock.advance(5.0)
    assert sampler.rates_of(queue)["10s"]["published"] > 20
    ground.clock.advance(40.0)
    told = sampler.rates_of(queue)
    assert told["10s"]["published"] == 0.0
    assert 0.0 < told["600s"]["published"] < 10.0


def test_exchanges_and_virtual_hosts_have_rates_too() -> None:
    ground, sampler = sampled("q", "r")
    ground.clock.advance(20.0)
    for name in ("q", "r"):
        ground.host.queue(name).counters.published += 100
    exchange = ground.host.wiring.exchanges["amq.topic"]
    exchange.incoming += 30
    assert sampler.rates_of(exchange)["10s"]["incoming"] > 0
    host = sampler.rates_of_host(ground.host, (200, 0, 0))
    assert host["10s"]["published"] == 2 * sampler.rates_of(ground.host.queue("q"))["10s"]["published"]
    # Queues that are deleted take their totals with them: that is no negative rate.
    ground.clock.advance(30.0)
    assert sampler.rates_of_host(ground.host, (0, 0, 0))["10s"]["published"] == 0.0


def test_what_is_new_counts_from_nothing_and_what_is_gone_is_forgotten() -> None:
    ground, sampler = sampled()
    ground.admin.declare_queue("q")
    queue = ground.host.queue("q")
    assert sampler.rates_of(queue)["10s"]["published"] == 0.0
    queue.counters.published += 100
    assert sampler.rates_of(queue)["10s"]["published"] == 10.0
    ground.clock.advance(5.0)
    assert queue in sampler._tracks
    ground.admin.delete_queue("q")
    ground.clock.advance(10.0)
    assert queue not in sampler._tracks
    assert queue not in sampler._last


def test_of_what_is_still_nothing_is_kept_but_its_totals() -> None:
    ground, sampler = sampled("q")
    queue = ground.host.queue("q")
    assert not sampler._tracks
    queue.counters.published += 100
    ground.clock.advance(5.0)
    assert set(sampler._tracks) == {queue, ground.host}
    ground.clock.advance(1300.0)
    assert not sampler._tracks
    # An hour of silence is not a part of what follows.
    ground.clock.advance(3600.0)
    queue.counters.published += 600
    assert sampler.rates_of(queue)["600s"]["published"] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("things", [2, 1000 - 14, 1000 - 14 + 1, 2500])
def test_very_many_queues_are_looked_at_a_thousand_at_a_time(things: int) -> None:
    ground, sampler = sampled()
    for number in range(things):
        ground.admin.declare_queue(f"q{number}")
    for _ in range(3):
        ground.clock.advance(5.0)
        assert len(sampler._last) == things + 14  # Two virtual hosts, with six exchanges each.
        assert ground.clock.waiting == 1
    assert sampler.rates_of(ground.host.queue(f"q{things - 1}"))["10s"]["published"] == 0
    sampler.stop()
    assert ground.clock.waiting == 0
