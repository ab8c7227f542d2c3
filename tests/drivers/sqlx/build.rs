//! Ties the build to DATABASE_URL: the macros of checked.rs ask that server, so another server is
//! another build.

fn main() {
    println!("cargo:rerun-if-env-changed=DATABASE_URL");
    println!("cargo:rerun-if-env-changed=SQLX_OFFLINE_DIR");
    println!("cargo:rerun-if-changed=migrations");
}
