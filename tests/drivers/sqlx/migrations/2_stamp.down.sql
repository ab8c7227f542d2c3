DROP TRIGGER stamp ON items;
DROP FUNCTION stamp();
DROP VIEW seen;
