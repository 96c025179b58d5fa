-- Which process made a claim, for people who have to find it.
ALTER TABLE jobs ADD COLUMN host TEXT;
ALTER TABLE jobs ADD COLUMN pid INTEGER;

-- For how long its owner may go without reporting progress, since when it has, and when the log last said that it was stuck.
ALTER TABLE jobs ADD COLUMN max_silence_ms INTEGER;
ALTER TABLE jobs ADD COLUMN last_progress_at INTEGER;
ALTER TABLE jobs ADD COLUMN stuck_at INTEGER;
