"""A trial that hangs ends within its limit and grace, with all that it started; nobody else pays."""

from __future__ import annotations

import json

import pytest

from capevolve.model import Reason, Scored

_LIMITS = {"timeout_s": 0.3, "grace_s": 0.2}


def _is_timeout(reply) -> bool:
    return getattr(reply.outcome, "reason", None) is Reason.TIMEOUT


_HANGS = [
    "time.sleep(600)",
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)",
    "ctypes.PyDLL(None).sleep(600)",  # holds the interpreter's lock: no Python code runs in that process
    "[0 for _ in iter(int, 1)]",
    "signal.signal(signal.SIGUSR2, lambda *_: None); time.sleep(600)",
]


def test_hung_trials_of_every_kind_are_timeouts_and_the_next_ones_run(project) -> None:
    acts = "\n".join(f"                if task.input == {place}: {hang}" for place, hang in enumerate(_HANGS))
    replies = project.run(
        f"""
        import ctypes, signal
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
{acts}
                return Rollout(task.id)
        """,
        range(12),
        slots=5,
        **_LIMITS,
    )
    for number in range(5):
        assert _is_timeout(replies[number])
        assert 0.5 <= replies[number].duration_s < 5
        assert "limit of 0.3 s" in replies[number].outcome.detail
    assert [replies[n].outcome for n in range(5, 12)] == [Scored(1.0)] * 7
    assert {reply.starts for reply in replies.values()} == {1}


def test_a_timeout_shows_where_it_hung(project) -> None:
    reply = project.run(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                self.wait_for_the_model()
            def wait_for_the_model(self):
                time.sleep(600)
        """,
        **_LIMITS,
    )[0]
    assert "in wait_for_the_model" in json.loads(reply.payload)["host_output"]


def test_grandchildren_die_with_a_hung_trial_even_daemons(project, living) -> None:
    reply = project.run(
        """
        import subprocess
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                subprocess.Popen(["sleep", "611"])
                subprocess.Popen(["sleep", "612"], start_new_session=True)
                subprocess.run(["sh", "-c", "setsid sh -c 'trap \\"\\" TERM; sleep 613 & sleep 614' &"])
                open("started", "w").close()
                time.sleep(600)
        """,
        **_LIMITS,
    )[0]
    assert (project.root / "started").exists()
    assert _is_timeout(reply)
    assert living() == []


def test_a_slow_trial_that_ends_within_the_grace_is_a_timeout_and_its_host_lives_on(project) -> None:
    replies = project.run(
        """
        import os
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                if task.input == 0:
                    time.sleep(0.35)
                return Rollout(task.id, os.getpid(), cost_usd=1.0)
        """,
        range(2),
        timeout_s=0.3,
        grace_s=5.0,
    )
    assert (_is_timeout(replies[0]), replies[0].cost_usd) == (True, 1.0)
    assert replies[1].outcome == Scored(1.0)
    pids = {json.loads(reply.payload)["output"] for reply in replies.values()}
    assert len(pids) == 1


def test_a_hung_score_is_a_timeout_too(project) -> None:
    replies = project.run(
        """
        class Adapter(Plain):
            def score(self, task, rollout):
                time.sleep(600 if task.input == 0 else 0)
                return Score(task.id, 1.0)
        """,
        range(2),
        **_LIMITS,
    )
    assert (_is_timeout(replies[0]), replies[1].outcome) == (True, Scored(1.0))


def test_a_hung_coroutine_is_cancelled_and_may_clean_up(project) -> None:
    replies = project.run(
        """
        import asyncio
        class Adapter(Plain):
            async def run_target(self, task, ctx, *, seed):
                try:
                    await asyncio.sleep(600 if task.input == 1 else 0.01)
                finally:
                    if task.input == 1:
                        open("cleaned", "w").close()
                return Rollout(task.id, os.getpid())
        """,
        range(4),
        slots=2,
        trials_per_host=2,
        **_LIMITS,
    )
    assert _is_timeout(replies[1])
    assert replies[1].duration_s < 0.6
    assert (project.root / "cleaned").exists()
    assert [replies[n].outcome for n in (0, 2, 3)] == [Scored(1.0)] * 3
    assert len({json.loads(replies[n].payload)["output"] for n in (0, 2, 3)}) == 1


_STUBBORN = {
    "coroutine that swallows its cancellation": """
        import asyncio
        class Adapter(Plain):
            async def run_target(self, task, ctx, *, seed):
                while task.input == 1:
                    try:
                        await asyncio.sleep(600)
                    except asyncio.CancelledError:
                        pass
                await asyncio.sleep(0.8 if task.input == 0 else 0)  # ends after the stubborn one was given up
                return Rollout(task.id)
        """,
    "thread": """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                time.sleep({0: 0.8, 1: 600}.get(task.input, 0))
                return Rollout(task.id)
        """,
}


@pytest.mark.parametrize("kind", _STUBBORN)
def test_siblings_of_a_hung_trial_finish_in_their_own_time(project, kind: str) -> None:
    """Trial 0 would be lost if the host were killed when trial 1 is over its limit."""
    replies = project.run(
        _STUBBORN[kind].replace("0.8", "0.45"),
        range(6),
        slots=2,
        trials_per_host=2,
        timeout_s=0.5,
        grace_s=0.0,
    )
    assert _is_timeout(replies[1])
    assert [replies[n].outcome for n in (0, 2, 3, 4, 5)] == [Scored(1.0)] * 5
    assert {reply.starts for reply in replies.values()} == {1}


def test_a_late_sibling_outlives_the_hung_trial_of_a_draining_host(project) -> None:
    """Trial 2 starts when 0 ends and is still running when 1 is given up; its host must wait for it."""
    replies = project.run(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                time.sleep({0: 0.35, 1: 600, 2: 0.4}.get(task.input, 0))
                return Rollout(task.id)
        """,
        range(4),
        slots=2,
        trials_per_host=2,
        timeout_s=0.5,
        grace_s=0.0,
    )
    assert _is_timeout(replies[1])
    assert [replies[n].outcome for n in (0, 2, 3)] == [Scored(1.0)] * 3
    assert replies[2].starts == 1


