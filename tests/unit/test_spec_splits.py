"""The keys of `splits` that group and stratify, and the old name of one of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from capevolve.errors import SpecError
from capevolve.spec import LoadedSpec, load_spec
from capevolve.spec.resume import parse_spec, resume_spec, spec_json


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], LoadedSpec]:
    def write_and_load(text: str) -> LoadedSpec:
        (tmp_path / "capevolve.yaml").write_text(f"name: demo\n{text}\n", encoding="utf-8")
        return load_spec(tmp_path)

    return write_and_load


def as_it_was_stored(loaded: LoadedSpec) -> str:
    """The spec as capevolve 0.1 stored it."""
    spec = json.loads(spec_json(loaded.spec))
    spec["splits"]["group_by"] = spec["splits"].pop("group_key")
    del spec["splits"]["stratify_key"], spec["splits"]["near_duplicates"]
    return json.dumps(spec)


def test_the_old_name_of_the_key_that_groups_is_read(load: Callable[[str], LoadedSpec]):
    old, new = load("splits: {group_by: family}"), load("splits: {group_key: family}")
    assert old.spec == new.spec
    assert old.digest == new.digest
    assert old.split_settings().group_key == "family"
    assert "group_by" not in spec_json(old.spec)


@pytest.mark.parametrize("value", ["null", "family"])
def test_both_names_at_once_are_refused(load: Callable[[str], LoadedSpec], value: str):
    with pytest.raises(SpecError, match=r"splits.group_by is not a known key") as caught:
        load(f"splits:\n  group_key: family\n  group_by: {value}")
    assert "Did you mean group_key?" in str(caught.value)


def test_a_wrong_value_is_named_by_the_name_that_was_written(load: Callable[[str], LoadedSpec]):
    with pytest.raises(SpecError, match=r"splits.group_by must be text, not 3") as caught:
        load("splits:\n  seed: 1\n  group_by: 3")
    assert str(caught.value.where).endswith("line 4")


@pytest.mark.parametrize("key", ["group_key: family", "group_by: family", "seed: 1"])
def test_a_spec_stored_under_the_old_name_is_read_and_resumed(load: Callable[[str], LoadedSpec], key: str):
    now = load(f"splits: {{{key}}}")
    stored = as_it_was_stored(now)
    assert parse_spec(stored) == now.spec
    assert resume_spec("r1", stored, now.spec) == now.spec
    with pytest.raises(SpecError, match=r"splits.group_key was .*, is \"other\""):
        resume_spec("r1", stored, load("splits: {group_key: other}").spec)


def test_a_resumed_run_does_not_begin_to_stratify(load: Callable[[str], LoadedSpec]):
    stored = as_it_was_stored(load("splits: {seed: 1}"))
    with pytest.raises(SpecError, match=r"splits.stratify_key was null, is"):
        resume_spec("r1", stored, load("splits: {seed: 1, stratify_key: level}").spec)


@pytest.mark.parametrize("way", ["ids: {train: [a], val: [b, c], test: [d]}", "ids_file: ids.json"])
def test_stratifying_pinned_ids_is_refused_as_meaningless(load: Callable[[str], LoadedSpec], way: str):
    with pytest.raises(SpecError, match="gives stratify_key beside ids") as caught:
        load(f"splits: {{{way}, stratify_key: level}}")
    assert way.split(":")[0] in str(caught.value)
