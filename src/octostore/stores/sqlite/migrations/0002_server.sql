-- For the server: locks are marked, so that each principal's can be counted; tokens; and the secret that pseudonyms are
-- derived from.

ALTER TABLE jobs ADD COLUMN is_lock INTEGER;
UPDATE jobs SET is_lock = 0 WHERE status = 'claimed';
CREATE INDEX jobs_by_principal ON jobs (principal, is_lock) WHERE principal IS NOT NULL;

CREATE TABLE tokens (
    token_id   TEXT    NOT NULL PRIMARY KEY,
    principal  TEXT    NOT NULL,
    scopes     TEXT    NOT NULL,
    prefix     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    digest     BLOB    NOT NULL UNIQUE
) STRICT;

CREATE TABLE store_key (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    key      BLOB NOT NULL
) STRICT;
INSERT INTO store_key VALUES (1, randomblob(32));
