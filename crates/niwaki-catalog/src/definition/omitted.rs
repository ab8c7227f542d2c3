//! Values that a definition leaves out, because they are the default.

/// Decides whether a field is off, and so not written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
pub(crate) fn is_false(v: &bool) -> bool {
    !*v
}
