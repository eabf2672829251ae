CREATE TABLE client_keys (
  name        TEXT PRIMARY KEY,
  hash        TEXT NOT NULL UNIQUE,
  scopes      TEXT NOT NULL,
  models      TEXT NOT NULL,
  connections TEXT NOT NULL,
  rpm         BIGINT NOT NULL,
  created_at  BIGINT NOT NULL,
  revoked_at  BIGINT NOT NULL
);
CREATE TABLE settings (
  name    TEXT PRIMARY KEY,
  value   BLOB NOT NULL,
  version BIGINT NOT NULL
);
CREATE TABLE audit (
  id     INTEGER PRIMARY KEY,
  at     BIGINT NOT NULL,
  who    TEXT NOT NULL,
  what   TEXT NOT NULL,
  before BLOB,
  after  BLOB
);
CREATE TABLE model_lists (
  name  TEXT PRIMARY KEY,
  list  BLOB NOT NULL,
  until BIGINT NOT NULL
);
