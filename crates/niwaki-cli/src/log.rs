//! The one place that writes the log: lines on standard error.

use std::io::Write;

/// Writes a line of the log. One that cannot be written, as standard error is closed or its disk is
/// full, is lost: what the server does goes on.
pub(crate) fn line(line: &str) {
    // In one call, so that the lines of two threads do not mix.
    let text = format!("niwaki: {line}\n");
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Writes a line on standard output, for those who wait for it there; nobody need read it.
pub(crate) fn tell(line: &str) {
    let text = format!("{line}\n");
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
