"""A deployment's limit on calls: a Prefect global concurrency limit whose slots decay."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from prefect.client.orchestration import get_client
from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError, rate_limit
from prefect.exceptions import ObjectNotFound

from capevolve.errors import OutsideError, UserError

_WHERE = "capevolve.yaml, evaluation.prefect_limit"


def make_admit(name: str) -> Callable[[int], Awaitable[None]]:
    """Returns what waits until so many calls may begin, for every run that names the limit.

    The limit is looked up at the first call; what it returns raises what `read_size` raises.
    """
    sizes: list[int | None] = []

    async def admit(calls: int) -> None:
        if not sizes:
            sizes.append(await read_size(name))
        size = sizes[0]
        while size is not None and calls > 0:
            part = min(calls, max(1, size))  # Prefect refuses more at once than the limit
            try:
                await rate_limit(name, occupy=part, strict=True)
            except ConcurrencySlotAcquisitionError as error:
                raise OutsideError(
                    f"The Prefect limit {name!r} gives no slots: {error}.",
                    where=_WHERE,
                    fix=f"See `prefect gcl inspect {name}`, and resume the run.",
                ) from error
            calls -= part

    return admit


async def read_size(name: str) -> int | None:
    """Returns how many slots a limit has; None where it is switched off and lets everything through.

    Raises:
        UserError: It does not exist, or its slots do not decay.
    """
    create = f"prefect gcl create {name} --limit 60 --slot-decay-per-second 1"
    async with get_client() as client:
        try:
            limit = await client.read_global_concurrency_limit_by_name(name)
        except ObjectNotFound:
            raise UserError(
                f"There is no Prefect global concurrency limit {name!r}.",
                where=_WHERE,
                fix=f"Create it, here for 60 calls a minute: {create}",
            ) from None
    if not limit.active:
        return None
    if limit.slot_decay_per_second <= 0:
        raise UserError(
            f"The Prefect limit {name!r} has no slot decay: calls would take slots and never give them back.",
            where=_WHERE,
            fix=f"prefect gcl update {name} --slot-decay-per-second 1",
        )
    return int(limit.limit)
