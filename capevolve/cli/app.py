"""The verbs, their options and what an error looks like. The work is in one file per verb group."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from capevolve.errors import CapevolveError

app = typer.Typer(
    name="capevolve",
    help="Improve what an AI agent reads, against your own evaluation, and end in one number you can defend.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Project = Annotated[
    Path, typer.Argument(help="The project: the folder of capevolve.yaml, or the file.", show_default=True)
]
ProjectOption = Annotated[
    Path, typer.Option("--project", "-p", help="The project: the folder of capevolve.yaml, or the file.")
]
RunArgument = Annotated[str | None, typer.Argument(help="The run; left out, the latest of the project.")]
Rescore = Annotated[
    str | None,
    typer.Option(
        "--allow-test-rescore",
        metavar="REASON",
        help="Take another look at the test split. The reason stays on record for ever.",
    ),
]
HopelessGate = Annotated[
    bool, typer.Option("--allow-hopeless-gate", help="Go on although the gate can never accept.")
]

HERE = Path()


def run_app() -> None:
    """Runs the app; an error that capevolve raised on purpose is shown without a traceback."""
    try:
        app()
    except CapevolveError as error:
        sys.stderr.write(f"capevolve: {error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("capevolve: stopped\n")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)


@app.callback(invoke_without_command=True)
def show_version(
    version: Annotated[bool, typer.Option("--version", help="Show the version and stop.")] = False,
) -> None:
    """Improve what an AI agent reads, against your own evaluation, and end in one number you can defend."""
    if version:
        import capevolve

        typer.echo(f"capevolve {capevolve.__version__}")
        raise typer.Exit


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="The folder of the new project.")],
    name: Annotated[str | None, typer.Option(help="Its name; left out, the folder's.")] = None,
    target: Annotated[
        Literal["class", "command", "openai", "python"],
        typer.Option(help="What runs a task: an adapter class of yours, a program, a model, a function."),
    ] = "class",
) -> None:
    """Make a project that runs as it is, to replace piece by piece with your own."""
    from capevolve.cli.init import TargetKind, init_project

    init_project(folder, name, TargetKind(target))


@app.command()
def check(
    project: Project = HERE,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Prove an adapter before money is spent: a few real calls on one train task."""
    from capevolve.cli.check import check_project

    check_project(project, as_json=as_json)


