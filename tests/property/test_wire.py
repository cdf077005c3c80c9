from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capevolve.adapters import wire
from capevolve.adapters.records import AdapterFacts, ListedTask, Metric, Refusal, TrialReply, TrialRequest
from capevolve.model import Reason, Scored, Unmeasured

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
numbers = st.floats(allow_nan=False, allow_infinity=False)
metrics = st.builds(
    Metric, name=words, value=numbers, primary=st.booleans(), direction=st.sampled_from(["higher", "lower"])
)
outcomes = st.one_of(
    st.builds(Scored, reward=st.floats(0, 1)),
    st.builds(Unmeasured, reason=st.sampled_from(Reason), detail=words),
)
requests = st.builds(
    TrialRequest,
    key=st.integers(0, 2**53),
    task_id=words,
    task_digest=words,
    trial=st.integers(0, 99),
    seed=st.integers(),
)
replies = st.builds(
    TrialReply,
    key=st.integers(0, 2**53),
    outcome=outcomes,
    feedback=words,
    metrics=st.lists(metrics, max_size=3).map(tuple),
    payload=words,
    cost_usd=st.none() | numbers,
    tokens=st.none() | st.integers(0),
    duration_s=numbers,
    starts=st.integers(1, 3),
)
refusals = st.builds(Refusal, rate_limited=st.booleans(), retry_after_s=st.none() | st.floats(0, 1e9))
refused = st.builds(
    TrialReply,
    key=st.integers(0, 2**53),
    outcome=st.builds(Unmeasured, reason=st.sampled_from(Reason), detail=words),
    feedback=words,
    metrics=st.just(()),
    payload=words,
    cost_usd=st.none() | numbers,
    tokens=st.none() | st.integers(0),
    duration_s=numbers,
    refusal=st.none() | refusals,
)
facts = st.builds(
    AdapterFacts,
    class_name=words,
    is_async=st.booleans(),
    file=words,
    files=st.lists(st.tuples(words, words), max_size=3).map(tuple),
    digest=words,
)
listed = st.builds(ListedTask, id=words, digest=words, content=words, cluster=st.none() | words)
keys = st.lists(st.integers(0, 2**53), max_size=5).map(tuple)
messages = st.one_of(
    st.builds(
        wire.Open,
        root=words,
        target=words,
        candidate_dir=st.none() | words,
        sync_width=st.integers(1, 9),
        async_width=st.integers(1, 9),
        timeout_s=numbers,
        grace_s=numbers,
        parent_pid=st.integers(1),
        listing=st.booleans(),
    ),
    st.builds(wire.Run, requests=st.lists(requests, max_size=4).map(tuple)),
    st.builds(wire.Recall),
    st.builds(wire.Close),
    st.builds(wire.Loaded, facts=facts),
    st.builds(wire.Ready),
    st.builds(wire.Progress, done=st.lists(replies | refused, max_size=3).map(tuple), started=keys),
    st.builds(wire.Stuck, reply=replies | refused),
    st.builds(wire.Returned, keys=keys),
    st.builds(
        wire.Listed,
        tasks=st.lists(listed, max_size=3).map(tuple),
        source=st.sampled_from(["all", "splits"]),
        last=st.booleans(),
    ),
    st.builds(wire.Failed, what=words, where=st.none() | words, fix=st.none() | words),
)


@given(st.lists(messages, max_size=6), st.data())
def test_messages_survive_the_channel_however_the_bytes_are_cut(
    sent: list[wire.Message], data: st.DataObject
) -> None:
    stream = b"".join(wire.encode(message) for message in sent)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8).map(sorted))
    decoder = wire.Decoder()
    heard: list[wire.Message] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        heard += decoder.feed(stream[start:end])
    assert heard == sent


@given(st.binary(min_size=1, max_size=60))
def test_foreign_bytes_are_refused_or_waited_for_but_never_taken_for_a_message(noise: bytes) -> None:
    decoder = wire.Decoder()
    try:
        heard = decoder.feed(noise)
    except wire.WireError:
        return
    assert heard == []


def test_messages_before_the_garbage_are_not_lost_with_it() -> None:
    sent = wire.Progress((), (1, 2))
    with pytest.raises(wire.WireError) as caught:
        wire.Decoder().feed(wire.encode(sent) + b"garbage, not a frame")
    assert caught.value.before == (sent,)


@pytest.mark.parametrize("text", ['["unknown"]', "{}", "[]", '["run", 3]', "not json", '["recall", 1]'])
def test_a_frame_that_is_no_message_is_refused(text: str) -> None:
    body = text.encode()
    with pytest.raises(wire.WireError):
        wire.Decoder().feed(wire.HEADER.pack(len(body)) + body)


def test_an_endless_frame_is_refused_at_its_header() -> None:
    with pytest.raises(wire.WireError, match="frame"):
        wire.Decoder().feed(wire.HEADER.pack(wire.MAX_FRAME + 1))
