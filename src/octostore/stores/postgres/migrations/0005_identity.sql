-- Which store this is, wherever its database goes. Whoever does not know this column leaves it as it is.
ALTER TABLE {schema}.counters ADD COLUMN store_id text NOT NULL DEFAULT '';
UPDATE {schema}.counters SET store_id = replace(gen_random_uuid()::text, '-', '');