@app.command()
def plan(
    project: Project = HERE,
    effect: Annotated[
        float | None, typer.Option("--effect", help="The improvement to find, such as 0.05; left out, 0.1.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds-per-rollout", help="Left out, as measured on the newest run."),
    ] = None,
    usd: Annotated[
        float | None,
        typer.Option("--usd-per-rollout", help="Left out, as measured on the newest run."),
    ] = None,
    allow_hopeless_gate: HopelessGate = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Say which effects the design can find and what it costs, before the target is called."""
    from capevolve.cli.plan import Stated, plan_project

    stated = Stated(effect, seconds, usd)
    plan_project(project, stated, allow_hopeless_gate=allow_hopeless_gate, as_json=as_json)


@app.command()
def run(
    project: Project = HERE,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Continue this run; `last` is the latest.")
    ] = None,
    run_id: Annotated[str | None, typer.Option("--run", help="The id of a new run.")] = None,
    allow_hopeless_gate: HopelessGate = False,
) -> None:
    """Run the optimization to its sealed test number, or continue it where it stopped."""
    from capevolve.cli.run import run_project

    run_project(project, resume=resume, run_id=run_id, allow_hopeless_gate=allow_hopeless_gate)


@app.command()
def aa(
    project: Project = HERE,
    run_id: Annotated[str | None, typer.Option("--run", help="The id of the run that keeps it.")] = None,
) -> None:
    """Put a copy of the seed candidate through the gate on fresh trials, and show the noise floor."""
    from capevolve.cli.aa import control_project

    control_project(project, run_id)


@app.command()
def evaluate(
    candidate: Annotated[
        str, typer.Option("--candidate", help="A candidate's id, the beginning of it, or a folder.")
    ],
    project: ProjectOption = HERE,
    run: Annotated[str | None, typer.Option("--run", help="The run; left out, the latest.")] = None,
    run_dir: Annotated[Path | None, typer.Option("--run-dir", help="The run's folder, instead.")] = None,
    split: Annotated[
        str, typer.Option("--split", help="train or val. The test split is sealed: that is finalize's job.")
    ] = "val",
    n_trials: Annotated[
        int | None, typer.Option("--n-trials", min=1, help="Trials per task; left out, as in the spec.")
    ] = None,
    ks: Annotated[
        str | None, typer.Option("--ks", help="The k of pass^k, as 1,2,3; left out, every measured k.")
    ] = None,
    ids: Annotated[
        str | None, typer.Option("--ids", help="Only these tasks, separated by commas. Never gates.")
    ] = None,
) -> None:
    """Evaluate a candidate on train or val; the result is JSON on standard output."""
    from capevolve.cli.evaluate import evaluate_candidate

    evaluate_candidate(project, run, run_dir, candidate, split, n_trials, ks, ids)


@app.command()
def finalize(
    run: RunArgument = None, project: ProjectOption = HERE, allow_test_rescore: Rescore = None
) -> None:
    """Score the sealed test split once, for the best and the seed candidate; or show the result again."""
    from capevolve.cli.run import finalize_run

    finalize_run(project, run, allow_test_rescore)


@app.command()
def report(
    run: RunArgument = None,
    project: ProjectOption = HERE,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Write report.md, report.html and final.json again from the ledger, and show the report."""
    from capevolve.cli.show import show_report

    show_report(project, run, as_json=as_json)


@app.command()
def status(
    run: RunArgument = None,
    project: ProjectOption = HERE,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Say how a run stands: alive or not, its candidates, its seal, what it spent."""
    from capevolve.cli.show import show_status

    show_status(project, run, as_json=as_json)


@app.command()
def log(run: RunArgument = None, project: ProjectOption = HERE) -> None:
    """Show where a run's candidates come from, each below the one it edited, with the gate's verdicts."""
    from capevolve.cli.lineage import show_log

    show_log(project, run)


@app.command()
def show(
    candidate: Annotated[str, typer.Argument(help="A candidate's id, or `best`, or `seed`.")] = "best",
    project: ProjectOption = HERE,
    run: Annotated[str | None, typer.Option("--run", help="The run; left out, the latest.")] = None,
) -> None:
    """Show a candidate: its origin, its verdict stage by stage, its files, and what it changed."""
    from capevolve.cli.lineage import show_candidate

    show_candidate(project, run, candidate)


@app.command()
def diff(
    candidate: Annotated[str, typer.Argument(help="A candidate's id, or `best`.")] = "best",
    against: Annotated[str, typer.Argument(help="What to compare with: an id, or `seed`.")] = "seed",
    project: ProjectOption = HERE,
    run: Annotated[str | None, typer.Option("--run", help="The run; left out, the latest.")] = None,
) -> None:
    """Show what changed from one candidate to another."""
    from capevolve.cli.show import show_diff

    show_diff(project, run, candidate, against)


@app.command()
def verify(
    target: Annotated[
        str | None,
        typer.Argument(metavar="[RUN|FILE]", help="A run, or a bundle; left out, the latest run."),
    ] = None,
    project: ProjectOption = HERE,
) -> None:
    """Compute splits, verdicts and the test numbers again from the rows, and name the first difference."""
    from capevolve.cli.verify import verify_target

    verify_target(project, target)


@app.command()
def export(
    run: RunArgument = None,
    project: ProjectOption = HERE,
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", metavar="FILE", help="Everything in one file, for `verify FILE` elsewhere."),
    ] = None,
) -> None:
    """Write the trials of a run as files, or with --bundle all its rows as one file."""
    from capevolve.cli.verify import export_run

    export_run(project, run, bundle)


@app.command()
def rescore(
    run: RunArgument = None,
    project: ProjectOption = HERE,
    candidate: Annotated[
        str | None, typer.Option("--candidate", help="Only this one: its id, `seed` or `best`.")
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="train or val; left out, both. Never test.")
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="Also what this adapter has scored before: its data may be others."),
    ] = False,
) -> None:
    """Score stored rollouts again with the current scorer; the target is not called, verdicts stand."""
    from capevolve.cli.rescore import rescore_run

    rescore_run(project, run, candidate, split, again=again)


@app.command()
def up(project: Project = HERE) -> None:
    """Start the project's local Prefect server and keep it, for the UI between runs."""
    from capevolve.cli.server import start_server

    start_server(project)


@app.command()
def down(project: Project = HERE) -> None:
    """Stop the server that `up` started."""
    from capevolve.cli.server import stop_server

    stop_server(project)
