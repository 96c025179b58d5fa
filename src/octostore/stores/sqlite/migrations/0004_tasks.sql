-- What a session is doing, whom it was handed over to, and what it held when it was lost.
ALTER TABLE sessions ADD COLUMN phase TEXT NOT NULL DEFAULT 'idle';
ALTER TABLE sessions ADD COLUMN offered INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN note TEXT;
ALTER TABLE sessions ADD COLUMN in_flight BLOB NOT NULL DEFAULT x'5b5d';
ALTER TABLE sessions ADD COLUMN giver_lease_id TEXT;

-- The story of a session; and what was taken back of late, which is little.
CREATE INDEX events_by_session ON events (session_id, seq) WHERE session_id IS NOT NULL;
CREATE INDEX events_of_losses ON events (at) WHERE type IN ('expired', 'force_released');
