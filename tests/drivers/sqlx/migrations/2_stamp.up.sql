CREATE VIEW seen AS SELECT i.id, i.title, o.name AS owner FROM items i LEFT JOIN owners o ON o.id = i.owner;
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.title := trim(NEW.title);
    RETURN NEW;
END;
$$;
CREATE TRIGGER stamp BEFORE INSERT OR UPDATE OF title ON items FOR EACH ROW EXECUTE FUNCTION stamp();
