//! The only writer of the log: lines on standard error.

use std::io::Write;

/// Writes a line of the log. When standard error is closed or its disk is full, the line is lost,
/// and the server goes on.
pub(crate) fn line(line: &str) {
    // The line is written in one call, so that the lines of two threads do not mix.
    let text = format!("niwaki: {line}\n");
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Writes a line on standard output, for programs that wait for it there. They need not read it.
pub(crate) fn announce(line: &str) {
    let text = format!("{line}\n");
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
