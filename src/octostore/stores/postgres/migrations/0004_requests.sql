-- By the id alone, which next to nothing else has: a statement that is planned while there are no claims yet would rather
-- look through all claims of a principal than compare three columns.
DROP INDEX {schema}.jobs_by_request;
CREATE INDEX jobs_by_request ON {schema}.jobs (request_id) WHERE request_id IS NOT NULL AND queue IS NOT NULL;
