"""Full-text search over what users and agents said and over titles.

The texts lie in the table search_text; `search_fts` is an FTS5 index derived from it. Where SQLite has no FTS5, or
the words are in a script without spaces between words, the same questions are answered by LIKE.
"""

from __future__ import annotations

import re
import sqlite3
from typing import Any

from hermes_daemon.core.ports import StorageError
from hermes_daemon.store.failures import is_corrupt_index
from hermes_daemon.store.reader import Reader
from hermes_protocol.methods import SearchHit

_MAX_QUERY_CHARS = 1000
_MAX_TERMS = 32
_SNIPPET_CHARS = 120
_TERM = re.compile(r'"([^"]*)"|([^\s"]+)')
# Scripts written without spaces: FTS5's unicode61 sees a whole run as one word.
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_STALE = "search_stale"
_PARTS = ("data", "idx", "docsize", "config")  # tables that FTS5 keeps for an index
_CREATE = (
    "CREATE VIRTUAL TABLE search_fts USING fts5(text, content='search_text', content_rowid='id',"
    " tokenize='unicode61 remove_diacritics 2')"
)


class SearchIndex:
    """The index of one open database. `fts` tells whether FTS5 answers; LIKE does when not."""

    def __init__(self, fts: bool) -> None:
        self.fts = fts
        self._repaired = False

    @classmethod
    def open(cls, connection: sqlite3.Connection) -> SearchIndex:
        """Make or catch up the index when needed, in one transaction: an attempt that is killed leaves nothing."""
        exists = connection.execute("SELECT 1 FROM sqlite_master WHERE name='search_fts'").fetchone() is not None
        index = cls(_has_fts5(connection))
        if index.fts and (not exists or _is_stale(connection)):
            build_index(connection)
        return index

    def repair(self, connection: sqlite3.Connection) -> None:
        """Make a damaged index anew. Once for each opening: when it was done before, LIKE answers from now on."""
        if self._repaired:
            self.fts = False
            return
        self._repaired = True
        build_index(connection)

    # --- writing, inside the caller's transaction ---------------------------------------------------------------------

    def put(self, connection: sqlite3.Connection, session: int, item_id: str, role: str, text: str, at: str) -> None:
        """Set the text that an item (or, with item_id "", the title) can be found by; an empty one removes it."""
        self.forget(connection, session, item_id)
        if not text:
            return
        text_id = connection.execute(
            "INSERT INTO search_text (session, item_id, role, text, at) VALUES (?,?,?,?,?)",
            (session, item_id, role, text, at),
        ).lastrowid
        if self._indexed(connection):
            connection.execute("INSERT INTO search_fts (rowid, text) VALUES (?,?)", (text_id, text))

    def forget(self, connection: sqlite3.Connection, session: int, item_id: str) -> None:
        """Remove the text of one item."""
        self._remove(connection, "session=? AND item_id=?", (session, item_id))

    def forget_session(self, connection: sqlite3.Connection, session: int) -> None:
        """Remove every text of a session."""
        self._remove(connection, "session=?", (session,))

    def forget_behind(self, connection: sqlite3.Connection, session: int, position: int) -> None:
        """Remove the texts of the items behind a position."""
        behind = "session=? AND item_id IN (SELECT item_id FROM items WHERE session=? AND id>?)"
        self._remove(connection, behind, (session, session, position))

    def copy(self, connection: sqlite3.Connection, source: int, target: int) -> None:
        """Let the items of `target` be found by the texts that they have in `source`."""
        rows = connection.execute(
            "SELECT t.item_id, t.role, t.text, t.at FROM items i JOIN search_text t ON t.session=? AND"
            " t.item_id = i.item_id WHERE i.session=? ORDER BY i.id",
            (source, target),
        ).fetchall()
        for row in rows:
            self.put(connection, target, *row)

    def _remove(self, connection: sqlite3.Connection, where: str, params: tuple[Any, ...]) -> None:
        rows = connection.execute(f"SELECT id, text FROM search_text WHERE {where}", params).fetchall()  # noqa: S608
        if not rows:
            return
        if self._indexed(connection):
            connection.executemany("INSERT INTO search_fts (search_fts, rowid, text) VALUES ('delete',?,?)", rows)
        connection.execute(f"DELETE FROM search_text WHERE {where}", params)  # noqa: S608

    def _indexed(self, connection: sqlite3.Connection) -> bool:
        if not self.fts:  # an index that exists and is not kept must be made again by whoever can
            connection.execute("INSERT OR IGNORE INTO marks VALUES (?, '1')", (_STALE,))
        return self.fts

    # --- asking -------------------------------------------------------------------------------------------------------

    def find(self, read: Reader, query: str, *, limit: int, cwd: str | None = None) -> tuple[SearchHit, ...]:
        """The best hits. Any text is a valid query: words must all occur, "quotes" make a phrase, the last word may
        go on. A query without letters or digits is looked for as it stands."""
        terms, limit = _terms(query), max(limit, 0)
        if not terms:
            return ()
        match = self._match(terms)
        if match is not None:
            try:
                return _find_by_index(read, match, limit, cwd)
            except StorageError as error:
                if error.__cause__ is None or not is_corrupt_index(error.__cause__):
                    raise
        return _find_by_like(read, terms, limit, cwd)

    def sessions_matching(self, query: str) -> tuple[str, list[str]]:
        """A condition on sessions.id for those where the title or one thing that was said matches, and its values."""
        terms = _terms(query)
        match = self._match(terms)
        if match is not None:
            found, values = "id IN (SELECT rowid FROM search_fts WHERE search_fts MATCH ?)", [match]
        else:
            found, values = _like(terms)
        return f"id IN (SELECT session FROM search_text WHERE {found})", values  # noqa: S608

    def _match(self, terms: list[tuple[str, bool]]) -> str | None:
        """The FTS5 expression, or None where LIKE must answer."""
        words = [(text, prefix) for text, prefix in terms if any(c.isalnum() for c in text)]
        if not self.fts or not words or any(_UNSPACED.search(text) for text, _ in words):
            return None
        return " ".join(f'"{text}"*' if prefix else f'"{text}"' for text, prefix in words)


