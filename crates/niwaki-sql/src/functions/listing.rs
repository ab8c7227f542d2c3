//! Lists the functions that there are, for `docs/functions.md`.
