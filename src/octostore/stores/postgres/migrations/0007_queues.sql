-- That a queue is paused: since when, by whom and why, as JSON. NULL if it is not. Whoever does not know this column would hand
-- out the jobs of a paused queue, and must not work with it.
ALTER TABLE {schema}.queues ADD COLUMN pause bytea;
