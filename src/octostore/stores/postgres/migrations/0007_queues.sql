-- Whether a queue is paused: since when, by whom and why, as JSON; NULL if it is not. Older versions would hand out jobs of a
-- paused queue, so they must not use this schema.
ALTER TABLE {schema}.queues ADD COLUMN pause bytea;
