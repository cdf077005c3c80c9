"""What an evaluation owes, for any rows an interrupted one may have left."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from capevolve.evaluate.plan import plan_trials
from capevolve.ledger.trials import TrialRow
from capevolve.model import Reason, Scored, TaskRef, Unmeasured

OUTCOMES = st.one_of(
    st.none(), st.floats(0, 1).map(Scored), st.sampled_from(Reason).map(lambda reason: Unmeasured(reason))
)


@st.composite
def cases(draw):
    names = draw(st.lists(st.text(max_size=3), unique=True, max_size=6))
    num_trials = draw(st.integers(1, 4))
    spots = [(name, k) for name in names for k in range(num_trials)]
    rows = []
    for name, k in draw(st.lists(st.sampled_from(spots), unique=True)) if spots else []:
        interrupted = draw(st.integers(0, 3))
        outcome = draw(OUTCOMES)
        rows.append(TrialRow(name, k, k, outcome, 1, 1, interrupted + 1, interrupted, None, None, None))
    durations = draw(st.dictionaries(st.sampled_from(names), st.floats(0.001, 100))) if names else {}
    return names, num_trials, rows, draw(st.integers(1, 4)), durations


@given(cases())
def test_every_trial_is_to_do_lost_or_finished_and_only_one_of_them(case):
    names, num_trials, rows, most, durations = case
    plan = plan_trials(
        [TaskRef(name, "") for name in names],
        rows,
        num_trials=num_trials,
        base_seed=100,
        max_interruptions=most,
        durations=durations,
    )
    todo = [(claim.task_id, claim.trial) for claim in plan.todo]
    lost = [(claim.task_id, claim.trial) for claim in plan.lost]
    finished = [(row.task_id, row.trial) for row in rows if row.outcome is not None]
    assert sorted([*todo, *lost, *finished]) == sorted((name, k) for name in names for k in range(num_trials))
    assert plan.finished == len(finished)
    assert plan.total == len(names) * num_trials

    known = {(row.task_id, row.trial): row for row in rows}
    for claim in (*plan.todo, *plan.lost):
        row = known.get((claim.task_id, claim.trial))
        assert claim.seed == 100 + claim.trial
        assert claim.fresh == (row is None)
        assert claim.interrupted == (0 if row is None else row.interrupted + 1)
    assert all(claim.interrupted < most or claim.fresh for claim in plan.todo)
    assert all(claim.interrupted >= most for claim in plan.lost)
    for claim in plan.todo:
        before = known.get((claim.task_id, claim.trial))
        assert claim.calls == (1 if before is None else before.calls + 1)
    for claim in plan.lost:
        assert claim.calls == known[claim.task_id, claim.trial].calls


@given(cases())
def test_a_longer_task_never_waits_for_a_shorter_one(case):
    names, num_trials, rows, most, durations = case
    plan = plan_trials(
        [TaskRef(name, "") for name in names],
        rows,
        num_trials=num_trials,
        base_seed=0,
        max_interruptions=most,
        durations=durations,
    )
    known = [durations.get(claim.task_id, 0.0) for claim in plan.todo]
    assert known == sorted(known, reverse=True)
