-- What a session is doing, to whom it was handed over, and what it was working on when it was lost. Whoever does not know
-- these columns leaves them as they are.
ALTER TABLE {schema}.sessions
    ADD COLUMN phase          text    NOT NULL DEFAULT 'idle',
    ADD COLUMN offered        boolean NOT NULL DEFAULT false,
    ADD COLUMN note           text,
    ADD COLUMN in_flight      bytea   NOT NULL DEFAULT '[]',
    ADD COLUMN giver_lease_id text;

-- The story of a session; and what was taken back of late, which is little.
CREATE INDEX events_by_session ON {schema}.events (session_id, seq) WHERE session_id IS NOT NULL;
CREATE INDEX events_of_losses ON {schema}.events (at) WHERE type IN ('expired', 'force_released');
