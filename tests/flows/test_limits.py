"""A deployment's limit on calls, kept by a real Prefect API."""

from __future__ import annotations

import asyncio

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate

from capevolve.errors import UserError
from capevolve_flows.optimize import optimize
from capevolve_tasks import limits


async def create_limit(name, limit, decay):
    async with get_client() as client:
        await client.create_global_concurrency_limit(
            GlobalConcurrencyLimitCreate(name=name, limit=limit, slot_decay_per_second=decay)
        )


def test_every_call_of_a_run_takes_a_slot_of_the_named_limit_and_a_missing_one_is_refused_before_any_call(
    make_project, monkeypatch
):
    taken = []
    ask = limits.rate_limit

    async def note(name, occupy, strict):
        assert len(project.calls()) <= sum(taken)
        await ask(name, occupy=occupy, strict=strict)
        taken.append(occupy)

    monkeypatch.setattr(limits, "rate_limit", note)
    spec = {"evaluation": {"num_trials": 1, "concurrency": 2, "timeout_s": 20, "prefect_limit": "provider"}}
    project = make_project(spec=spec)
    with pytest.raises(UserError) as caught:
        asyncio.run(optimize(str(project.root), "r1"))
    assert "prefect gcl create provider --limit 60 --slot-decay-per-second 1" in str(caught.value)
    assert project.calls() == []

    asyncio.run(create_limit("provider", 10, 0.0))
    with pytest.raises(UserError, match="no slot decay"):
        asyncio.run(optimize(str(project.root), "r1"))

    async def repair():
        async with get_client() as client:
            await client.upsert_global_concurrency_limit_by_name("provider", 10, 20.0)

    asyncio.run(repair())
    asyncio.run(optimize(str(project.root), "r1"))
    assert len(project.calls()) == sum(taken) > 0
