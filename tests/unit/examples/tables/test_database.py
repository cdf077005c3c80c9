import time
from concurrent.futures import ThreadPoolExecutor

import pytest

ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT COUNT(*) FROM r"


@pytest.fixture(scope="module")
def database(tables):
    return tables.database.Database(tables.database.read_tables(tables.folder / "data"))


def count(database):
    return database.query("SELECT (SELECT COUNT(*) FROM airports), (SELECT COUNT(*) FROM weather)")


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE airports",
        "DELETE FROM weather",
        "INSERT INTO airports SELECT * FROM airports",
        "UPDATE airports SET state = 'TX' RETURNING name",
        "CREATE TEMP TABLE t (a)",
        "ATTACH DATABASE '{tmp}/stolen.db' AS stolen",
        "VACUUM INTO '{tmp}/stolen.db'",
        "PRAGMA query_only = OFF",
        "BEGIN",
        "SELECT load_extension('x')",
        "SELECT 1; DROP TABLE airports",
        "SELECT random()",
        "SELECT CURRENT_TIMESTAMP",
        "SELECT '\ud800'",
        "SELECT \0",
        "SELEC 1",
    ],
)
def test_whatever_does_more_than_read_is_refused_and_changes_nothing(tables, database, tmp_path, sql):
    before = count(database)
    with pytest.raises(tables.database.QueryError):
        database.query(sql.replace("{tmp}", str(tmp_path)))
    assert count(database) == before == [(3376, 1461)]
    assert not list(tmp_path.iterdir())


def test_without_the_authorizer_the_connection_still_only_reads(tables):
    database = tables.database.Database([tables.database.Table("t", (("a", "TEXT"),), (("x",),))])
    database._connection.set_authorizer(None)
    with pytest.raises(tables.database.QueryError, match="readonly"):
        database.query("DROP TABLE t")
    assert database.query("SELECT a FROM t") == [("x",)]


@pytest.mark.parametrize(
    ("sql", "limit"),
    [
        (ENDLESS, "too many steps"),
        ("SELECT COUNT(*) FROM airports, airports AS b, airports AS c", "too many steps"),
        ("SELECT * FROM airports, weather", "more than 5000 rows"),
        ("WITH RECURSIVE r(t) AS (SELECT 'a' UNION ALL SELECT t || t FROM r) SELECT t FROM r", "too big"),
        (f"SELECT name FROM airports WHERE name LIKE '{'%a' * 60}'", "too complex"),
    ],
)
def test_a_query_without_end_ends_at_a_limit(tables, database, sql, limit):
    start = time.monotonic()
    with pytest.raises(tables.database.QueryError, match=limit):
        database.query(sql)
    assert time.monotonic() - start < 2
    assert count(database) == [(3376, 1461)]  # and the next query has its whole allowance


def test_threads_share_a_database(tables, database):
    queries = ["SELECT COUNT(*) FROM airports", ENDLESS] * 20

    def ask(sql):
        try:
            return database.query(sql)
        except tables.database.QueryError:
            return None

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, queries)) == [[(3376,)], None] * 20


@pytest.mark.parametrize(
    ("sql", "ordered"),
    [
        ("SELECT name FROM airports ORDER BY name", True),
        ("select name from airports order\n by name", True),
        ("SELECT state FROM (SELECT state FROM airports ORDER BY COUNT(*) DESC LIMIT 3)", False),
        ("SELECT name FROM airports WHERE name = 'order by (me)'", False),
        ("SELECT name FROM airports", False),
    ],
)
def test_order_counts_only_outside_parentheses_and_texts(tables, sql, ordered):
    assert tables.database.is_ordered(sql) is ordered


def test_rows_are_compared_as_multisets_unless_ordered(tables):
    same = tables.database.same_rows
    assert same([(1,), (2,)], [(2,), (1,)], ordered=False)
    assert not same([(1,), (2,)], [(2,), (1,)], ordered=True)
    assert not same([(1,), (1,), (2,)], [(1,), (2,), (2,)], ordered=False)
    assert same([(0.1 + 0.2,)], [(0.3,)], ordered=True)
    assert not same([("1",)], [(1,)], ordered=False)
