"""One value, one text; what has no text is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from capevolve.canonical import canonical_json, digest, digest_bytes, short


def test_the_order_of_keys_does_not_matter_and_the_order_of_lists_does():
    assert (
        canonical_json({"b": 1, "a": [2, 1]}) == canonical_json({"a": [2, 1], "b": 1}) == '{"a":[2,1],"b":1}'
    )
    assert digest([1, 2]) != digest([2, 1])


def test_text_is_kept_as_it_is():
    assert canonical_json("ü\n\x00\u2028🎈") == '"ü\\n\\u0000\u2028🎈"'


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_none_is_refused(number):
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"a": [number]})


@pytest.mark.parametrize("value", [{1, 2}, object(), b"bytes", 1 + 2j, {("a",): 1}])
def test_what_is_not_json_is_refused(value):
    with pytest.raises(TypeError):
        canonical_json({"a": value})


def test_kinds_of_values_that_look_alike_have_different_digests():
    values = [None, False, 0, 0.0, "0", "", [], {}, [[]], [None]]
    assert len({digest(value) for value in values}) == len(values)


def test_a_digest_names_its_algorithm_and_is_the_well_known_one():
    assert digest_bytes(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert short(digest_bytes(b"")) == "e3b0c44298fc"
    assert short(digest_bytes(b""), 4) == "e3b0"
    assert digest("a") == digest_bytes(b'"a"')


def test_a_digest_is_the_same_in_every_process_whatever_its_hash_seed():
    value = {f"k{i}": [i, {"z": None, "a": "ü"}] for i in range(20)}
    code = f"import json; from capevolve.canonical import digest; print(digest(json.loads({json.dumps(value)!r})))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert seen == {digest(value)}


def test_half_a_character_has_no_digest():
    with pytest.raises(ValueError, match="surrogates"):
        digest("\ud800")
