"""What is read from whatever a target raised: a rate limit, a permanent refusal, or nothing."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest

from capevolve import AgentFailure, RateLimitedError
from capevolve.adapters.records import Refusal
from capevolve.adapters.refusals import parse_retry_after, read_refusal

NOW = 1_700_000_000.0


def fault(name="ProviderError", headers=None, **values):
    error = type(name, (RuntimeError,), {})("no")
    for key, value in values.items():
        setattr(error, key, value)
    if headers is not None:
        error.response = SimpleNamespace(headers=headers)
    return error


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (fault(status_code=429), Refusal(True)),
        (fault(status=429), Refusal(True)),
        (fault(response=SimpleNamespace(status_code=429, headers={"Retry-After": "3"})), Refusal(True, 3.0)),
        (fault(status_code=429, headers={"retry-after": "7"}), Refusal(True, 7.0)),
        (fault(status_code=429, headers={"retry-after-ms": "250", "retry-after": "1"}), Refusal(True, 0.25)),
        (fault(status_code=429, headers={"retry-after": "soon"}), Refusal(True)),
        (fault(status_code=503, headers={"retry-after": "7"}), Refusal(True, 7.0)),
        (fault(status_code=503, headers={}), None),
        (fault(status_code=503), None),
        (fault(status_code=500, headers={"retry-after": "7"}), None),
        (fault("RateLimitError"), Refusal(True)),
        (RateLimitedError("slow down", retry_after_s=4), Refusal(True, 4.0)),
        (RateLimitedError(), Refusal(True)),
        (RateLimitedError(retry_after_s=float("nan")), Refusal(True)),
        (RateLimitedError(retry_after_s=-1.0), Refusal(True)),
        (fault("RateLimitedError", retry_after_s=2.5), Refusal(True, 2.5)),
        (fault("RateLimitError", status_code=429, code="insufficient_quota"), Refusal(False)),
        *[(fault(status_code=status), Refusal(False)) for status in (400, 401, 403, 404, 422)],
        (fault(status_code=408), None),
        (fault(status_code="429"), None),
        (fault(status_code=True), None),
        (ValueError("429"), None),
        (SystemExit(429), None),
        (KeyboardInterrupt(), None),
    ],
)
def test_an_error_says_when_calling_again_may_help(error, refusal):
    assert read_refusal(error, NOW) == refusal


def test_a_rate_limit_counts_as_the_cause_and_what_a_tool_met_does_not():
    for status, refusal in ((429, Refusal(True)), (404, None)):
        wrapped = RuntimeError("the agent's step failed")
        wrapped.__cause__ = fault(status_code=status)
        assert read_refusal(wrapped, NOW) == refusal


def test_an_error_that_cannot_be_read_says_nothing():
    class BrokenError(RuntimeError):
        @property
        def status_code(self):
            raise ValueError("mine")

    assert read_refusal(BrokenError("x"), NOW) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        ("0.5", 0.5),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30.0),
        ("Tue, 14 Nov 2023 22:13:50 -0000", 30.0),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 0.0),
        ("-5", None),
        ("nan", None),
        ("inf", None),
        ("1e300", None),
        ("", None),
        ("Tue, 99 Nov 2023", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text, seconds):
    assert parse_retry_after(text, NOW) == seconds


def test_the_error_survives_pickling_and_says_what_it_says():
    error = RateLimitedError("slow down", retry_after_s=4.0, where="the api", fix="wait")
    again = pickle.loads(pickle.dumps(error))
    assert (again.what, again.retry_after_s, again.where, again.fix) == ("slow down", 4.0, "the api", "wait")
    assert not isinstance(error, AgentFailure)
