"""Payloads: short ones in their row, long ones compressed once, and every reader gets the text back."""

from __future__ import annotations

import json
import zlib

import pytest
from sqlalchemy import select, text, update
from sqlalchemy.exc import IntegrityError

from capevolve.canonical import digest_bytes
from capevolve.errors import LedgerError, TamperError
from capevolve.ledger import schema
from capevolve.ledger.evaluations import check_fence
from capevolve.ledger.evidence import digest_run
from capevolve.ledger.payloads import INLINE_LENGTH
from capevolve.ledger.rollouts import read_rollouts, read_rollouts_after
from capevolve.ledger.trees import insert_candidate, read_blob
from capevolve.ledger.trials import Claim, record_results

LONG = json.dumps({"output": "ü" * 3, "trace": ["step"] * INLINE_LENGTH}, ensure_ascii=False)
SHORT = '{"output":"ü"}'

both = pytest.mark.both_ledgers


def put(book, result, *payloads):
    fence = book.open()
    book.claim(fence, *(Claim(f"t{i}", 0, 0) for i in range(len(payloads))))
    book.record(fence, *(result(f"t{i}", payload=payload) for i, payload in enumerate(payloads)))
    return fence


def read(book, fence):
    with book.ledger.read() as connection:
        return [rollout.payload for rollout in read_rollouts(connection, fence.evaluation_id)]


def blobs(book):
    with book.ledger.read() as connection:
        return {row.digest: row for row in connection.execute(select(schema.blobs))}


@both
def test_a_long_payload_is_compressed_by_its_digest_and_read_back_as_it_was(book, result):
    fence = put(book, result, LONG, SHORT)
    assert read(book, fence) == [LONG, SHORT]
    row = blobs(book)[digest_bytes(LONG.encode())]
    assert (row.encoding, zlib.decompress(row.data)) == ("zlib", LONG.encode())
    assert len(row.data) < len(LONG) / 20


@both
def test_the_same_long_payload_is_kept_once(book, result):
    before = len(blobs(book))
    fence = put(book, result, LONG, LONG, LONG)
    assert len(blobs(book)) == before + 1
    assert read(book, fence) == [LONG, LONG, LONG]


def test_a_payload_at_the_limit_stays_in_its_row(book, result):
    at, over = "x" * INLINE_LENGTH, "x" * (INLINE_LENGTH + 1)
    fence = put(book, result, at, over)
    with book.ledger.read() as connection:
        rows = connection.execute(select(schema.rollouts).order_by(schema.rollouts.c.task_id)).all()
    assert [(len(row.payload), row.payload_digest is None) for row in rows] == [(len(at), True), (0, False)]
    assert read(book, fence) == [at, over]


def test_a_payload_that_is_a_candidates_file_too_is_read_by_both(book, result):
    data = LONG.encode()
    with book.ledger.write() as connection:
        insert_candidate(connection, "sha256:c", "[]", {digest_bytes(data): data})
    assert read(book, put(book, result, LONG)) == [LONG]
    other = LONG + " "
    put_again = book.open(book.key("train"))
    book.claim(put_again, Claim("t9", 0, 0))
    book.record(put_again, result("t9", payload=other))
    with book.ledger.write() as connection:
        insert_candidate(connection, "sha256:d", "[]", {digest_bytes(other.encode()): other.encode()})
        assert read_blob(connection, digest_bytes(other.encode())) == other.encode()


def test_results_that_are_refused_leave_no_blob(book, result):
    fence = book.open()
    before = set(blobs(book))
    with pytest.raises(LedgerError):
        book.record(fence, result("t0", payload=LONG))
    assert set(blobs(book)) == before


def test_a_packed_result_is_not_packed_again(book, result):
    fence = book.open()
    book.claim(fence, Claim("t0", 0, 0))
    packed = result("t0", payload=LONG).pack()
    assert packed.pack() is packed
    with book.ledger.write() as connection:
        check_fence(connection, fence)
        record_results(connection, fence, [packed], 0.0)
    assert read(book, fence) == [LONG]


