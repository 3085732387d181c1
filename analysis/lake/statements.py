"""What SQL over a lake may be: one query that reads, for either engine."""

from __future__ import annotations

from typing import Final

from harness.errors import QueryError

_END: Final = "; \t\r\n"


def as_subquery(sql: str) -> str:
    """The SQL in the parentheses of another query, where the grammar has no other statement."""
    return f"SELECT * FROM (\n{sql.rstrip(_END)}\n)"  # noqa: S608 - parsed, and never run


def empty() -> QueryError:
    """Why SQL without a statement is refused."""
    return QueryError("the query is empty", key="SQL")


def not_a_query() -> QueryError:
    """Why an engine does not run a statement that it could run."""
    return QueryError(
        "only one query that reads the tables is accepted",
        key="SQL",
        hint="use one SELECT (also after WITH), VALUES, SHOW or DESCRIBE",
    )
