"""The limits of `evaluation`: their values, and what a run stored before they existed means."""

from __future__ import annotations

import json

import pytest

from capevolve.errors import SpecError
from capevolve.spec import load_spec
from capevolve.spec.resume import parse_spec, resume_spec, spec_json


@pytest.fixture
def load(tmp_path):
    def write(text: str = ""):
        (tmp_path / "capevolve.yaml").write_text(f"name: demo\n{text}")
        return load_spec(tmp_path).spec

    return write


def stored_before(spec) -> str:
    """The spec as it was stored before a timeout could be the agent's."""
    data = json.loads(spec_json(spec))
    for key in ("timeout_is", "batch_size", "memory_mb", "max_trace_kb"):
        del data["evaluation"][key]
    return json.dumps(data)


def test_a_new_run_blames_the_agent_for_a_timeout(load):
    assert (load().evaluation.timeout_is, load().evaluation.batch_size) == ("agent", 16)
    assert parse_spec(spec_json(load())).evaluation.timeout_is == "agent"


def test_a_run_stored_before_the_key_existed_goes_on_with_timeouts_as_missing_data(load):
    old = stored_before(load())
    assert (parse_spec(old).evaluation.timeout_is, parse_spec(old).evaluation.batch_size) == ("infra", 0)
    resumed = resume_spec("r1", old, load())
    assert (resumed.evaluation.timeout_is, resumed.evaluation.batch_size) == ("infra", 0)
    again = resume_spec("r1", spec_json(resumed), load())
    assert again.evaluation == resumed.evaluation


def test_an_old_run_refuses_to_start_blaming_the_agent(load):
    with pytest.raises(SpecError, match=r'evaluation.timeout_is was "infra", is "agent"'):
        resume_spec("r1", stored_before(load()), load("evaluation: {timeout_is: agent}"))


def test_a_new_run_keeps_who_is_to_blame(load):
    stored = spec_json(load("evaluation: {timeout_is: infra}"))
    assert resume_spec("r1", stored, load()).evaluation.timeout_is == "infra"
    with pytest.raises(SpecError, match="timeout_is"):
        resume_spec("r1", spec_json(load()), load("evaluation: {timeout_is: infra}"))


def test_sizes_may_change_while_a_run_goes_on(load):
    now = load("evaluation: {memory_mb: 900, max_trace_kb: 5, batch_size: 0}")
    resumed = resume_spec("r1", spec_json(load()), now).evaluation
    assert (resumed.memory_mb, resumed.max_trace_kb, resumed.batch_size) == (900, 5, 0)


@pytest.mark.parametrize(
    "line", ["timeout_is: never", "memory_mb: 0", "max_trace_kb: 0", "max_trace_kb: 100001", "batch_size: -1"]
)
def test_limits_that_are_none_are_refused(load, line):
    with pytest.raises(SpecError, match=line.partition(":")[0]):
        load(f"evaluation: {{{line}}}")
