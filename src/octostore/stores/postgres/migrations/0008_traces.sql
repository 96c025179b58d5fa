-- The traces of a job: that in which it was enqueued, and that of the attempt that has it now.
ALTER TABLE {schema}.jobs ADD COLUMN traceparent text, ADD COLUMN attempt_traceparent text;
