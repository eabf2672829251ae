CREATE TABLE requests (
  seq         INTEGER PRIMARY KEY,
  id          TEXT NOT NULL UNIQUE,
  ended_at    BIGINT NOT NULL,
  duration_ms BIGINT NOT NULL,
  client_key  TEXT,
  model       TEXT,
  target      TEXT,
  connection  TEXT,
  status      INTEGER NOT NULL,
  code        TEXT,
  outcome     TEXT,
  attempts    INTEGER NOT NULL,
  detail      BLOB NOT NULL
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
