-- The traces of a job: that in which it was enqueued, and that of the attempt that has it now.
ALTER TABLE jobs ADD COLUMN traceparent TEXT;
ALTER TABLE jobs ADD COLUMN attempt_traceparent TEXT;
