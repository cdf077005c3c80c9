"""What a reader must know about the numbers, generated from the facts and never written by hand."""

from __future__ import annotations

from collections.abc import Iterator

from capevolve.canonical import short
from capevolve.evaluate.course import describe_course
from capevolve.model import Decision, Split
from capevolve.report.measured import MeanFacts
from capevolve.report.values import ConfirmFacts, Disclosure, FinalFacts, RunFacts
from capevolve.report.wording import (
    format_chance,
    format_number,
    format_score,
)
from capevolve.result import INDICATIVE_BELOW
from capevolve.splits.sizes import size_warnings


def disclose(facts: RunFacts) -> tuple[Disclosure, ...]:
    """Returns the disclosures of a run, banners first.

    Args:
        facts: The facts, their own disclosures left out of account.
    """
    sources = (
        _on_seal,
        _on_splits,
        _on_result,
        _on_selection,
        _on_gate,
        _on_trials,
        _on_missing,
        _on_spend,
        _on_rates,
    )
    found = [disclosure for source in sources for disclosure in source(facts)]
    unique = {disclosure.text: disclosure for disclosure in reversed(found)}
    ordered = [d for d in found if unique[d.text] is d]
    return tuple(sorted(ordered, key=lambda disclosure: not disclosure.banner))


def disclose_timeouts(count: int, limit_s: float) -> tuple[Disclosure, ...]:
    """Returns what to say of trials that scored 0 because the agent was over its limit, in seconds."""
    if not count:
        return ()
    text = (
        f"{format_number(count, 'trial')} on train and val scored 0 because the agent was over its limit "
        f"(evaluation.timeout_s: {limit_s:g}): evaluation.timeout_is: agent."
    )
    return (Disclosure("timeouts", text),)


def _on_seal(facts: RunFacts) -> Iterator[Disclosure]:
    for attempt in facts.seal.attempts:
        if attempt.number > 1:
            why = attempt.override_reason or "no reason was recorded"
            yield Disclosure(
                "override",
                f"Test was looked at again: attempt {attempt.number} of this run is look {attempt.look} at "
                f"this test set, allowed with the reason “{why}”. Whoever saw an earlier number may have "
                "acted on it.",
                banner=True,
            )
        if attempt.state == "superseded" and attempt.claimed:
            yield Disclosure(
                "superseded",
                f"Attempt {attempt.number} was dropped after {attempt.claimed} of {attempt.planned} test "
                "trials were begun.",
            )
    yield from _on_other_runs(facts)
    if facts.seal.name != "committed":
        yield from _on_unfinished(facts)


def _on_other_runs(facts: RunFacts) -> Iterator[Disclosure]:
    attempts = facts.seal.attempts
    if not attempts or facts.seal.looks <= len(attempts):
        return
    number = facts.final.attempt if facts.final is not None else attempts[-1].number
    look = next(attempt.look for attempt in attempts if attempt.number == number)
    yield Disclosure(
        "looks",
        f"This is look {look} at this test set; all runs of this ledger together took {facts.seal.looks}. "
        "Each look that informs a choice moves the number from an estimate towards a fit.",
        banner=look > number,
    )


def _on_unfinished(facts: RunFacts) -> Iterator[Disclosure]:
    if facts.final is not None:
        last = facts.seal.attempts[-1]
        text = (
            f"A further attempt at test is open ({last.claimed} of {last.planned} trials begun); the result "
            f"below is that of attempt {facts.final.attempt}."
        )
    elif facts.seal.attempts:
        last = facts.seal.attempts[-1]
        text = (
            f"Not finalised: an attempt at test is open with {last.claimed} of {last.planned} trials begun. "
            "Finalize continues it; there is no test number yet."
        )
    else:
        text = (
            "Not finalised: this run has no test number. All numbers here are from val, which selected the "
            "candidates."
        )
    yield Disclosure("not_finalised", text, banner=facts.final is not None)


