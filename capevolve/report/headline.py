"""The headline and the section of results."""

from __future__ import annotations

from capevolve.canonical import short
from capevolve.model import Estimate
from capevolve.report.measured import EvaluationFacts, MeanFacts
from capevolve.report.section import Section
from capevolve.report.values import FinalFacts, RunFacts
from capevolve.report.wording import (
    NOT_MEASURED,
    UNDEFINED,
    format_count,
    format_estimate,
    format_interval,
    format_mean,
    format_number,
    format_p,
    format_permutation,
    format_score,
)
from capevolve.result import FinalResult, PassRate, TestDelta, TestScore
from capevolve.stats import Interval


def build_headline(facts: RunFacts) -> str:
    """Returns the one sentence that a reader should take away."""
    if facts.final is None:
        return f"Not finalised: there is no test number. Best so far on val: {_val_words(facts.best_val)}."
    result = facts.final.result
    if result.test_delta is not None:
        return f"{_name_kind(result, 'delta')}: {_delta_words(result.test_delta)}."
    why = {
        "no_change": "No candidate was accepted; delta not applicable",
        "not_measured": "No task was measured for both candidates; delta undefined",
    }[result.test_delta_reason or "not_measured"]
    return f"{why}. {_name_kind(result, 'reward')} of the best candidate: {format_score(facts.final.best)}."


def _name_kind(result: FinalResult, what: str) -> str:
    """Only a first look at tasks that nothing was chosen on is called held-out."""
    if result.kind != "held_out":
        return f"Fit metric, test {what}"
    return f"Held-out test {what}" if result.seal.look == 1 else f"Test {what} at look {result.seal.look}"


def _val_words(evaluation: EvaluationFacts | None) -> str:
    if evaluation is None:
        return NOT_MEASURED
    if evaluation.score is None:
        return f"measuring, {evaluation.done} of {evaluation.total} trials"
    return format_score(evaluation.score)


def _delta_words(delta: TestDelta) -> str:
    interval = format_interval(_to_interval(delta.ci95), signed=True)
    counts = f"{delta.improved} improved, {delta.worse} worse, {delta.same} same"
    indicative = " (indicative)" if delta.indicative else ""
    value = format_estimate(Estimate(delta.delta, delta.stderr))
    return f"{value}, 95 % interval {interval}{indicative}, n = {format_number(delta.n, 'task')} ({counts})"


def _to_interval(pair: tuple[float, float] | None) -> Interval | None:
    return None if pair is None else Interval(*pair)


_RESULT_HEADINGS = ("what", "reward ± SE", "95 % interval", "n (coverage)", "trials")


def build_result(facts: RunFacts) -> Section:
    """Returns the test result, if there is one, above what val says."""
    lines = [build_headline(facts)]
    rows: list[tuple[str, ...]] = []
    if facts.final is not None:
        lines += _result_lines(facts.final)
        rows += _test_rows(facts.final)
    rows += _val_rows(facts)
    if facts.shrinkage is not None and facts.accepted:
        name = f"val, incumbent, shrunk for its selection (James-Stein over {facts.shrinkage.n} candidates)"
        value = f"{facts.shrinkage.value:.3f} ± not estimated"
        rows.append((name, value, UNDEFINED, _count(facts.best_val), ""))
    return Section("result", "Result", tuple(lines), _RESULT_HEADINGS, tuple(rows))


def _test_rows(final: FinalFacts) -> list[tuple[str, ...]]:
    result = final.result
    rows = [_mean_row(f"test, best {short(result.best_id)}", final.best)]
    if result.test_delta_reason != "no_change":
        rows.append(_mean_row(f"test, seed {short(result.baseline_id)}", final.baseline))
    delta = result.test_delta
    if delta is not None:
        value = format_estimate(Estimate(delta.delta, delta.stderr))
        interval = format_interval(_to_interval(delta.ci95), signed=True)
        planned = final.best.n_tasks
        rows.append(("test, delta best - seed", value, interval, f"{delta.n} of {planned} paired", ""))
    return rows


def _val_rows(facts: RunFacts) -> list[tuple[str, ...]]:
    rows = []
    named = [(f"val, seed {short(facts.seed_id)}", facts.baseline)]
    if facts.accepted:
        fresh = facts.gate.confirm is not None
        note = " (fresh trials that confirmed it)" if fresh else " (selected maximum, biased upward)"
        named.insert(0, (f"val, incumbent {short(facts.best_id)}{note}", facts.best_val))
    for name, evaluation in named:
        if evaluation is not None and evaluation.score is not None:
            rows.append(_mean_row(name, evaluation.score))
        else:
            rows.append((name, _val_words(evaluation), UNDEFINED, "0", "0"))
    return rows


def _mean_row(name: str, score: MeanFacts) -> tuple[str, ...]:
    kind = " (Wilson)" if score.interval_kind == "wilson" else ""
    interval = f"{format_interval(score.interval)}{kind}"
    planned = score.n_tasks * score.num_trials
    return (name, format_mean(score), interval, format_count(score), f"{score.n_trials} of {planned}")


def _count(evaluation: EvaluationFacts | None) -> str:
    return "0" if evaluation is None or evaluation.score is None else format_count(evaluation.score)


def _result_lines(final: FinalFacts) -> list[str]:
    result = final.result
    lines = []
    if result.test_delta is not None:
        delta = result.test_delta
        lines.append(
            "One-sided p-values, best against seed: "
            f"over tasks, sign flip {format_permutation(delta.p_sign_flip)}, "
            f"paired t {format_p(delta.p_t)}; within these tasks, "
            f"permutation {format_permutation(delta.p_within_task)}."
        )
    lines += _reliability("best", result.test)
    if result.test_delta_reason != "no_change":
        lines += _reliability("seed", result.test_baseline)
    if final.gap.value is not None:
        lines.append(
            f"Test minus val of the best candidate: {format_estimate(final.gap)} "
            f"(n = {format_number(final.best.n_scored, 'test task')})."
        )
    return lines


def _reliability(name: str, score: TestScore) -> list[str]:
    """pass^k and pass@k for the k that were measured, and no other."""
    if not score.pass_k:
        return []
    shown = [
        *(f"pass^{k} {_rate(rate)}" for k, rate in sorted(score.pass_k.items(), key=_by_k)),
        *(f"pass@{k} {_rate(rate)}" for k, rate in sorted(score.pass_at_k.items(), key=_by_k) if int(k) > 1),
    ]
    count = format_number(score.n_scored, "task")
    return [f"Reliability of the {name} candidate on test (n = {count}): {', '.join(shown)}."]


def _by_k(item: tuple[str, PassRate]) -> int:
    return int(item[0])


def _rate(rate: PassRate) -> str:
    return format_estimate(Estimate(rate.value, rate.se)).lstrip("+")
