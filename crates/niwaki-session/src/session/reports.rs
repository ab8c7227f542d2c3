//! Notices and changes of settings, which a client gets beside rows.

use niwaki_sql::{Severity, SqlError};

use crate::result::ResultSink;
use crate::session::handle::Session;

impl Session {
    /// Sends a notice, if `client_min_messages` lets it through.
    pub fn notice(
        &self,
        out: &mut dyn ResultSink,
        sqlstate: &'static str,
        message: impl Into<String>,
    ) {
        self.send(out, &SqlError::new(sqlstate, message).with_severity(Severity::Notice));
    }

    /// Sends a warning, if `client_min_messages` lets it through.
    pub fn warning(
        &self,
        out: &mut dyn ResultSink,
        sqlstate: &'static str,
        message: impl Into<String>,
    ) {
        self.send(out, &SqlError::new(sqlstate, message).with_severity(Severity::Warning));
    }

    /// Sends text that the statement asked for, such as the report of VERBOSE.
    pub fn info(
        &self,
        out: &mut dyn ResultSink,
        message: impl Into<String>,
        detail: Option<String>,
    ) {
        let mut info = SqlError::new("00000", message).with_severity(Severity::Info);
        info.detail = detail;
        self.send(out, &info);
    }

    /// Sends a notice or a warning, if `client_min_messages` lets it through.
    pub fn send(&self, out: &mut dyn ResultSink, notice: &SqlError) {
        let least = self.settings.text("client_min_messages");
        let wanted = match &*least {
            _ if notice.severity == Severity::Info => true,
            "error" => false,
            "warning" => notice.severity == Severity::Warning,
            _ => true,
        };
        if wanted {
            out.notice(notice);
        }
    }

    /// Tells the sink which reported settings changed since the last report. A client gets each
    /// change once, before the server asks for its next query.
    #[inline]
    pub fn report_settings(&mut self, out: &mut dyn ResultSink) {
        for (name, value) in self.settings.take_changed().into_iter().flatten() {
            out.parameter_status(name, &value);
        }
    }

    /// Tells the sink how values are shown now, if that changed. The next rows depend on the text
    /// settings.
    pub(crate) fn report_text_settings(&mut self, out: &mut dyn ResultSink) {
        self.refresh_types();
        if self.text.take_changed() {
            out.text_settings(self.text.settings());
        }
    }
}
