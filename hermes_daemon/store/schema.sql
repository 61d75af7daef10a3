-- Migration 1. A released migration never changes: a change is a new file and a new row in migrate.MIGRATIONS.
-- Times are RFC 3339 in UTC with milliseconds, so they compare as text. Columns named body, options, env, usage,
-- entries, receipt and data hold JSON. `session` columns refer to sessions.id.

CREATE TABLE sessions (
  id            INTEGER PRIMARY KEY,
  session_id    TEXT NOT NULL UNIQUE,
  epoch         TEXT NOT NULL,
  cwd           TEXT NOT NULL,
  created_at    TEXT NOT NULL,
  updated_at    TEXT NOT NULL,
  title         TEXT NOT NULL,
  model         TEXT NOT NULL,
  options       BLOB NOT NULL,
  env           BLOB NOT NULL,
  rev           INTEGER NOT NULL,
  usage         BLOB NOT NULL,
  occupancy_pct REAL,
  archived      INTEGER NOT NULL,
  parent        TEXT,
  ceiling       INTEGER NOT NULL,
  deleted_at    TEXT              -- a tombstone stays for ever, so that the id is never used again
);
CREATE INDEX sessions_recent ON sessions (updated_at DESC, session_id DESC) WHERE deleted_at IS NULL;

CREATE TABLE messages (           -- the live history, in the order of id
  id      INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions,
  turn_id TEXT,
  body    BLOB NOT NULL
);
CREATE INDEX messages_session ON messages (session);

CREATE TABLE items (              -- what clients show, in the order of id
  id      INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions,
  item_id TEXT NOT NULL,
  open    INTEGER NOT NULL,       -- 1 while inProgress
  body    BLOB NOT NULL,
  UNIQUE (session, item_id)
);
CREATE INDEX items_session ON items (session);
CREATE INDEX items_open ON items (session) WHERE open;

CREATE TABLE events (             -- the journal
  session INTEGER NOT NULL REFERENCES sessions,
  seq     INTEGER NOT NULL,
  first   INTEGER NOT NULL,       -- of a run of merged deltas, else 0
  ts      TEXT NOT NULL,
  kind    TEXT NOT NULL,
  turn_id TEXT,
  item_id TEXT,
  delta   INTEGER NOT NULL,       -- 1: goes when its item completes
  data    BLOB NOT NULL,
  PRIMARY KEY (session, seq)
);
CREATE INDEX events_delta ON events (session, item_id) WHERE delta;

CREATE TABLE turns (
  turn_id    TEXT PRIMARY KEY,
  session    INTEGER NOT NULL REFERENCES sessions,
  status     TEXT NOT NULL,
  started_at TEXT NOT NULL,
  ended_at   TEXT,
  model      TEXT NOT NULL,
  rounds     INTEGER NOT NULL,
  usage      BLOB NOT NULL
);
CREATE INDEX turns_session ON turns (session);
CREATE INDEX turns_running ON turns (started_at) WHERE status = 'running';

CREATE TABLE queues (
  session INTEGER PRIMARY KEY REFERENCES sessions,
  entries BLOB NOT NULL,
  rev     INTEGER NOT NULL,
  paused  INTEGER NOT NULL
);

CREATE TABLE receipts (
  scope   TEXT NOT NULL,
  method  TEXT NOT NULL,
  key     TEXT NOT NULL,
  body    TEXT NOT NULL,
  receipt BLOB NOT NULL,
  at      TEXT NOT NULL,
  PRIMARY KEY (scope, method, key)
);
CREATE INDEX receipts_at ON receipts (at);

CREATE TABLE requests (           -- open questions only
  request_id TEXT PRIMARY KEY,
  session    INTEGER NOT NULL REFERENCES sessions,
  body       BLOB NOT NULL
);
CREATE INDEX requests_session ON requests (session);

CREATE TABLE processes (
  pid        INTEGER PRIMARY KEY,
  started    TEXT NOT NULL,
  marker     TEXT NOT NULL,
  session_id TEXT NOT NULL,
  command    TEXT NOT NULL
);

CREATE TABLE grants (
  "grant" TEXT PRIMARY KEY
);

CREATE TABLE blobs (
  id      INTEGER PRIMARY KEY,
  blob_id TEXT NOT NULL UNIQUE,
  session INTEGER NOT NULL REFERENCES sessions,
  mime    TEXT NOT NULL,
  size    INTEGER NOT NULL
);
CREATE INDEX blobs_session ON blobs (session);

CREATE TABLE blob_chunks (
  blob   INTEGER NOT NULL REFERENCES blobs,
  offset INTEGER NOT NULL,
  data   BLOB NOT NULL,
  PRIMARY KEY (blob, offset)
);

CREATE TABLE search_text (        -- what can be found; the full-text index is derived from it (search.py)
  id      INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions,
  item_id TEXT NOT NULL,          -- '' for the session's title
  role    TEXT NOT NULL,          -- user, assistant, title
  text    TEXT NOT NULL,
  at      TEXT NOT NULL,
  UNIQUE (session, item_id)
);

CREATE TABLE marks (              -- small facts the store remembers about itself
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
);
