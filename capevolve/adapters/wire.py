"""What a pool and its hosts say to each other: small messages, framed on a socket.

A frame is a four-byte big-endian length and that many bytes of UTF-8 JSON: `[tag, ...fields]`. Results never
travel on a standard stream, so nothing that user code prints can be taken for one.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from capevolve.adapters.payload import MAX_PAYLOAD
from capevolve.adapters.records import AdapterFacts, ListedTask, Metric, Refusal, TrialReply, TrialRequest
from capevolve.model import Reason, Scored, Unmeasured

HEADER = struct.Struct(">I")
MAX_FRAME = 1 << 28
"""A longer frame is not one: somebody else wrote to the channel."""


class WireError(Exception):
    """The bytes on the channel are not the protocol.

    Attributes:
        before: The messages that were complete before the bytes went wrong.
    """

    def __init__(self, what: str, before: Sequence[Message] = ()) -> None:
        super().__init__(what)
        self.before = tuple(before)


@dataclass(frozen=True, slots=True)
class Open:
    """Pool to host, first: what to load and how to run it."""

    root: str
    target: str
    candidate_dir: str | None
    sync_width: int
    async_width: int
    timeout_s: float
    grace_s: float
    parent_pid: int
    listing: bool
    ready: str = ""
    batch_width: int = 0
    memory_mb: int | None = None
    max_payload: int = MAX_PAYLOAD


@dataclass(frozen=True, slots=True)
class Run:
    """Pool to host: queue these trials."""

    requests: tuple[TrialRequest, ...]


@dataclass(frozen=True, slots=True)
class Recall:
    """Pool to host: hand back whatever has not started."""


@dataclass(frozen=True, slots=True)
class Close:
    """Pool to host: leave `live` and end."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Host to pool: the adapter is loaded."""

    facts: AdapterFacts


@dataclass(frozen=True, slots=True)
class Ready:
    """Host to pool: the candidate is live, trials may come."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Host to pool: these trials are done, these start now (said before the target is called)."""

    done: tuple[TrialReply, ...]
    started: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scoring:
    """Host to pool: the target of this trial has returned, its scorer runs."""

    key: int


@dataclass(frozen=True, slots=True)
class Stuck:
    """Host to pool: a trial is over its limit and cannot be ended without ending the host."""

    reply: TrialReply


@dataclass(frozen=True, slots=True)
class Returned:
    """Host to pool: these requests get no reply: they were never started, or belong to a late call."""

    keys: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """Host to pool: tasks of the adapter; the last message of a listing has `last` set."""

    tasks: tuple[ListedTask, ...]
    source: Literal["all", "splits"]
    last: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """Host to pool: the adapter breaks its contract, or cannot use the `candidate`; no trial can be run."""

    what: str
    where: str | None
    fix: str | None
    candidate: bool = False


Message = (
    Open | Run | Recall | Close | Loaded | Ready | Progress | Scoring | Stuck | Returned | Listed | Failed
)  # fmt: skip

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))


def encode(message: Message) -> bytes:
    """Returns the frame of a message."""
    tag, pack = _PACK[type(message)]
    body = _ENCODER.encode([tag, *pack(message)]).encode("utf-8", "replace")
    return HEADER.pack(len(body)) + body


def decode(text: str) -> Message:
    """Returns the message of a frame's text.

    Raises:
        WireError: The text is not a message.
    """
    try:
        tag, *fields = json.loads(text)
        return _UNPACK[tag](fields)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise WireError(f"not a message ({type(error).__name__}): {text[:80]!r}") from error


class Decoder:
    """Turns the bytes of a channel, however they are cut, into messages."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Returns the messages completed by these bytes, in order.

        Raises:
            WireError: The bytes are not the protocol; the channel is of no further use.
        """
        rest = self._rest
        rest += data
        messages: list[Message] = []
        start = 0
        try:
            while (end := _find_end(rest, start)) is not None:
                messages.append(decode(rest[start + HEADER.size : end].decode("utf-8")))
                start = end
        except (WireError, UnicodeDecodeError) as error:
            raise WireError(str(error), messages) from error
        if start:
            del rest[:start]
        return messages