def _on_splits(facts: RunFacts) -> Iterator[Disclosure]:
    splits = facts.splits
    if not splits.holdout:
        yield Disclosure(
            "fit_metric",
            "Fit metric: test shares tasks or content with train or val. Its number says how well the run "
            "fitted tasks it had seen, not how it does on new ones.",
            banner=True,
        )
    if not splits.val_holdout:
        yield Disclosure(
            "val_seen",
            "val shares tasks or content with train: the gate judged on what the proposer has seen.",
        )
    for overlap in splits.overlaps:
        yield Disclosure(
            "overlap",
            f"{overlap.first} and {overlap.second} share {format_number(overlap.ids, 'task id')} and "
            f"{format_number(overlap.contents, 'content')}.",
        )
    sizes: dict[Split, int] = {"train": splits.train, "val": splits.val, "test": splits.test}
    for warning in (*splits.warnings, *size_warnings(sizes)):
        yield Disclosure("splits", warning)


def _on_result(facts: RunFacts) -> Iterator[Disclosure]:
    final = facts.final
    if final is None:
        return
    result = final.result
    if result.best_id == result.baseline_id:
        yield Disclosure(
            "no_change",
            "No candidate was accepted, so the best candidate is the seed candidate: delta not applicable.",
        )
    if result.best_id != facts.best_id:
        yield Disclosure(
            "outdated",
            f"The result is that of candidate {short(result.best_id)}; the search went on since, and the "
            f"incumbent is now {short(facts.best_id)}.",
            banner=True,
        )
    yield from _on_delta(final)
    if result.seal.interrupted_trials:
        yield Disclosure(
            "interrupted",
            f"{format_number(result.seal.interrupted_trials, 'test call')} had no result when a driver died. "
            "Nobody saw one: those trials ran again within the same attempt, or count as missing.",
        )


def _on_delta(final: FinalFacts) -> Iterator[Disclosure]:
    delta = final.result.test_delta
    if final.result.test_delta_reason == "not_measured":
        yield Disclosure("no_delta", "No test task was measured for both candidates: the delta is undefined.")
    if delta is None:
        if final.best.n_scored < INDICATIVE_BELOW:
            yield _indicative(final.best.n_scored)
        return
    if delta.indicative:
        yield _indicative(delta.n)
    if delta.degenerate:
        yield Disclosure(
            "degenerate",
            f"All {format_number(delta.n, 'test task')} moved by the same amount, or there is only one: the "
            "error and the interval of the delta are undefined.",
        )
    if delta.dropped:
        yield Disclosure(
            "dropped",
            f"{format_number(len(delta.dropped), 'test task')} entered no delta, for want of a reward on "
            f"both sides; {delta.n} did.",
        )


def _indicative(count: int) -> Disclosure:
    return Disclosure(
        "indicative",
        f"Only {format_number(count, 'test task')} entered the result (fewer than {INDICATIVE_BELOW}): its "
        "interval is indicative.",
    )


def _on_selection(facts: RunFacts) -> Iterator[Disclosure]:
    verdicts = [i.verdict for i in facts.iterations if i.verdict is not None]
    if verdicts and all(verdict.decision is Decision.INDECISIVE for verdict in verdicts):
        yield Disclosure(
            "indecisive",
            f"No verdict was decisive ({format_number(len(verdicts), 'verdict')}): nothing was learnt of the "
            "edits.",
        )
    if facts.accepted:
        yield Disclosure("selected", _selection_text(facts))
    elif facts.final is None:
        yield Disclosure(
            "no_accept", "No candidate was accepted so far: the incumbent is the seed candidate."
        )


