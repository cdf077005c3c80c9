"""The A/A control on a real target: a copy of the seed candidate goes through the gate, once."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace

import pytest
from sqlalchemy import select, update

from capevolve.budget import Remaining
from capevolve.canonical import canonical_json
from capevolve.errors import BudgetExhaustedError, LedgerError, TamperError, UserError
from capevolve.evaluate import EvaluationRequest, evaluate
from capevolve.gate.confirm.history import count_failures
from capevolve.gate.confirm.seeds import AA, fresh_seed
from capevolve.gate.control import EVENT, Control, describe_noise, find_control, refuse_noise, run_control
from capevolve.gate.record import read_incumbent, read_past
from capevolve.ledger import schema
from capevolve.ledger.evaluations import list_evaluations
from capevolve.ledger.events import read_events
from capevolve.ledger.proposals import read_verdicts
from capevolve.ledger.runs import read_run
from capevolve.model import Decision, Verdict
from capevolve.start import start_run
from capevolve.verify.run import verify_run

# In the session of the baseline, whose seeds are small, other tasks pass than in every later one. That is what
# a day's luck, or a provider that changes its model, does to a target.
ADAPTER = """
import os
from capevolve import Adapter as Base, Rollout, Score, Task

BASE, FRESH = {base}, {fresh}