def _find_end(data: bytearray, start: int) -> int | None:
    """Returns where the frame at `start` ends; None when it is not complete."""
    if len(data) - start < HEADER.size:
        return None
    (length,) = HEADER.unpack_from(data, start)
    if length > MAX_FRAME:
        raise WireError(f"a frame of {length} bytes")
    end = start + HEADER.size + int(length)
    return end if len(data) >= end else None


def _pack_reply(reply: TrialReply) -> list[Any]:
    outcome = reply.outcome
    reward = outcome.reward if isinstance(outcome, Scored) else None
    fault: list[Any] | None = None
    if isinstance(outcome, Unmeasured):
        fault = [outcome.reason.value, outcome.detail]
        if reply.refusal is not None:  # only an unmeasured trial was refused: others pay nothing for it
            fault += [reply.refusal.rate_limited, reply.refusal.retry_after_s]
    return [
        reply.key,
        reward,
        fault,
        reply.feedback,
        [[m.name, m.value, m.primary, m.direction] for m in reply.metrics],
        reply.payload,
        reply.cost_usd,
        reply.tokens,
        reply.duration_s,
        reply.starts,
    ]


def _unpack_reply(row: Sequence[Any]) -> TrialReply:
    key, reward, fault, feedback, metrics, *rest = row
    outcome = Scored(reward) if fault is None else Unmeasured(Reason(fault[0]), fault[1])
    reply = TrialReply(key, outcome, feedback, tuple(Metric(*m) for m in metrics), *rest)
    return reply if fault is None or len(fault) == 2 else replace(reply, refusal=Refusal(*fault[2:]))


def _pack_facts(message: Loaded) -> list[Any]:
    facts = message.facts
    return [facts.class_name, facts.is_async, facts.file, facts.files, facts.digest, facts.hook]


def _unpack_facts(row: Sequence[Any]) -> Loaded:
    name, is_async, file, files, digest, hook = row
    rows = tuple((path, mark) for path, mark in files)
    return Loaded(AdapterFacts(name, is_async, file, rows, digest, hook))


def _pack_run(message: Run) -> list[Any]:
    return [[r.key, r.task_id, r.task_digest, r.trial, r.seed, r.call] for r in message.requests]


def _pack_open(m: Open) -> list[Any]:
    widths = [m.sync_width, m.async_width]
    limits = [m.timeout_s, m.grace_s, m.parent_pid]
    sizes = [m.batch_width, m.memory_mb, m.max_payload]
    return [m.root, m.target, m.candidate_dir, *widths, *limits, m.listing, m.ready, *sizes]


def _pack_listed(message: Listed) -> list[Any]:
    rows = [[t.id, t.digest, t.content, t.cluster] for t in message.tasks]
    return [rows, message.source, message.last]


def _nothing(_message: Any) -> list[Any]:
    return []


_PACK: dict[type, tuple[str, Callable[[Any], list[Any]]]] = {
    Open: ("open", _pack_open),
    Run: ("run", _pack_run),
    Recall: ("recall", _nothing),
    Close: ("close", _nothing),
    Loaded: ("loaded", _pack_facts),
    Ready: ("ready", _nothing),
    Progress: ("progress", lambda m: [[_pack_reply(r) for r in m.done], m.started]),
    Scoring: ("scoring", lambda m: [m.key]),
    Stuck: ("stuck", lambda m: _pack_reply(m.reply)),
    Returned: ("returned", lambda m: [m.keys]),
    Listed: ("listed", _pack_listed),
    Failed: ("failed", lambda m: [m.what, m.where, m.fix, m.candidate]),
}

_UNPACK: dict[str, Callable[[Sequence[Any]], Message]] = {
    "open": lambda row: Open(*row),
    "run": lambda row: Run(tuple(TrialRequest(*r) for r in row)),
    "recall": lambda row: Recall(*row),
    "close": lambda row: Close(*row),
    "loaded": _unpack_facts,
    "ready": lambda row: Ready(*row),
    "progress": lambda row: Progress(tuple(_unpack_reply(r) for r in row[0]), tuple(row[1])),
    "scoring": lambda row: Scoring(*row),
    "stuck": lambda row: Stuck(_unpack_reply(row)),
    "returned": lambda row: Returned(tuple(row[0])),
    "listed": lambda row: Listed(tuple(ListedTask(*t) for t in row[0]), row[1], row[2]),
    "failed": lambda row: Failed(*row),
}