@both
def test_a_rows_digest_is_the_same_with_its_payload_in_the_row_and_in_a_blob(book, result):
    put(book, result, LONG, SHORT)
    with book.ledger.read() as connection:
        in_blobs = digest_run(connection, "r1").rows
    with book.ledger.write() as connection:  # as version 1 stored it
        connection.execute(
            update(schema.rollouts)
            .where(schema.rollouts.c.payload_digest.is_not(None))
            .values(payload=LONG, payload_digest=None)
        )
        assert digest_run(connection, "r1").rows == in_blobs


def _edit(book, **values):
    with book.ledger.write() as connection:
        connection.execute(update(schema.rollouts).where(schema.rollouts.c.task_id == "t0").values(**values))


def test_another_blob_or_a_text_beside_the_blob_changes_the_rows_digest(book, result):
    put(book, result, LONG)
    with book.ledger.read() as connection:
        before = digest_run(connection, "r1").combine()
    for values in ({"payload_digest": "sha256:0"}, {"payload": "{}"}):
        with book.ledger.write() as connection:
            connection.execute(update(schema.rollouts).values(**values))
            assert digest_run(connection, "r1").combine() != before
            connection.rollback()


def test_a_payload_in_its_row_and_in_a_blob_is_refused(book, result):
    fence = put(book, result, LONG)
    _edit(book, payload="{}")
    with pytest.raises(TamperError, match="in its row and in a blob"):
        read(book, fence)


def test_a_missing_blob_is_named(book, result):
    fence = put(book, result, LONG)
    _edit(book, payload_digest="sha256:none")
    with pytest.raises(LedgerError, match="sha256:none"):
        read(book, fence)


@pytest.mark.parametrize(
    ("data", "encoding", "words"),
    [
        (zlib.compress(b"another text"), "zlib", "not what its digest says"),
        (b"another text", None, "not what its digest says"),
        (b"no zlib at all", "zlib", "cannot be decompressed"),
        (zlib.compress(LONG.encode())[:-5], "zlib", "cannot be decompressed"),
        (zlib.compress(LONG.encode()) + b"more", "zlib", "cannot be decompressed"),
        (LONG.encode(), "lzma", "unknown encoding 'lzma'"),
    ],
)
def test_an_edited_blob_is_refused_by_every_reader(book, result, data, encoding, words):
    fence = put(book, result, LONG)
    name = digest_bytes(LONG.encode())
    with book.ledger.write() as connection:
        mine = schema.blobs.c.digest == name
        connection.execute(update(schema.blobs).where(mine).values(data=data, encoding=encoding))
    with pytest.raises(TamperError, match=words) as refusal:
        read(book, fence)
    assert name in str(refusal.value)


def test_a_short_payload_is_not_touched(result):
    short = result("t0", payload=SHORT)
    assert short.pack() is short


@both
def test_rollouts_are_read_page_by_page_in_the_order_of_all(book, result):
    fence = put(book, result, LONG, SHORT, LONG, SHORT, SHORT)
    place, pages = None, []
    while True:
        with book.ledger.read() as connection:
            page = read_rollouts_after(connection, fence.evaluation_id, place, 2)
        if not page:
            break
        pages.append(page)
        place = (page[-1].task_id, page[-1].trial)
    with book.ledger.read() as connection:
        assert [row for page in pages for row in page] == list(read_rollouts(connection, fence.evaluation_id))
    assert [len(page) for page in pages] == [2, 2, 1]


@both
def test_a_rescore_has_a_reward_or_a_reason(book):
    fence = book.open()
    row = {
        "evaluation_id": fence.evaluation_id, "adapter_digest": "sha256:a", "task_id": "t", "trial": 0,
        "asked": 1, "at": 0.0, "feedback": "", "metrics": "[]",
    }  # fmt: skip
    for wrong in (
        {},
        {"reward": 1.0, "reason": "infra"},
        {"reward": 1.5},
        {"reward": 1.0, "evaluation_id": 99},
    ):
        with pytest.raises(IntegrityError), book.ledger.write() as connection:
            connection.execute(schema.rescores.insert().values({**row, **wrong}))
    with book.ledger.write() as connection:
        connection.execute(schema.rescores.insert().values({**row, "reward": 1.0}))
        assert connection.scalar(text("SELECT count(*) FROM rescores")) == 1