class Adapter(Base):
    def tasks(self, split):
        return [Task(id=f"t{{i:02d}}", input=i) for i in range(12)]

    def run_target(self, task, ctx, *, seed):
        fd = os.open(os.environ["TARGET_CALLS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, f"{{task.id}} {{seed}}\\n".encode())
        os.close(fd)
        return Rollout(task_id=task.id, output=task.input % 12 in (BASE if seed < 1000 else FRESH))

    def score(self, task, rollout):
        return Score(task_id=task.id, reward=float(rollout.output))
"""
SPLITS = {
    "ids": {"train": ["t00"], "val": [f"t{i:02d}" for i in range(2, 11)], "test": ["t01", "t11"]},
}


@pytest.fixture
def make(make_project):
    """Makes a project whose val tasks are 2 to 10; `base` and `fresh` pass then and later."""

    def build(base, fresh, trials: int = 1, at_once: int = 1, **gate):
        spec = {
            "splits": SPLITS,
            "evaluation": {"num_trials": trials, "concurrency": at_once, "retries": 0, "timeout_s": 20},
            "gate": gate,
        }
        return make_project(ADAPTER.format(base=set(base), fresh=set(fresh)), spec)

    return build


async def measure_baseline(run) -> None:
    started = await start_run(run)
    await evaluate(run, EvaluationRequest(started.record.seed_candidate, "val"))


def control_of(project, run_id: str = "r1", **options) -> Control:
    async def go(run) -> Control:
        await measure_baseline(run)
        return await run_control(run, **options)

    with project.driven(run_id) as run:
        return asyncio.run(go(run))


HALF = [2, 4, 6, 8]
LUCKY = [2, 4, 6, 8, 3, 5]
WIDE = {"screen_p": 1.0, "race_kill_p": 1.0, "peek_frac": 1.0}
"""Every candidate comes to its first look."""


def test_a_lenient_gate_that_accepts_the_copy_is_refused_with_the_noise_floor(make):
    project = make(HALF, LUCKY, mode="strict")
    control = control_of(project)
    assert control.verdict.decision is Decision.ACCEPT
    assert not control.passed
    with pytest.raises(UserError) as caught:
        refuse_noise(control)
    said = str(caught.value)
    assert "the gate accepted a byte-identical copy of the seed candidate" in said
    # 2 of 9 tasks moved by 1: mean 2/9, standard error sqrt((2/9 * 7/9) / 8).
    assert "the copy differs from the seed candidate by +0.222 ± 0.147 on val" in said
    assert caught.value.where == "gate, aa_control"
    assert "gate: confirm" in (caught.value.fix or "")
    calls = project.calls()
    assert len(calls) == 18
    assert Counter(call.split()[1] for call in calls) == {"0": 9, str(fresh_seed(0, AA, "control")): 9}


def test_the_same_luck_does_not_pass_mode_confirm(make):
    """Race and screen are won by it; both arms of a look share it. No stage has seeds of the baseline."""
    project = make(HALF, LUCKY, confirm=WIDE)
    control = control_of(project)
    assert control.verdict.decision is Decision.REJECT
    assert [stage.stage for stage in control.verdict.stages] == ["race", "screen", "look-1"]
    assert control.verdict.delta == 0.0
    refuse_noise(control)
    seeds = {name: fresh_seed(0, AA, name) for name in ("race", "screen", "look-1")}
    assert [stage.base_seed for stage in control.verdict.stages] == list(seeds.values())
    assert Counter(int(call.split()[1]) for call in project.calls()) == {
        0: 9, seeds["race"]: 5, seeds["screen"]: 4, seeds["look-1"]: 18,
    }  # fmt: skip


def test_a_gate_that_is_not_taken_in_passes_and_says_how_large_the_noise_is(make):
    project = make(HALF, [2, 4, 6, 9], mode="paired")
    control = control_of(project)
    assert (control.verdict.decision, control.regressions) == (Decision.REJECT, ())
    refuse_noise(control)
    said = describe_noise(control)
    # One task of nine better and one worse: standard error sqrt(2 / 9 / 8).
    assert said.startswith("Noise floor: the copy differs from the seed candidate by +0.000 ± 0.167 on val; ")
    assert said.endswith(f"reject: {control.verdict.reason}.")


@pytest.mark.both_ledgers
def test_a_stable_target_has_no_floor_and_breaks_nothing(make, backend):
    """Nothing varies from trial to trial, so a copy that broke a task would be the gate's own fault."""
    project = make(HALF, HALF, trials=5, mode="strict", no_regression=True)
    control = control_of(project)
    assert (control.verdict.decision, control.verdict.delta) == (Decision.REJECT, 0.0)
    assert control.regressions == ()
    assert control.passed
    with project.driven() as run, run.ledger.read() as connection:
        assert find_control(connection, run.id) == control


def test_a_veto_of_the_copy_is_refused_with_the_tasks_it_broke_although_the_gate_rejected_it(make):
    project = make(HALF, [2, 4, 6], trials=5, mode="strict", no_regression=True)
    control = control_of(project)
    assert control.verdict.decision is Decision.REJECT
    assert control.regressions == ("t08",)
    assert not control.passed
    with pytest.raises(UserError, match="the gate vetoed a byte-identical copy") as caught:
        refuse_noise(control)
    assert "It broke t08." in str(caught.value)


def test_without_no_regression_a_broken_task_is_no_veto(make):
    control = control_of(make(HALF, [2, 4, 6], trials=5, mode="strict"))
    assert control.passed
    assert control.regressions == ()


def test_in_mode_confirm_a_task_that_the_copy_broke_is_a_veto_although_the_gate_rejected_it(make):
    """One trial in race or screen and four in look-1: enough to show that task 8 of 9 broke."""
    project = make(HALF, [2, 4, 6, 3], trials=4, no_regression=True, confirm=WIDE)
    control = control_of(project)
    assert control.verdict.decision is not Decision.ACCEPT
    assert control.regressions == ("t08",)


def test_asked_again_it_reads_what_came_of_it_and_calls_nobody(make):
    project = make(HALF, LUCKY, mode="strict")
    first = control_of(project)
    calls = len(project.calls())
    assert control_of(project) == first
    assert len(project.calls()) == calls
    with project.driven() as run, run.ledger.read() as connection:
        (event,) = read_events(connection, run.id, "aa_control")
        assert event.payload["verdict"]["decision"] == "accept"


class PowerCutError(Exception):
    pass


@pytest.mark.parametrize(
    ("point", "occurrence", "in_flight"),
    [("evaluate.after_commit", 2, 2), ("gate.measured", 3, 0)],
)
def test_cut_in_the_middle_it_goes_on_where_it_was(make, hook, point: str, occurrence: int, in_flight: int):
    project = make(HALF, LUCKY, at_once=2, confirm=WIDE)
    with project.driven() as run:
        asyncio.run(measure_baseline(run))
    reached: Counter[str] = Counter()

    def cut(name):
        reached[name] += 1
        if (name, reached[name]) == (point, occurrence):
            raise PowerCutError(name)

    hook(cut)
    with project.driven() as run, pytest.raises(PowerCutError):
        asyncio.run(run_control(run))
    hook(lambda name: None)
    with project.driven() as run, run.ledger.read() as connection:
        assert find_control(connection, run.id) is None
    control = control_of(project)
    assert [stage.stage for stage in control.verdict.stages] == ["race", "screen", "look-1"]
    assert 36 <= len(project.calls()) <= 36 + in_flight
    assert max(Counter(project.calls()).values()) <= 2 + (in_flight > 0)


def test_a_cap_stops_it_and_once_raised_it_goes_on(make):
    project = make(HALF, LUCKY, confirm=WIDE)
    left = iter([Remaining(calls=5), Remaining(calls=2)])
    with pytest.raises(BudgetExhaustedError):
        control_of(project, remaining=lambda: next(left))
    assert len(project.calls()) == 9 + 5 + 2
    assert control_of(project).passed
    assert len(project.calls()) == 36


def test_without_a_baseline_there_is_nothing_to_compare_the_copy_with(make):
    project = make(HALF, LUCKY, mode="strict")
    with project.driven() as run:
        asyncio.run(start_run(run))
        with pytest.raises(LedgerError, match="incumbent's val evaluation"):
            asyncio.run(run_control(run))
    assert project.calls() == []


def test_the_control_leaves_no_trace_in_the_search(make):
    """Its trials join no record, and what it lost is no slot of the run."""
    project = make(HALF, LUCKY, confirm=WIDE)
    with project.driven() as run:
        asyncio.run(measure_baseline(run))
        with run.ledger.read() as connection:
            seed = read_run(connection, run.id).seed_candidate
            before = read_incumbent(connection, run, seed)
    control_of(project)
    with project.driven() as run, run.ledger.read() as connection:
        assert read_incumbent(connection, run, seed) == before
        assert read_verdicts(connection, run.id) == ()
        assert count_failures(read_past(connection, run).verdicts) == 0
        tags = {e.key.tag for e in list_evaluations(connection, run.id)}
    assert tags == {
        "", "race/candidate/aa", "screen/candidate/aa", "look-1/candidate/aa", "look-1/incumbent/aa",
    }  # fmt: skip


# --- verified --------------------------------------------------------------------------------------


def edit_event(project, edit) -> None:
    """Edits the stored control, as somebody would who wants it to have passed."""
    with project.driven() as run, run.ledger.write() as connection:
        rows = schema.events
        kept = rows.c.kind == EVENT
        payload = json.loads(connection.execute(select(rows.c.payload).where(kept)).scalar_one())
        edit(payload)
        connection.execute(update(rows).where(kept).values(payload=canonical_json(payload)))


def verify(project) -> tuple[str, ...]:
    with project.driven() as run, run.ledger.read() as connection:
        return verify_run(connection, run.id).checked


@pytest.mark.parametrize("gate", [{"mode": "strict"}, {"confirm": WIDE}])
def test_a_control_is_judged_again_by_verify(make, gate):
    project = make(HALF, LUCKY, no_regression=True, **gate)
    control_of(project)
    assert "the A/A control" in verify(project)
    edit_event(project, lambda payload: payload.pop("settings"))
    if "mode" in gate:
        assert "the A/A control" in verify(project), "one of before its settings were kept"


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda payload: payload["verdict"].update(decision="reject"), "decision"),
        (lambda payload: payload["verdict"].update(delta=0.0), "delta"),
        (lambda payload: payload.update(regressions=["t02"]), "regressions"),
        (lambda payload: payload["settings"].update(mode="paired"), "mode"),
    ],
)
def test_an_edited_control_is_named(make, edit, named):
    project = make(HALF, LUCKY, mode="strict")
    control_of(project)
    edit_event(project, edit)
    with pytest.raises(TamperError, match=named) as caught:
        verify(project)
    assert "table events" in (caught.value.where or "")


