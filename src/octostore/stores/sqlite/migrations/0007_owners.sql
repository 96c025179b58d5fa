-- Which process made a claim, for people who have to find it.
ALTER TABLE jobs ADD COLUMN host TEXT;
ALTER TABLE jobs ADD COLUMN pid INTEGER;

-- What an owner is asked: to stop.
ALTER TABLE jobs ADD COLUMN stop_request BLOB;
CREATE INDEX jobs_to_stop ON jobs (session_id) WHERE stop_request IS NOT NULL;
