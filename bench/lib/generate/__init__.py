"""Random schemas, data and statements, typed after PostgreSQL's own catalog; `differential.py` runs what is made here."""
