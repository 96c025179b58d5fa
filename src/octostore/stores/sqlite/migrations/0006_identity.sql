-- The store's identity, wherever its file goes; and whether the latest writes may be only in its -wal.
ALTER TABLE counters ADD COLUMN store_id TEXT NOT NULL DEFAULT '';
ALTER TABLE counters ADD COLUMN is_open INTEGER NOT NULL DEFAULT 0;
UPDATE counters SET store_id = lower(hex(randomblob(16)));
