-- What a session is doing, whom it was handed over to, and what it held when it was lost. Older versions leave these
-- columns alone.
ALTER TABLE {schema}.sessions
    ADD COLUMN phase          text    NOT NULL DEFAULT 'idle',
    ADD COLUMN offered        boolean NOT NULL DEFAULT false,
    ADD COLUMN note           text,
    ADD COLUMN in_flight      bytea   NOT NULL DEFAULT '[]',
    ADD COLUMN giver_lease_id text;

-- The story of a session; and what was taken back of late, which is little.
CREATE INDEX events_by_session ON {schema}.events (session_id, seq) WHERE session_id IS NOT NULL;
CREATE INDEX events_of_losses ON {schema}.events (at) WHERE type IN ('expired', 'force_released');
