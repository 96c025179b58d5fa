-- Which process made a claim, for people who have to find it.
ALTER TABLE jobs ADD COLUMN host TEXT;
ALTER TABLE jobs ADD COLUMN pid INTEGER;
