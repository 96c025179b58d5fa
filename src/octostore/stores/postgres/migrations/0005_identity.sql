-- The store's identity, wherever its database goes. Older versions leave this column alone.
ALTER TABLE {schema}.counters ADD COLUMN store_id text NOT NULL DEFAULT '';
UPDATE {schema}.counters SET store_id = replace(gen_random_uuid()::text, '-', '');
