-- Migration 3: what every model call used, so that sums by model and by task can be told.

CREATE TABLE spent (               -- one row a model call; tokens and cost NULL where the endpoint told none
  id            INTEGER PRIMARY KEY,
  session       INTEGER NOT NULL REFERENCES sessions,
  turn_id       TEXT,              -- NULL: beside every turn
  round         INTEGER NOT NULL,  -- of the turn, from 1; 0 beside the rounds
  task          TEXT NOT NULL,     -- main, compression, title, judge, ...
  model         TEXT NOT NULL,
  at            TEXT NOT NULL,
  calls         INTEGER NOT NULL,  -- 1; more where turns of an older database were taken over
  input         INTEGER NOT NULL,  -- tokens, those of the cache among them
  output        INTEGER NOT NULL,
  cache_read    INTEGER NOT NULL,
  cache_write   INTEGER NOT NULL,
  reasoning     INTEGER NOT NULL,
  cost          REAL               -- US dollars; NULL: unknown
);
CREATE INDEX spent_session ON spent (session);

INSERT INTO spent (session, turn_id, round, task, model, at, calls, input, output, cache_read, cache_write, reasoning,
                   cost)
  SELECT session, turn_id, 0, 'main', model, started_at, max(rounds, 1),
         coalesce(json_extract(CAST(usage AS TEXT), '$.inputTokens'), 0),
         coalesce(json_extract(CAST(usage AS TEXT), '$.outputTokens'), 0),
         coalesce(json_extract(CAST(usage AS TEXT), '$.cacheReadTokens'), 0),
         coalesce(json_extract(CAST(usage AS TEXT), '$.cacheWriteTokens'), 0),
         coalesce(json_extract(CAST(usage AS TEXT), '$.reasoningTokens'), 0),
         json_extract(CAST(usage AS TEXT), '$.cost')
  FROM turns WHERE rounds > 0 AND json_valid(CAST(usage AS TEXT));
