-- Which process made a claim, for people who have to find it.
ALTER TABLE jobs ADD COLUMN host TEXT;
ALTER TABLE jobs ADD COLUMN pid INTEGER;

-- What an owner is asked: to stop.
ALTER TABLE jobs ADD COLUMN stop_request BLOB;

-- For how long its owner may go without reporting progress, since when it has, and when the log last said that it was stuck.
ALTER TABLE jobs ADD COLUMN max_silence_ms INTEGER;
ALTER TABLE jobs ADD COLUMN last_progress_at INTEGER;
ALTER TABLE jobs ADD COLUMN stuck_at INTEGER;

-- Those of a session whose owner may have to be told something with its keepalive.
CREATE INDEX jobs_with_news ON jobs (session_id)
    WHERE stop_request IS NOT NULL OR max_silence_ms IS NOT NULL;
