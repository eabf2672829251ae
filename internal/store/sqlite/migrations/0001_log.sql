-- No NOT NULL in this table: a constraint that can stop a statement half-way makes SQLite keep a journal per statement,
-- which costs 2 us of CPU per row when one statement inserts many. The only writer is Put.
CREATE TABLE requests (
  seq         INTEGER PRIMARY KEY,
  id          TEXT UNIQUE,
  ended_at    BIGINT,
  duration_ms BIGINT,
  client_key  TEXT,
  model       TEXT,
  target      TEXT,
  connection  TEXT,
  status      INTEGER,
  code        TEXT,
  outcome     TEXT,
  attempts    INTEGER,
  detail      BLOB
);
CREATE TABLE attempts (
  request_id  TEXT NOT NULL,
  n           INTEGER NOT NULL,
  target      TEXT,
  connection  TEXT,
  outcome     TEXT NOT NULL,
  status      INTEGER NOT NULL,
  ended_at    BIGINT NOT NULL,
  duration_ms BIGINT NOT NULL,
  PRIMARY KEY (request_id, n)
);
CREATE TABLE bodies (
  request_id TEXT NOT NULL,
  part       TEXT NOT NULL,
  at         BIGINT NOT NULL,
  data       BLOB NOT NULL,
  PRIMARY KEY (request_id, part)
);
CREATE TABLE ledger (
  hour         BIGINT NOT NULL,
  client_key   TEXT NOT NULL,
  target       TEXT NOT NULL,
  connection   TEXT NOT NULL,
  requests     BIGINT NOT NULL,
  failed       BIGINT NOT NULL,
  input        BIGINT NOT NULL,
  cached_input BIGINT NOT NULL,
  output       BIGINT NOT NULL,
  reasoning    BIGINT NOT NULL,
  estimated    BIGINT NOT NULL,
  PRIMARY KEY (hour, client_key, target, connection)
);
CREATE TABLE marks (
  segment  TEXT PRIMARY KEY,
  position BIGINT NOT NULL
);
CREATE TABLE records (
  room  TEXT NOT NULL,
  name  TEXT NOT NULL,
  value BLOB NOT NULL,
  at    BIGINT NOT NULL,
  PRIMARY KEY (room, name)
);
