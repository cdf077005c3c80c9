"""The stages of a confirmation judged: race, screen, peek, looks. Pure, from evidence to the next step.

Race and screen compare the candidate's single trials with the incumbent's record. They can only reject, so
they spend no alpha. A look compares trials that were made for it, both arms interleaved, and nothing else:
whatever selected the candidate, its earlier luck does not enter. The first look begins with a part of the
tasks, the peek, which can only reject too. It uses the slot all the same: who passes the peek is likelier to
pass the looks, so whom it rejects had a chance of that slot.
"""

from __future__ import annotations

from dataclasses import dataclass

from capevolve.gate.confirm.case import Ask, Case, StageEvidence, join_measurements, plan_stages
from capevolve.gate.confirm.seeds import PEEK, RACE
from capevolve.gate.evidence import (
    Doubt,
    find_asymmetry,
    find_flat,
    find_shortage,
    find_unusable,
    gather,
    refuse_split,
)
from capevolve.gate.regression import apply_veto, find_regressions
from capevolve.gate.settings import GateSettings
from capevolve.gate.verdicts import abstain, conclude, describe
from capevolve.model import Decision, Measurement, StageVerdict, Verdict
from capevolve.stats import Comparison, PValue, exceeds, within_task_permutation


def advance(case: Case, settings: GateSettings) -> Ask | Verdict:
    """Returns what a confirmation needs next, or its verdict.

    Args:
        case: The candidate, the incumbent's record, and what was measured so far.
        settings: The gate's; `min_coverage` and `no_regression` hold here too.

    Returns:
        The first stage without evidence, or the verdict of the first stage that decided.

    Raises:
        TrainGateError: A measurement is not of val.
    """
    profile = case.profile
    if case.failures >= profile.max_failed_confirmations:
        slots = profile.max_failed_confirmations
        reason = f"confirmation budget exhausted: {case.failures} of {slots} slots are used up"
        return conclude(Decision.REJECT, "budget", reason, None, None, ())
    refuse_split(case.record, "incumbent")
    known = {evidence.stage: evidence for evidence in case.evidence}
    trail = _Trail(case, settings)
    for ask in plan_stages(case):
        evidence = known.get(ask.stage)
        if evidence is None:
            return ask
        refuse_split(evidence.candidate, "candidate")
        verdict = trail.judge(ask, evidence)
        if verdict is not None:
            return verdict
    raise AssertionError("the last look always decides")


def used_slot(verdict: Verdict) -> bool:
    """Whether a confirmation's slot is used up: a p-value of peek or look was computed, nothing accepted."""
    looked = any(stage.slot is not None and stage.p_value is not None for stage in verdict.stages)
    return looked and verdict.decision is not Decision.ACCEPT


