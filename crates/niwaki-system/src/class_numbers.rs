//! Numbers of the catalogs themselves (`classid`).

use niwaki_catalog::Oid;

/// Oids of the catalogs whose rows depend on each other.
pub(crate) const CLASS: Oid = Oid(1259);
pub(crate) const ATTRDEF: Oid = Oid(2604);
pub(crate) const REWRITE: Oid = Oid(2618);
pub(crate) const CONSTRAINT: Oid = Oid(2606);
pub(crate) const NAMESPACE: Oid = Oid(2615);
pub(crate) const PROC: Oid = Oid(1255);
pub(crate) const TRIGGER: Oid = Oid(2620);
pub(crate) const LANGUAGE: Oid = Oid(2612);
pub(crate) const TYPE: Oid = Oid(1247);
