"""The sections of a report as titles, sentences and tables of finished cells, for any markup."""

from __future__ import annotations

from capevolve.model import Estimate
from capevolve.report.headline import build_result
from capevolve.report.liveness import describe_liveness
from capevolve.report.rows import COLUMNS, candidate_rows
from capevolve.report.section import Section
from capevolve.report.values import AttemptFacts, RunFacts
from capevolve.report.wording import (
    format_cost,
    format_estimate,
    format_number,
    format_time,
    format_tokens,
)


def build_sections(facts: RunFacts) -> tuple[Section, ...]:
    """Returns the sections of a report, in order."""
    return (
        build_result(facts),
        _caveats(facts),
        _candidates(facts),
        _splits(facts),
        _seal(facts),
        _spend(facts),
        _run(facts),
        _verify(facts),
    )


def _caveats(facts: RunFacts) -> Section:
    lines = tuple(disclosure.text for disclosure in facts.caveats)
    return Section("caveats", "What to know before using these numbers", lines)


def _candidates(facts: RunFacts) -> Section:
    done = len(facts.iterations)
    gate = facts.gate
    knobs = f"k_se {gate.k_se:g}, threshold {gate.threshold:g}"
    if gate.confirm is not None:
        knobs = (
            f"alpha_run {gate.confirm.alpha_run:g}, {gate.confirm.failed} of {gate.confirm.slots} slots used"
        )
    lines = [
        f"{format_number(done, 'iteration')} of at most {facts.max_iterations}. Gate: mode {gate.mode}, "
        f"{knobs}, min_coverage {gate.min_coverage:g}. Deltas are "
        "paired by val task, against the incumbent at that time. ± undefined: fewer than two tasks, or no "
        "spread between them.",
    ]
    rows = tuple(row.cells for row in candidate_rows(facts))
    return Section("candidates", "Candidates", tuple(lines), COLUMNS, rows)


def _splits(facts: RunFacts) -> Section:
    splits = facts.splits
    val = "selects" if splits.val_holdout else "selects, but shares tasks or content with train"
    test = "estimates" if splits.holdout else "fit metric: shares tasks or content with train or val"
    rows = (
        ("train", str(splits.train), "proposers learn from it"),
        ("val", str(splits.val), val),
        ("test", str(splits.test), test),
        ("unused", str(splits.unused), "in no split"),
    )
    lines = (
        f"Seed {splits.seed}, method {splits.method}, digest {splits.digest}, test set {splits.test_digest}.",
    )
    return Section("splits", "Splits", lines, ("split", "tasks", "role"), rows)


_ATTEMPT_HEADINGS = (
    "attempt",
    "state",
    "look",
    "opened",
    "test trials begun",
    "interrupted",
    "reward ± SE",
    "why again",
)


def _seal(facts: RunFacts) -> Section:
    seal = facts.seal
    lines = [_seal_words(facts)]
    if seal.attempts:
        lines.append(f"Looks at this test set so far, by all runs of this ledger: {seal.looks}.")
    if seal.chain_head is not None:
        lines.append(f"Head of the seal's chain: {seal.chain_head}.")
    rows = tuple(_attempt_row(attempt) for attempt in seal.attempts)
    return Section("seal", "Test split and seal", tuple(lines), _ATTEMPT_HEADINGS if rows else (), rows)


def _seal_words(facts: RunFacts) -> str:
    seal = facts.seal
    if not seal.attempts:
        return "No attempt at the test split was opened."
    last = seal.attempts[-1]
    if seal.name == "open":
        return f"Open: attempt {last.number}, {last.claimed} of {last.planned} test trials begun."
    once = len(seal.attempts) == 1 and seal.looks == 1
    text = f"Committed: attempt {last.number}, look {last.look} at this test set."
    return f"{text} It was scored once." if once and facts.splits.holdout else text


def _attempt_row(attempt: AttemptFacts) -> tuple[str, ...]:
    if attempt.result is None:
        reward = "no result"
    else:
        test = attempt.result.test
        value = format_estimate(Estimate(test.reward, test.stderr)).lstrip("+")
        reward = f"{value} (n = {test.n_scored} of {test.n_tasks})"
    return (
        str(attempt.number),
        attempt.state,
        str(attempt.look),
        format_time(attempt.opened_at),
        f"{attempt.claimed} of {attempt.planned}",
        str(attempt.interrupted),
        reward,
        attempt.override_reason or "",
    )


def _spend(facts: RunFacts) -> Section:
    rows = tuple(
        (spend.role, f"{spend.calls:,}", format_cost(spend), f"{format_tokens(spend.tokens)}")
        for spend in facts.spend
    )
    return Section("spend", "Spend", (), ("role", "calls", "cost", "tokens"), rows)


def _run(facts: RunFacts) -> Section:
    info = facts.info
    rows = (
        ("run", info.id),
        ("status", describe_liveness(info)),
        ("why it ended", info.stop_reason or ("it has not" if info.ended_at is None else "no reason noted")),
        ("started", format_time(info.created_at)),
        ("ended", format_time(info.ended_at)),
        ("capevolve", info.version),
        ("seed candidate", facts.seed_id),
        ("incumbent", facts.best_id),
        ("spec", info.spec_digest),
        ("adapter", info.adapter_digest),
    )
    return Section("run", "Run", (), ("what", "value"), rows)


def _verify(facts: RunFacts) -> Section:
    run_id = facts.info.id
    lines = [
        "These commands compute the splits, the verdicts and the result again from the stored trials, check "
        "the seal's chain, and write the trials out as files to compute with by hand."
    ]
    if facts.final is not None:
        lines.append(
            "By hand: average the trials of each test task, subtract seed from best where both have a "
            "reward, and average over tasks."
        )
    return Section(
        "verify",
        "How to verify",
        tuple(lines),
        commands=(f"capevolve verify {run_id}", f"capevolve export {run_id}"),
    )