@pytest.mark.parametrize(
    ("kind", "hang"),
    [("def", "ctypes.PyDLL(None).sleep(600)"), ("async def", "time.sleep(600)")],
    ids=["the lock is held", "the event loop is blocked"],
)
def test_where_nothing_runs_any_more_each_suspect_runs_again_alone(
    project, monkeypatch, kind: str, hang: str
) -> None:
    monkeypatch.setattr("capevolve.adapters.seat.MARGIN_S", 0.3)
    replies = project.run(
        f"""
        import asyncio, ctypes
        class Adapter(Plain):
            {kind} run_target(self, task, ctx, *, seed):
                if task.input == 1:
                    time.sleep(0.1)  # the others have started
                    {hang}
                {"await asyncio.sleep(0.2)" if kind != "def" else "time.sleep(0.2)"}
                return Rollout(task.id)
        """,
        range(4),
        slots=3,
        trials_per_host=3,
        timeout_s=0.5,
        grace_s=0.0,
        prefetch=False,
    )
    assert _is_timeout(replies[1])
    assert [replies[n].outcome for n in (0, 2, 3)] == [Scored(1.0)] * 3
    assert [replies[n].starts for n in (0, 1, 2)] == [2, 2, 2]


def test_requests_that_wait_behind_a_slow_trial_are_called_back(project) -> None:
    """One host hangs with requests queued in it; the other one runs them long before the limit."""
    replies = project.run(
        """
        class Adapter(Plain):
            def run_target(self, task, ctx, *, seed):
                if task.input == 4:
                    while not os.path.exists("all-done"):
                        time.sleep(0.01)
                    return Rollout(task.id)
                with open("count", "a") as file: file.write(".")
                if os.path.getsize("count") == 11:
                    open("all-done", "w").close()
                return Rollout(task.id)
        """,
        range(12),
        slots=2,
        timeout_s=20,
    )
    assert {reply.outcome for reply in replies.values()} == {Scored(1.0)}
    assert {reply.starts for reply in replies.values()} == {1}
