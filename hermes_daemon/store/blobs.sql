-- Migration 2: blobs may grow while they are read, and are kept as long as something speaks of them.

ALTER TABLE blobs ADD COLUMN growing INTEGER NOT NULL DEFAULT 0;   -- 1: more will be appended
ALTER TABLE blobs ADD COLUMN created_at TEXT NOT NULL DEFAULT '';

CREATE TABLE blob_refs (          -- which item of which session speaks of a blob; item_id '' is the session's queue
  session INTEGER NOT NULL REFERENCES sessions,
  item_id TEXT NOT NULL,
  blob_id TEXT NOT NULL,
  PRIMARY KEY (session, item_id, blob_id)
) WITHOUT ROWID;
CREATE INDEX blob_refs_blob ON blob_refs (blob_id);

INSERT INTO blob_refs (session, item_id, blob_id)
  SELECT items.session, items.item_id, blobs.blob_id FROM blobs JOIN items ON items.session = blobs.session
  WHERE instr(items.body, CAST(blobs.blob_id AS BLOB)) > 0;
