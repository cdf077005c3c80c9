"""Statements for many rows: compiled once, the same rows as SQLAlchemy would write, and a true count."""

from __future__ import annotations

import pytest
from sqlalchemy import Column, Float, Integer, MetaData, String, Table, bindparam, insert, select, update

from capevolve.ledger.bulk import BulkStatement
from capevolve.ledger.store import open_ledger

_numbers = Table(
    "numbers",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("name", String),
    Column("value", Float),
)


@pytest.fixture
def connection(make_ledger_url):
    ledger = open_ledger(make_ledger_url())
    with ledger.write() as connection:
        _numbers.create(connection)
        yield connection
        _numbers.drop(connection)
    ledger.close()


@pytest.mark.both_ledgers
def test_rows_are_written_by_name_in_whatever_order_they_name_their_values(connection, backend):
    add = BulkStatement(insert(_numbers), columns=("id", "name", "value"))
    add.execute(connection, [{"value": 0.5, "id": 1, "name": "a'%"}, {"id": 2, "value": None, "name": None}])
    add.execute(connection, [{"id": 3, "name": "é\N{SNOWMAN}", "value": 1}])
    rows = [tuple(row) for row in connection.execute(select(_numbers).order_by(_numbers.c.id))]
    assert rows == [(1, "a'%", 0.5), (2, None, None), (3, "é\N{SNOWMAN}", 1.0)]
    assert type(rows[2][2]) is float


@pytest.mark.both_ledgers
def test_the_count_is_of_the_rows_that_were_changed(connection, backend):
    BulkStatement(insert(_numbers), columns=("id", "value")).execute(
        connection, [{"id": number, "value": 1.0} for number in range(5)]
    )
    move = BulkStatement(
        update(_numbers)
        .where(_numbers.c.id == bindparam("which"), _numbers.c.value == bindparam("was"))
        .values(value=_numbers.c.value + bindparam("more"))
    )
    asked = [{"which": number, "was": 1.0, "more": 2.0} for number in (1, 3, 9)]
    assert move.execute(connection, asked) == 2
    assert move.execute(connection, asked) == 0
    assert connection.scalar(select(_numbers.c.value).where(_numbers.c.id == 3)) == 3.0
