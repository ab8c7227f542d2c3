//! Numbers of the catalogs themselves (`classid`).

use niwaki_catalog::Oid;

/// Oids of the catalogs whose rows depend on each other.
pub(super) const CLASS: Oid = Oid(1259);
pub(super) const ATTRDEF: Oid = Oid(2604);
pub(super) const REWRITE: Oid = Oid(2618);
pub(super) const CONSTRAINT: Oid = Oid(2606);
pub(super) const NAMESPACE: Oid = Oid(2615);
pub(super) const PROC: Oid = Oid(1255);
pub(super) const TRIGGER: Oid = Oid(2620);
pub(super) const LANGUAGE: Oid = Oid(2612);
pub(super) const TYPE: Oid = Oid(1247);
