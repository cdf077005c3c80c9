"""The A/A control: a byte-identical copy of the seed candidate goes through the real gate on fresh trials.

What the gate says of it is noise by construction. A gate that accepts the copy, or vetoes it for a task it
"broke", would do the same to edits, and its run would be worth nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from sqlalchemy import Connection

from capevolve.budget import Remaining
from capevolve.canonical import canonical_json
from capevolve.errors import UserError
from capevolve.evaluate.progress import Progress, ignore_progress
from capevolve.gate.confirm.case import Ask, join_measurements
from capevolve.gate.confirm.seeds import AA
from capevolve.gate.decide import Judgement, Match, decide
from capevolve.gate.from_spec import gate_settings
from capevolve.gate.record import measure_ask, read_past
from capevolve.gate.regression import find_regressions
from capevolve.gate.settings import GateSettings, parse_settings
from capevolve.ledger.events import append_event, read_events
from capevolve.ledger.leases import check_lease
from capevolve.ledger.proposals import parse_verdict
from capevolve.ledger.runs import read_run, read_split
from capevolve.model import Decision, Verdict
from capevolve.runs import OpenRun
from capevolve.stats import compare

EVENT = "aa_control"


@dataclass(frozen=True, slots=True)
class Control:
    """What the gate said of the copy.

    Attributes:
        regressions: Tasks that the copy "broke" by the `no_regression` rule; empty when it is off.
        settings: What the gate judged by; None for a control of before they were kept.
    """

    verdict: Verdict
    regressions: tuple[str, ...]
    settings: GateSettings | None = None

    @property
    def passed(self) -> bool:
        """Whether the gate neither accepted nor vetoed the copy."""
        return self.verdict.decision is not Decision.ACCEPT and not self.regressions


async def run_control(
    run: OpenRun,
    *,
    remaining: Callable[[], Remaining | None] = lambda: None,
    on_progress: Callable[[Progress], None] = ignore_progress,
) -> Control:
    """Puts a copy of the seed candidate through the gate, once; asked again, reads what came of it.

    Args:
        remaining: What may be spent, asked before every stage.

    Raises:
        BudgetExhaustedError: A cap was reached; asked again, it continues.
        LedgerError: The seed candidate was not evaluated on val.
    """
    while True:
        with run.ledger.read() as connection:
            known = find_control(connection, run.id)
            if known is not None:
                return known
            match = _match(connection, run)
            step = _decide(connection, run, match)
        if isinstance(step, Judgement):
            return _record(run, step)
        await measure_ask(run, match, step, remaining=remaining(), on_progress=on_progress)


def refuse_noise(control: Control) -> None:
    """Refuses to go on with a gate that took noise for an improvement or for a regression.

    Raises:
        UserError: The gate accepted or vetoed the copy.
    """
    if control.passed:
        return
    what = "accepted" if control.verdict.decision is Decision.ACCEPT else "vetoed"
    raise UserError(
        f"The A/A control failed: the gate {what} a byte-identical copy of the seed candidate. "
        f"{describe_noise(control)}",
        where="gate, aa_control",
        fix="Use `gate: confirm`, more val tasks or more trials, or a larger k_se, and start a new run.",
    )


def describe_noise(control: Control) -> str:
    """Returns the noise floor in words: the difference of the seed candidate from itself."""
    verdict = control.verdict
    broke = f" It broke {', '.join(control.regressions[:5])}." if control.regressions else ""
    if verdict.delta is None or verdict.se is None:
        return f"Noise floor: undefined ({verdict.reason}).{broke}"
    floor = f"the copy differs from the seed candidate by {verdict.delta:+.3f} ± {verdict.se:.3f} on val"
    return f"Noise floor: {floor}; {verdict.decision.value}: {verdict.reason}.{broke}"


def find_control(connection: Connection, run_id: str) -> Control | None:
    """Returns what the A/A control of a run found; None when there was none."""
    events = read_events(connection, run_id, EVENT)
    if not events:
        return None
    payload = events[0].payload
    settings = payload.get("settings")
    return Control(
        parse_verdict(canonical_json(payload["verdict"])),
        tuple(payload["regressions"]),
        None if settings is None else parse_settings(canonical_json(settings)),
    )


def _match(connection: Connection, run: OpenRun) -> Match:
    seed_id = read_run(connection, run.id).seed_candidate
    return Match(AA, seed_id, seed_id)


def _decide(connection: Connection, run: OpenRun, match: Match) -> Ask | Judgement:
    settings = gate_settings(run.spec.gate)
    ids = [task.ref.id for task in read_split(connection, run.id, "val")]
    return decide(read_past(connection, run, 0), match, settings, ids)


def _record(run: OpenRun, step: Judgement) -> Control:
    control = conclude_control(step, gate_settings(run.spec.gate))
    with run.ledger.write() as connection:
        check_lease(connection, run.driver)
        known = find_control(connection, run.id)
        if known is not None:
            return known
        payload = asdict(control)
        append_event(connection, run.id, EVENT, payload, run.clock())
    return control


def conclude_control(step: Judgement, settings: GateSettings) -> Control:
    """Returns what the gate's judgement of the copy says of the gate."""
    return Control(step.verdict, _find_broken(step) if settings.no_regression else (), settings)


def _find_broken(step: Judgement) -> tuple[str, ...]:
    """The tasks that the copy broke, over all trials of it; a rejected copy is looked at too."""
    if not step.measured:
        return ()
    copy = join_measurements(step.measured, [task.task_id for task in step.record.tasks])
    return tuple(found.task_id for found in find_regressions(compare(copy, step.record)))