def _selection_text(facts: RunFacts) -> str:
    best = facts.best_val.score if facts.best_val is not None else None
    text = "The best candidate's val mean is a selected maximum, biased upward"
    if facts.gate.confirm is not None:
        text = (
            "The best candidate's val mean rests on fresh trials and not on those that selected it; they had "
            "to turn out well to confirm it, so it is still biased upward, if less"
        )
    if best is not None:
        text += f": {format_score(best)}"
    if facts.shrinkage is not None:
        text += (
            f". Shrunk for its selection (James-Stein over {facts.shrinkage.n} candidates): "
            f"{facts.shrinkage.value:.3f} ± not estimated"
        )
    return f"{text}."


def _on_gate(facts: RunFacts) -> Iterator[Disclosure]:
    gate = facts.gate
    if gate.confirm is not None:
        yield Disclosure("gate_claim", _confirm_text(gate.confirm))
        return
    knob = {"paired": f" with k_se = {gate.k_se:g}", "significant": f" with k_se = {gate.k_se:g}"}
    name = f"Gate mode {gate.mode}{knob.get(gate.mode, '')}"
    if gate.false_accept is None:
        text = (
            f"{name}: how often an edit that changes nothing passes depends on the noise; no rate is known."
        )
    else:
        text = f"{name} is not controlled over a run: an edit that changes nothing passes "
        text += f"{format_chance(gate.false_accept)} of the time per look"
        if gate.any_false_accept is not None:
            text += (
                f"; of runs with {format_number(gate.looks, 'such candidate')}, as many as were judged here, "
                f"{format_chance(gate.any_false_accept)} accept at least one"
            )
        text += "."
    yield Disclosure("gate_cost", text)


def _confirm_text(gate: ConfirmFacts) -> str:
    return (
        "Gate mode confirm: over the whole run, the chance that any edit that changes nothing is accepted is "
        f"at most {format_chance(gate.alpha_run)}; {gate.failed} of {gate.slots} confirmations that may fail "
        "did. The claim is about these val tasks: it does not cover edits that fit them and no others, which "
        "only new tasks or the sealed test can find."
    )


def _on_trials(facts: RunFacts) -> Iterator[Disclosure]:
    single = [
        name for name, trials in (("val", facts.num_trials), ("test", facts.test_num_trials)) if trials == 1
    ]
    if single:
        yield Disclosure(
            "one_trial",
            f"One trial per task on {' and '.join(single)}: how much a task's reward varies from trial to "
            "trial is unmeasured.",
        )


def _on_missing(facts: RunFacts) -> Iterator[Disclosure]:
    seen: list[tuple[str, MeanFacts]] = []
    if facts.baseline is not None and facts.baseline.score is not None:
        seen.append(("the seed candidate on val", facts.baseline.score))
    if facts.accepted and facts.best_val is not None and facts.best_val.score is not None:
        seen.append(("the best candidate on val", facts.best_val.score))
    if facts.final is not None:
        seen.append(("the best candidate on test", facts.final.best))
        if facts.final.result.test_delta_reason != "no_change":
            seen.append(("the seed candidate on test", facts.final.baseline))
    for name, score in seen:
        if score.n_missing or score.n_scored < score.n_tasks:
            yield Disclosure("missing", _missing_text(name, score))


def _missing_text(name: str, score: MeanFacts) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in score.missing)
    text = f"Missing data: {name} was measured on {score.n_scored} of {format_number(score.n_tasks, 'task')}"
    if reasons:
        text += f"; {format_number(score.n_missing, 'trial')} ended without a reward ({reasons})"
    return f"{text}. Missing is left out of the mean, never counted as 0."


def _on_spend(facts: RunFacts) -> Iterator[Disclosure]:
    for spend in facts.spend:
        if spend.unpriced:
            yield Disclosure(
                "unpriced",
                f"The price of {spend.unpriced:,} of {format_number(spend.calls, f'{spend.role} call')} was "
                "not reported: what they cost is unknown, not nothing.",
            )


def _on_rates(facts: RunFacts) -> Iterator[Disclosure]:
    if facts.course is not None:
        yield Disclosure("rate_limited", describe_course(facts.course))
