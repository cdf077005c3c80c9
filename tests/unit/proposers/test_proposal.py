"""One iteration's proposal: made once, judged fit or not, recorded with its cost whatever becomes of it."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import pytest

from capevolve.candidates import Candidate, CandidateFile, load_candidate, read_file
from capevolve.errors import FencedError, LedgerError, TamperError, UserError
from capevolve.ledger import schema
from capevolve.ledger.leases import acquire_lease
from capevolve.ledger.proposals import find_proposal
from capevolve.proposers.proposal import (
    clean_line,
    clean_text,
    derive_seed,
    find_forbidden,
    load_proposer,
    make_proposal,
)


class PowerCutError(Exception):
    """Raised by a hook in the place of a crash."""


def _cut(hook, name):
    def cut(reached):
        if reached == name:
            raise PowerCutError(name)

    hook(cut)


MARK = 'open("prompt.md", "w").write("MARK")\n'
NOTE = 'json.dump({"summary": "words", "cost_usd": 0.5, "tokens": 7}, open(os.environ["CAPEVOLVE_PROPOSAL"], "w"))\n'
COUNT = 'open(os.environ["CAPEVOLVE_PROJECT"] + "/ran", "a").write("x")\n'


def _ran(made) -> int:
    path = made.project.root / "ran"
    return len(path.read_text()) if path.exists() else 0


def test_an_edit_is_a_candidate_with_its_words_and_cost(make_run):
    made = make_run(MARK + NOTE + 'print("thought")')
    proposal = made.propose()
    assert (proposal.status, proposal.summary, proposal.detail) == ("proposed", "words", "thought")
    assert (proposal.cost_usd, proposal.tokens, proposal.calls) == (0.5, 7, 1)
    assert (proposal.iteration, proposal.finished_at is None) == (1, False)
    with made.project.driven() as run, run.ledger.read() as connection:
        [file] = load_candidate(connection, proposal.candidate_id).files
        assert read_file(connection, file) == b"MARK"


def test_a_proposal_is_made_once(make_run):
    made = make_run(COUNT + MARK)
    assert made.propose() == made.propose()
    assert _ran(made) == 1


@pytest.mark.parametrize("name", ["propose.started", "propose.edited"])
def test_an_interrupted_proposal_is_made_again_and_every_call_and_cost_is_counted(make_run, hook, name):
    made = make_run(COUNT + MARK + NOTE)
    _cut(hook, name)
    with pytest.raises(PowerCutError):
        made.propose()
    hook(lambda reached: None)
    [cut] = made.records()
    assert (cut.status, cut.calls) == ("started", 1)
    again = made.propose()
    assert (again.status, again.calls) == ("proposed", 2)
    assert again.cost_usd == 0.5 * _ran(made)


def test_cut_after_it_was_recorded_it_is_not_made_again(make_run, hook):
    made = make_run(COUNT + MARK)
    _cut(hook, "propose.finished")
    with pytest.raises(PowerCutError):
        made.propose()
    hook(lambda reached: None)
    assert made.propose().status == "proposed"
    assert _ran(made) == 1


def test_a_failure_keeps_its_cost_and_shows_the_end_of_the_output(make_run):
    made = make_run(NOTE + 'print("noise " * 5000)\nprint("the real reason")\nsys.exit(3)')
    proposal = made.propose()
    assert (proposal.status, proposal.candidate_id, proposal.cost_usd) == ("failed", None, 0.5)
    assert proposal.detail.startswith("the program ended with exit code 3\n")
    assert proposal.detail.endswith("the real reason")


def test_a_failure_leaves_no_candidate_even_when_it_edited(make_run):
    assert make_run(MARK + "sys.exit(1)").propose().candidate_id is None


def test_no_edit_is_an_empty_proposal(make_run):
    made = make_run('open("prompt.md", "w").write("hello\\n")\nprint("nothing to do")')
    proposal = made.propose()
    assert (proposal.status, proposal.candidate_id) == ("empty", None)
    assert "nothing to do" in proposal.detail


def test_the_same_edit_again_is_a_duplicate_and_so_is_the_way_back_to_the_seed(make_run):
    edits = [{"edits": {"prompt.md": text}} for text in ("one", "one", "two", "hello\n", "one")]
    made = make_run(edits=edits, evidence=False, spec={"search": {"max_iterations": 9}})
    first = made.propose(1)
    second = made.propose(2)
    assert (first.status, second.status) == ("proposed", "duplicate")
    assert second.candidate_id == first.candidate_id
    assert second.detail == "the same as iteration 1"
    third = made.propose(3)
    assert third.status == "proposed"
    back = made.propose(4, first.candidate_id)
    assert (back.status, back.detail) == ("duplicate", "the same as the seed candidate")
    assert made.propose(5, first.candidate_id).status == "empty"


def test_a_script_without_more_edits_is_exhausted(make_run):
    made = make_run(edits=[], evidence=False)
    proposal = made.propose()
    assert (proposal.status, proposal.candidate_id) == ("exhausted", None)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ('os.symlink("/etc/passwd", "link")', "links"),
        ('os.mkfifo("pipe")', "only files and folders"),
        ('open("big", "wb").truncate(70 * 2**20)', "larger than"),
        ('open(b"caf\\xe9", "w")', "UTF-8"),
        ('open("tools/extra.py", "w")', "not editable: tools/extra.py"),
        ('open("caf.json", "w").write("{")', "caf.json is not JSON: "),
        ('os.remove("tools/run.py")', "not editable: tools/run.py"),
        ('os.chmod("tools/run.py", 0o755)', "not editable: tools/run.py"),
        ("import shutil; shutil.rmtree(os.getcwd())", "does not exist"),
        (
            'here = os.getcwd(); os.rename(here, here + "2"); os.symlink(here + "2", here)',
            "replaced by a link",
        ),
    ],
)
def test_what_is_no_candidate_is_invalid_and_costs_no_target_call(make_run, code, words):
    seed = {"prompt.md": "hello\n", "tools/run.py": "print(1)\n"}
    made = make_run(NOTE + MARK + code, seed=seed, spec={"editable": ["*.md", "pipe", "link", "big", "caf*"]})
    proposal = made.propose()
    assert (proposal.status, proposal.candidate_id, proposal.cost_usd) == ("invalid", None, 0.5)
    assert words in proposal.detail
    assert made.project.calls() == []


@pytest.mark.parametrize(
    "code",
    ['open(adapter, "a").write("# harmless")', "os.remove(adapter)", 'os.rename(adapter, adapter + "2")'],
)
def test_a_program_that_edits_the_adapter_ends_the_run_and_its_cost_is_known(make_run, code):
    made = make_run(
        COUNT + MARK + NOTE + 'adapter = os.environ["CAPEVOLVE_PROJECT"] + "/adapter.py"\n' + code
    )
    before = (made.project.root / "adapter.py").read_text()
    with pytest.raises(TamperError, match=r"adapter\.py changed"):
        made.propose()
    [proposal] = made.records()
    assert (proposal.status, proposal.candidate_id, proposal.cost_usd) == ("started", None, 0.5)
    with pytest.raises(TamperError):  # nothing is paid again before it is restored
        made.propose()
    assert _ran(made) == 1
    (made.project.root / "adapter.py").write_text(before)
    made.project.write("propose.py", "import json, os\n" + COUNT + MARK + NOTE)
    proposal = made.propose()
    assert (proposal.status, proposal.calls, proposal.cost_usd) == ("proposed", 2, 1.0)


def test_without_evidence_a_program_is_not_called(make_run):
    made = make_run(COUNT, evidence=False)
    with pytest.raises(LedgerError, match="evaluated on train"):
        made.propose()
    assert _ran(made) == 0
    assert made.records() == ()


def test_a_missing_program_is_found_out_before_anything_is_spent(make_run):
    made = make_run("", spec={"proposer": {"kind": "command", "command": ["no-such-program"]}})
    with pytest.raises(UserError, match="cannot be found"):
        made.propose()
    assert made.records() == ()


def test_a_spec_without_a_proposer_says_how_to_name_one(make_run):
    made = make_run(evidence=False, spec={"proposer": None})
    with pytest.raises(UserError, match="no proposer"):
        made.propose()
    with made.project.driven() as run, pytest.raises(UserError):
        load_proposer(run.root, run.spec)


def test_a_proposal_that_is_there_needs_no_proposer_any_more(make_run):
    made = make_run(MARK)
    before = made.propose()
    os.remove(made.project.root / "propose.py")
    text = (made.project.root / "capevolve.yaml").read_text()
    (made.project.root / "capevolve.yaml").write_text(text.replace('"python"', '"gone"'))
    assert made.propose() == before


def test_a_run_taken_over_while_the_program_ran_records_nothing(make_run, hook):
    made = make_run(MARK)
    with made.project.driven() as run:

        def take_over(name):
            if name == "propose.started":
                with run.ledger.write() as connection:
                    connection.execute(schema.leases.update().values(heartbeat_at=0.0))
                    acquire_lease(connection, run.id, run.clock())

        hook(take_over)
        with pytest.raises(FencedError):
            asyncio.run(make_proposal(run, 1, made.seed(run)))
        with run.ledger.read() as connection:
            proposal = find_proposal(connection, run.id, 1)
    assert proposal is not None
    assert (proposal.status, proposal.candidate_id, proposal.cost_usd) == ("started", None, None)


def test_the_words_of_a_program_can_do_nothing_to_a_terminal_or_a_table(make_run):
    summary = "one\\x1b]0;owned\\x07\\ntwo\\r\\u202ethree\\u2028| four\\x00"
    made = make_run(
        MARK + f'json.dump({{"summary": "{summary}"}}, open(os.environ["CAPEVOLVE_PROPOSAL"], "w"))'
    )
    proposal = made.propose()
    assert proposal.summary == "one ]0;owned two three | four"


def test_text_is_cleaned_and_cut_and_keeps_its_lines():
    assert clean_text("a\tb\nc") == "a\tb\nc"
    assert clean_text("a\x1b[31mb\u200f\ud800\u2029") == "a [31mb   "
    assert clean_text("x" * 5000) == "x" * 4000 + " [cut]"
    assert clean_line("  a\n\n b\t c ") == "a b c"
    assert clean_line("x" * 501) == "x" * 500 + " [cut]"
    assert clean_line("schön 🎈") == "schön 🎈"


def test_the_seed_of_an_iteration_is_always_the_same_and_differs_from_its_neighbours():
    assert [derive_seed(0, i) for i in (1, 2, 3)] == [derive_seed(0, i) for i in (1, 2, 3)]
    assert derive_seed(0, 1) == 2115296501
    seeds = {derive_seed(base, i) for base in range(10) for i in range(100)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2**31 for seed in seeds)


def _candidate(*paths: str) -> Candidate:
    return Candidate("sha256:x", tuple(CandidateFile(path, f"sha256:{path}", False) for path in paths))


@pytest.mark.parametrize(
    ("patterns", "path", "allowed"),
    [
        (("**",), "a/b/c.md", True),
        (("*",), "a/b/c.md", True),
        (("*.md",), "prompt.md", True),
        (("*.md",), "a/b/c.md", True),
        (("*.md",), "a/b/c.py", False),
        (("prompt.md",), "prompt.md", True),
        (("prompt.md",), "Prompt.md", False),
        (("prompt.md",), "a/prompt.md", False),
        (("**/prompt.md",), "prompt.md", True),
        (("**/prompt.md",), "a/b/prompt.md", True),
        (("**/prompt.md",), "evil-prompt.md", False),
        (("src/**/x.py",), "src/x.py", True),
        (("src/**/x.py",), "src/a/b/x.py", True),
        (("src/**/x.py",), "src/fox.py", False),
        (("src/**/x.py",), "other/src/x.py", False),
        (("src/**",), "src/a/b", True),
        (("src/**",), "srcs/a", False),
        (("a.md", "b.md"), "b.md", True),
        (("[ab].md",), "b.md", True),
        (("?.md",), "bb.md", False),
    ],
)
def test_patterns_say_what_may_be_edited(patterns, path, allowed):
    for old, new in ((_candidate(), _candidate(path)), (_candidate(path), _candidate())):
        assert find_forbidden(old, new, patterns) == ([] if allowed else [path])


def test_what_did_not_change_is_never_forbidden():
    old = _candidate("a", "b")
    assert find_forbidden(old, old, ("nothing",)) == []
    executable = replace(old, files=(replace(old.files[0], executable=True), old.files[1]))
    assert find_forbidden(old, executable, ("b",)) == ["a"]
