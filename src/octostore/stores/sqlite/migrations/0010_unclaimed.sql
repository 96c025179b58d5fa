-- Claimed jobs leave the index by status, so that claiming a new name writes to one index less; jobs_by_principal has them.
DROP INDEX jobs_by_status;
CREATE INDEX jobs_unclaimed ON jobs (status, job_id) WHERE status <> 'claimed';
