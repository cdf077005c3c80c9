from __future__ import annotations

import json

from capevolve.report import COLUMNS, candidate_rows, render_status
from capevolve.report.status_schema import StatusDocument


def rows(story):
    return {row.number: row for row in candidate_rows(story.facts())}


def test_every_proposal_has_a_row_in_its_own_words(tell):
    story = tell()
    story.measure_seed()
    story.propose("seed", status="duplicate", detail="the same as the seed candidate")
    story.propose("", status="empty")
    story.propose("", status="invalid", detail="scorer.py must not be edited")
    story.propose("next")
    story.propose("", status="started")
    found = rows(story)
    assert [row.verdict for row in found.values()] == [
        "seed candidate, incumbent",
        "duplicate",
        "empty",
        "invalid",
        "measuring",
        "proposing",
    ]
    assert found["1"].val == found["0"].val == "0.250 ± 0.164"
    assert found["1"].reason == "the same as the seed candidate"
    assert found["2"].candidate == "no candidate" and found["2"].val == "not measured"
    assert found["4"].delta == "not judged"


def test_a_judged_candidate_has_its_delta_and_its_counts(tell):
    story = tell()
    story.improve()
    accepted = rows(story)["2"]
    assert accepted.cells[2:6] == ("0.750 ± 0.164", "8 of 8 (100 %)", "+0.500 ± 0.189", "accept, incumbent")
    assert accepted.counts == "4 / 0 / 4"
    assert rows(story)["0"].verdict == "seed candidate"


def test_a_candidate_under_measurement_shows_no_mean(tell):
    story = tell()
    story.measure_seed()
    story.measure(story.same("val", 1.0), story.propose("next"), in_flight=3)
    assert rows(story)["1"].val == "measuring: 5 of 8 trials"
    assert rows(story)["1"].n == "0"


def test_columns_are_the_cells_under_their_headings(tell):
    row = candidate_rows(tell().facts())[0]
    assert tuple(row.as_columns()) == COLUMNS
    assert tuple(row.as_columns().values()) == row.cells


def test_a_long_reason_is_cut(tell):
    story = tell()
    story.propose("", status="failed", detail="word " * 400)
    assert len(rows(story)["1"].reason) <= 300


def test_the_status_is_strict_json_of_one_schema(tell):
    story = tell()
    story.improve()
    story.conclude()
    status = render_status(story.facts())
    text = json.dumps(status, allow_nan=False)
    assert StatusDocument.model_validate_json(text).model_dump(mode="json") == status
    assert status["schema_version"] == 1
    assert status["final"] == json.loads(story.facts().final.result.to_json())
    assert status["run"]["status"] == "finished"
    assert status["incumbent_val"]["score"]["reward"] == 0.75
    assert [i["verdict"]["decision"] for i in status["iterations"]] == ["reject", "accept"]


def test_the_status_of_a_fresh_run_is_null_where_nothing_is_known(tell):
    status = render_status(tell().facts())
    assert status["baseline_val"] is None and status["final"] is None and status["test_minus_val"] is None
    assert status["seal"] == {"state": "sealed", "looks": 0, "chain_head": None, "attempts": []}
    assert [spend["cost_usd"] for spend in status["spend"]] == [None, None]
