"""The next step of a run, from its rows: the policy asked, the caps respected."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from capevolve.budget import Caps, Remaining, Spent, remaining_for_search
from capevolve.gate.confirm.history import count_failures
from capevolve.gate.from_spec import gate_settings
from capevolve.gate.record import read_incumbent
from capevolve.ledger.proposals import ProposalRecord, VerdictRecord, read_proposals, read_verdicts
from capevolve.ledger.runs import find_splits, read_run
from capevolve.ledger.trials import read_target_spend
from capevolve.runs import OpenRun
from capevolve.search.hill_climb import HillClimb
from capevolve.search.state import Step, build_state, find_incumbent
from capevolve.stats import summarize


def plan_next(run: OpenRun) -> Step:
    """The next iteration to make or to continue, or why the search ends."""
    policy = HillClimb(run.spec.search.max_iterations, run.spec.search.stall)
    with run.ledger.read() as connection:
        seed_id = read_run(connection, run.id).seed_candidate
        proposals = read_proposals(connection, run.id)
        verdicts = read_verdicts(connection, run.id)
        incumbent = find_incumbent(seed_id, verdicts)
        state = build_state(seed_id, proposals, verdicts, _read_val_mean(connection, run, incumbent))
    step = policy.plan_step(state)
    reason = _cap_reached(run, proposals) or _slots_used_up(run, verdicts)
    return (
        step
        if reason is None or step.iteration is None
        else replace(step, iteration=None, stop_reason=reason)
    )


def _read_val_mean(connection: Connection, run: OpenRun, candidate_id: str) -> float | None:
    """An incumbent's val mean; None unless every trial was measured: what is missing may have headroom."""
    measurement = read_incumbent(connection, run, candidate_id)
    if measurement is None:
        return None
    summary = summarize(measurement)
    return summary.mean if summary.n_missing == 0 else None


def _slots_used_up(run: OpenRun, verdicts: tuple[VerdictRecord, ...]) -> str | None:
    """Why no further candidate can be accepted, if that is so."""
    profile = gate_settings(run.spec.gate).confirm
    if profile is None or count_failures(verdicts) < profile.max_failed_confirmations:
        return None
    return f"confirmation budget exhausted: all {profile.max_failed_confirmations} slots are used up"


def _cap_reached(run: OpenRun, proposals: tuple[ProposalRecord, ...]) -> str | None:
    if run.deadline is not None and run.clock() >= run.deadline:
        return f"the cap on time is reached (budget.max_minutes: {run.spec.budget.max_minutes:g})"
    cap = run.spec.budget.max_proposer_usd
    spent = sum(proposal.cost_usd or 0.0 for proposal in proposals)
    if cap is not None and spent >= cap:
        return f"the cap on the proposer's money is reached ({spent:.4g} of {cap:.4g} USD)"
    return None


def read_remaining(run: OpenRun) -> Remaining:
    """What the search may still spend, the bill of finalize set aside."""
    return _read_remaining(run, final_calls=_count_final_calls(run))


def read_remaining_for_final(run: OpenRun) -> Remaining:
    """What finalize may spend: its calls and its time were set aside, a cap on money holds to the end."""
    return Remaining(usd=_read_remaining(run, final_calls=0).usd)


def _count_final_calls(run: OpenRun) -> int:
    with run.ledger.read() as connection:
        splits = find_splits(connection, run.id)
    return 0 if splits is None else 2 * splits.size("test") * run.spec.seal_trials()


def _read_remaining(run: OpenRun, *, final_calls: int) -> Remaining:
    budget = run.spec.budget
    with run.ledger.read() as connection:
        target = read_target_spend(connection, run.id)
        proposals = read_proposals(connection, run.id)
    proposer_usd = sum(proposal.cost_usd or 0.0 for proposal in proposals)
    spent = Spent(target.calls, target.cost_usd, proposer_usd, target.dearest_usd)
    caps = Caps(budget.max_calls, budget.max_usd, budget.max_proposer_usd)
    return remaining_for_search(caps, spent, final_calls=final_calls, deadline=run.deadline)
