"""Which waiting requests go into one call of a batch hook."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from capevolve.adapters.seat import Flight, Seat


def deal_calls(seats: Iterable[Seat], pending: deque[Flight]) -> None:
    """Gives each idle host one call."""
    for seat in seats:
        if pending and seat.ready and not (seat.alone or seat.draining or seat.flights):
            seat.give(take_call(pending, seat.width))


def take_call(pending: deque[Flight], most: int) -> list[Flight]:
    """Removes and returns the first flight with those of its call, at most so many."""
    call = pending[0].request.call
    taken = [flight for flight in pending if flight.request.call == call][:most]
    rest = [flight for flight in pending if flight not in taken]
    pending.clear()
    pending.extend(rest)
    return taken


def count_calls(flights: Iterable[Flight]) -> int:
    """Returns how many calls the flights make."""
    return len({flight.request.call for flight in flights})
