-- Which store this is, wherever its file goes; and whether what was written last may be in its -wal alone.
ALTER TABLE counters ADD COLUMN store_id TEXT NOT NULL DEFAULT '';
ALTER TABLE counters ADD COLUMN is_open INTEGER NOT NULL DEFAULT 0;
UPDATE counters SET store_id = lower(hex(randomblob(16)));