def _has_fts5(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM pragma_module_list WHERE name='fts5'").fetchone())


def _is_stale(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM marks WHERE name=?", (_STALE,)).fetchone())


def build_index(connection: sqlite3.Connection) -> None:
    """Index all texts, in one transaction. Raises sqlite3.Error."""
    try:
        _build_anew(connection)
    except sqlite3.DatabaseError as error:
        if not is_corrupt_index(error):
            raise
        _forget_table(connection)  # it is too damaged even to be dropped
        _build_anew(connection)


def _build_anew(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name='search_fts'").fetchone():
            connection.execute("DROP TABLE search_fts")
        for part in _PARTS:  # left by _forget_table
            connection.execute(f"DROP TABLE IF EXISTS search_fts_{part}")
        connection.execute(_CREATE)
        connection.execute("INSERT INTO search_fts (search_fts) VALUES ('rebuild')")
        connection.execute("DELETE FROM marks WHERE name=?", (_STALE,))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _forget_table(connection: sqlite3.Connection) -> None:
    """Take the index out of the schema, as https://sqlite.org/pragma.html#pragma_writable_schema describes."""
    version = connection.execute("PRAGMA schema_version").fetchone()[0]
    connection.execute("PRAGMA writable_schema = ON")
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM sqlite_master WHERE name='search_fts'")
        connection.execute(f"PRAGMA schema_version = {version + 1}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute("PRAGMA writable_schema = OFF")


def _terms(query: str) -> list[tuple[str, bool]]:
    """(text without quotes, whether it may go on): the words and phrases of what a person typed."""
    query = query[:_MAX_QUERY_CHARS].replace("\0", " ").encode("utf-8", "replace").decode()
    found = [(phrase or word, bool(word)) for phrase, word in _TERM.findall(query) if (phrase or word).strip()]
    # Only the last word may go on, and only while it is still being typed.
    last = len(found) - 1 if query and not query[-1].isspace() else -1
    return [(text, is_word and place == last and text[-1].isalnum()) for place, (text, is_word) in enumerate(found)][
        :_MAX_TERMS
    ]


def _like(terms: list[tuple[str, bool]]) -> tuple[str, list[str]]:
    escaped = [re.sub(r"([\\%_])", r"\\\1", text) for text, _ in terms]
    condition = " AND ".join(["text LIKE ? ESCAPE '\\'"] * len(terms)) or "0"
    return condition, [f"%{text}%" for text in escaped]


def _find_by_index(read: Reader, match: str, limit: int, cwd: str | None) -> tuple[SearchHit, ...]:
    rows = read.all(
        "SELECT s.session_id, t.item_id, s.title, t.role, snippet(search_fts, 0, '', '', '…', 16), t.at"
        " FROM search_fts JOIN search_text t ON t.id = search_fts.rowid JOIN sessions s ON s.id = t.session"
        " WHERE search_fts MATCH ? AND (? IS NULL OR s.cwd = ?) ORDER BY search_fts.rank LIMIT ?",
        match, cwd, cwd, limit,
    )  # fmt: skip
    return tuple(SearchHit(*row) for row in rows)


def _find_by_like(read: Reader, terms: list[tuple[str, bool]], limit: int, cwd: str | None) -> tuple[SearchHit, ...]:
    condition, values = _like(terms)
    query = (
        "SELECT s.session_id, t.item_id, s.title, t.role, t.at, t.text FROM search_text t"  # noqa: S608
        f" JOIN sessions s ON s.id = t.session WHERE {condition} AND (? IS NULL OR s.cwd = ?)"
        " ORDER BY t.at DESC, t.id DESC LIMIT ?"
    )
    rows = read.all(query, *values, cwd, cwd, limit)
    return tuple(
        SearchHit(session_id, item_id, title, role, _excerpt(text, terms[0][0]), at)
        for session_id, item_id, title, role, at, text in rows
    )


def _excerpt(text: str, term: str) -> str:
    """The surroundings of the first place where the term stands."""
    place = max(text.lower().find(term.lower()), 0)
    start = max(place - _SNIPPET_CHARS // 3, 0)
    end = start + _SNIPPET_CHARS
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
