"""Points at which tests crash or pause a process; without a test they do nothing."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from capevolve import failpoints

CODE = """
from capevolve.failpoints import failpoint
for name in ("a", "b", "a", "a"):
    print(name, flush=True)
    failpoint(name)
print("end")
"""


def _run(value: str | None) -> tuple[int, list[str]]:
    environment = {} if value is None else {"CAPEVOLVE_FAILPOINT": value}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout.split()


@pytest.mark.parametrize(
    ("value", "seen"),
    [("a", ["a"]), ("b", ["a", "b"]), ("a:2", ["a", "b", "a"]), ("a:3", ["a", "b", "a", "a"])],
)
def test_a_process_is_killed_exactly_where_it_was_told_to_be(value, seen):
    assert _run(value) == (-signal.SIGKILL, seen)


@pytest.mark.parametrize("value", [None, "", "c", "a:4"])
def test_a_point_that_nobody_asked_for_does_nothing(value):
    assert _run(value) == (0, ["a", "b", "a", "a", "end"])


def test_a_hook_sees_every_point(hook):
    seen = []
    hook(seen.append)
    failpoints.failpoint("one")
    failpoints.failpoint("two")
    assert seen == ["one", "two"]