def test_without_a_control_there_is_none_to_verify(make):
    project = make(HALF, LUCKY, mode="strict")
    with project.driven() as run:
        asyncio.run(measure_baseline(run))
    assert "the A/A control" not in verify(project)


# --- in words -------------------------------------------------------------------------------------

VERDICT = Verdict(Decision.REJECT, "strict", "no gain", 0.0125, 0.25, None, None, 4, 1, 1, 2)


def test_a_floor_that_is_undefined_is_called_that_with_the_reason():
    for missing in ({"delta": None}, {"se": None}):
        said = describe_noise(Control(replace(VERDICT, **missing), ()))
        assert said == "Noise floor: undefined (no gain)."


def test_many_broken_tasks_are_named_by_the_first_five():
    said = describe_noise(Control(VERDICT, tuple(f"t{i}" for i in range(9))))
    assert "+0.013 ± 0.250" in said or "+0.012 ± 0.250" in said
    assert said.endswith("It broke t0, t1, t2, t3, t4.")


@pytest.mark.parametrize(
    ("decision", "regressions", "passed"),
    [
        (Decision.REJECT, (), True),
        (Decision.INDECISIVE, (), True),
        (Decision.ACCEPT, (), False),
        (Decision.REJECT, ("t1",), False),
        (Decision.ACCEPT, ("t1",), False),
    ],
)
def test_a_control_passes_when_the_copy_was_neither_accepted_nor_vetoed(decision, regressions, passed):
    control = Control(replace(VERDICT, decision=decision), regressions)
    assert control.passed is passed
    if passed:
        refuse_noise(control)
    else:
        with pytest.raises(UserError, match="accepted" if decision is Decision.ACCEPT else "vetoed"):
            refuse_noise(control)
