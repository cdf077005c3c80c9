from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from capevolve.adapters.payload import MAX_WORDS, clean_words, render_payload


def _strict(text: str) -> dict[str, object]:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    loaded = json.loads(text, parse_constant=refuse)
    assert isinstance(loaded, dict)
    text.encode("utf-8")
    return loaded


class _Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__


def test_plain_json_passes_unchanged() -> None:
    value = {"a": [1, 2.5, None, True, "é"], "b": {"c": "x"}}
    assert _strict(render_payload({"output": value})) == {"output": value}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("nan"), "nan"),
        ([float("inf"), 1.0], ["inf", 1.0]),
        ({"deep": [float("-inf")]}, {"deep": ["-inf"]}),
        ({1}, "{1}"),
        ({(1, 2): "x"}, {"(1, 2)": "x"}),
        (b"raw", "b'raw'"),
        (np.float64(0.5), 0.5),
        (np.int32(4), 4),
        (Fraction(1, 4), 0.25),
        (np.float32("nan"), "nan"),
        ("a\ud800b", "a\ufffdb"),
        pytest.param(10**5000, "<an integer of 16610 bits>", id="endless"),
        (_Broken(), "<unprintable _Broken>"),
    ],
)
def test_what_is_not_json_is_shown_as_text(value: object, shown: object) -> None:
    assert _strict(render_payload({"output": value})) == {"output": shown}


def test_a_circle_ends() -> None:
    circle: list[object] = [1]
    circle.append(circle)
    assert "nested too deeply" in json.dumps(_strict(render_payload({"output": circle})))


def test_a_long_field_is_cut_and_says_so_while_short_ones_stay_whole() -> None:
    text = render_payload({"output": '"\\' * 50_000, "error": "short"}, limit=10_000)
    shown = _strict(text)
    assert len(text) <= 10_000
    assert shown["error"] == "short"
    cut = shown["output"]
    assert isinstance(cut, dict)
    assert cut["truncated"] is True
    assert cut["length"] == 200_002


def test_words_lose_what_no_database_takes() -> None:
    assert clean_words("a\0b\ud800c") == "a\ufffdb\ufffdc"
    assert clean_words(None) == ""
    assert clean_words(ValueError("why")) == "why"
    assert clean_words(_Broken()) == "<unprintable _Broken>"
    assert len(clean_words("x" * 100_000)) < MAX_WORDS + 60
