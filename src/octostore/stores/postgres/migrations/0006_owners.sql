-- Which process made a claim, for people who have to find it.
ALTER TABLE {schema}.jobs
    ADD COLUMN host text,
    ADD COLUMN pid  bigint;
