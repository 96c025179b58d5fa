-- By id alone, which is nearly unique: a statement planned while there are no claims would otherwise scan all claims of a
-- principal instead of comparing three columns.
DROP INDEX {schema}.jobs_by_request;
CREATE INDEX jobs_by_request ON {schema}.jobs (request_id) WHERE request_id IS NOT NULL AND queue IS NOT NULL;
