from __future__ import annotations

import pytest

from capevolve.adapters.pace import MAX_AHEAD, Pace, plan_widths


@pytest.mark.parametrize(
    ("slots", "is_async", "per_host", "widths"),
    [
        (1, False, None, (1,)),
        (8, False, None, (1,) * 8),
        (9, False, None, (3, 2, 2, 2)),
        (20, False, None, (5, 5, 5, 5)),
        (1, True, None, (1,)),
        (2, True, None, (1, 1)),
        (7, True, None, (2, 2, 2, 1)),
        (4, False, 4, (4,)),
        (5, False, 2, (2, 2, 1)),
        (5, True, 1, (1,) * 5),
    ],
)
def test_slots_are_spread_over_hosts(
    slots: int, is_async: bool, per_host: int | None, widths: tuple[int, ...]
) -> None:
    assert plan_widths(slots, is_async=is_async, cpus=4, trials_per_host=per_host) == widths


def test_no_slot_is_lost_or_invented() -> None:
    for slots in range(1, 70):
        for per_host in (None, 1, 3, 100):
            for is_async in (False, True):
                widths = plan_widths(slots, is_async=is_async, cpus=3, trials_per_host=per_host)
                assert sum(widths) == slots
                assert min(widths) >= 1
                assert per_host is None or max(widths) <= per_host


@pytest.mark.parametrize(
    ("duration", "ahead"), [(10.0, 0), (0.11, 0), (0.1, 1), (0.03, 3), (0.0001, MAX_AHEAD), (0.0, MAX_AHEAD)]
)
def test_about_a_tenth_of_a_second_of_work_waits_per_slot(duration: float, ahead: int) -> None:
    pace = Pace(enabled=True)
    for _ in range(20):
        pace.record(duration)
    assert pace.ahead == ahead


def test_nothing_waits_before_a_trial_was_seen_or_when_disabled() -> None:
    assert Pace(enabled=True).ahead == 0
    pace = Pace(enabled=False)
    pace.record(0.0)
    assert pace.ahead == 0


def test_trials_that_become_slow_end_the_sending_ahead() -> None:
    pace = Pace(enabled=True)
    for duration in [0.001] * 64 + [5.0] * 64:
        pace.record(duration)
    assert pace.ahead == 0