@dataclass(slots=True)
class _Trail:
    """The stages judged so far."""

    case: Case
    settings: GateSettings
    stages: tuple[StageVerdict, ...] = ()
    screened: tuple[Measurement, ...] = ()
    fresh: tuple[tuple[Measurement, Measurement], ...] = ()

    def judge(self, ask: Ask, evidence: StageEvidence) -> Verdict | None:
        """Judges a stage; None goes on to the next one."""
        if not ask.both:
            return self.screen(ask, evidence)
        return self.peek(ask, evidence) if ask.stage == PEEK else self.look(ask, evidence)

    def screen(self, ask: Ask, evidence: StageEvidence) -> Verdict | None:
        """Judges race or screen; None lets the candidate go on."""
        limit = self.case.profile.race_kill_p if ask.stage == RACE else self.case.profile.screen_p
        self.screened += (evidence.candidate,)
        asked = {task.task_id for measurement in self.screened for task in measurement.tasks}
        ids = [task.task_id for task in self.case.record.tasks if task.task_id in asked]
        mine = join_measurements(self.screened, ids)
        theirs = join_measurements([self.case.record], ids)
        doubt, found, p = self._weigh(mine, theirs, self.case.record)
        self._note(ask, evidence, p, limit, None)
        if doubt is not None:
            return self._abstain(doubt, found)
        value = 1.0 if p is None else p.value
        if found is None or not exceeds(value, limit, limit):
            return None
        reason = f"p {value:.3f} of its {ask.stage} is above {limit:.2f}: {describe(found)}, one trial each"
        return conclude(Decision.REJECT, ask.stage, reason, found, value, self.stages)

    def peek(self, ask: Ask, evidence: StageEvidence) -> Verdict | None:
        """Judges the first look's trials on a part of the tasks; None lets it go on, as any doubt does."""
        limit = self.case.profile.peek_p
        mine, theirs = self._join_fresh(evidence)
        doubt, found, p = self._weigh(mine, theirs, theirs)
        self._note(ask, evidence, p, limit, None)
        if doubt is not None or found is None or p is None or not exceeds(p.value, limit, limit):
            return None
        reason = (
            f"not confirmed in its {ask.stage}: p {p.value:.2g} is above {limit:.2g}, too far off to go on; "
            f"{self._describe_fresh(mine, found)}"
        )
        return conclude(Decision.REJECT, "confirm", reason, found, p.value, self.stages)

    def look(self, ask: Ask, evidence: StageEvidence) -> Verdict | None:
        """Judges all fresh trials so far; None asks for the next look."""
        profile = self.case.profile
        number = sum(stage.accept_at is not None for stage in self.stages)
        last = number == len(profile.looks) - 1
        accept_at = profile.limits[number]
        reject_above = accept_at if last else profile.look_futility[number]
        mine, theirs = self._join_fresh(evidence)
        doubt, found, p = self._weigh(mine, theirs, theirs)
        self._note(ask, evidence, p, reject_above, accept_at)
        if doubt is not None:
            return self._abstain(doubt, found)
        if found is None or p is None:
            raise AssertionError("evidence without doubt has a p-value")
        words = self._describe_fresh(mine, found)
        is_within = not exceeds(p.value, accept_at, accept_at)
        # At a level of about one half a p-value alone would let a candidate through that is no better.
        if is_within and exceeds(found.mean or 0.0, 0.0, 1.0):
            reason = f"confirmed in {ask.stage}: p {p.value:.2g} is within {accept_at:.2g}; {words}"
            verdict = conclude(Decision.ACCEPT, "confirm", reason, found, p.value, self.stages)
            return apply_veto(verdict, find_regressions(found)) if self.settings.no_regression else verdict
        if not last and not exceeds(p.value, reject_above, reject_above):
            return None
        why = f"above {reject_above:.2g}" if last else f"above {reject_above:.2g}, too far off to go on"
        if last and is_within:
            why = f"within {accept_at:.2g}, and the candidate is not better"
        reason = f"not confirmed in {ask.stage}: p {p.value:.2g} is {why}; {words}"
        return conclude(Decision.REJECT, "confirm", reason, found, p.value, self.stages)

    def _join_fresh(self, evidence: StageEvidence) -> tuple[Measurement, Measurement]:
        """Both arms' fresh trials so far, over the tasks that were asked."""
        if evidence.incumbent is None:
            raise AssertionError("peek and look measure both arms")
        self.fresh += ((evidence.candidate, evidence.incumbent),)
        ids = [task.task_id for task in self.case.record.tasks]
        mine, theirs = zip(*self.fresh, strict=True)
        return join_measurements(mine, ids), join_measurements(theirs, ids)

    def _describe_fresh(self, mine: Measurement, found: Comparison) -> str:
        profile = self.case.profile
        return (
            f"{found.mean or 0.0:+.3f} over {describe(found)} with {mine.num_trials} fresh trials each, "
            f"slot {self._slot} of {profile.max_failed_confirmations} at alpha {profile.alpha:.3g}"
        )

    @property
    def _slot(self) -> int:
        return self.case.failures + 1

    def _weigh(
        self, mine: Measurement, theirs: Measurement, reference: Measurement
    ) -> tuple[Doubt | None, Comparison | None, PValue | None]:
        least = self.settings.min_coverage
        doubt = find_unusable(mine, "candidate", least) or find_unusable(theirs, "incumbent", least)
        if doubt is not None:
            return doubt, None, None
        found = gather(mine, theirs).comparison
        doubt = find_asymmetry(mine, theirs) or find_shortage(found) or find_flat(mine, reference)
        if doubt is not None:
            return doubt, found, None
        return None, found, within_task_permutation(found.arms)

    def _note(
        self,
        ask: Ask,
        evidence: StageEvidence,
        p: PValue | None,
        reject_above: float,
        accept_at: float | None,
    ) -> None:
        theirs = evidence.incumbent
        stage = StageVerdict(
            stage=ask.stage,
            p_value=None if p is None else p.value,
            reject_above=reject_above,
            accept_at=accept_at,
            slot=self._slot if ask.both else None,
            alpha=self.case.profile.alpha if ask.both else None,
            num_trials=ask.num_trials,
            base_seed=ask.base_seed,
            candidate_evaluation=evidence.candidate.evaluation_id,
            incumbent_evaluation=None if theirs is None else theirs.evaluation_id,
            task_ids=tuple(sorted(ask.task_ids)) if ask.both and ask.task_ids else None,
        )
        self.stages += (stage,)

    def _abstain(self, doubt: Doubt, found: Comparison | None) -> Verdict:
        return abstain(doubt, found, self.stages)
