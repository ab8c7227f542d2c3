//! The one error of this crate: a failed conversion or operation on values.

/// A failed conversion or operation on values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TypeError {
    /// The SQLSTATE: five characters, as PostgreSQL gives them (`22003`, `22P02`, …).
    pub sqlstate: &'static str,
    /// The message: PostgreSQL's wording where a client may depend on it.
    pub message: String,
    /// Detail line, if any.
    pub detail: Option<String>,
    /// A possible remedy, if known.
    pub hint: Option<&'static str>,
    /// The place in a long text where the error was met, if the text has one.
    pub context: Option<Box<str>>,
}

impl From<niwaki_env::memory::Full> for TypeError {
    #[cold]
    fn from(full: niwaki_env::memory::Full) -> Self {
        Self::new("53200", "out of memory")
            .with_detail(full.to_string())
            .with_hint(niwaki_env::memory::FULL_HINT)
    }
}

impl TypeError {
    /// Returns an error without a detail line.
    #[cold]
    pub fn new(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self { sqlstate, message: message.into(), detail: None, hint: None, context: None }
    }

    /// Returns the same error with a detail line.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Returns the same error with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    /// Returns the same error with the place where it was met.
    #[must_use]
    pub fn with_context(mut self, context: impl Into<Box<str>>) -> Self {
        self.context = Some(context.into());
        self
    }

    /// Makes an error `XX001`: bytes that this crate should have written are not in its form.
    #[cold]
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new("XX001", message)
    }

    /// Makes an error `22P02`: text that is not a value of the type.
    #[cold]
    pub fn invalid_text(type_name: &str, text: &str) -> Self {
        Self::new("22P02", format!("invalid input syntax for type {type_name}: \"{text}\""))
    }

    /// Makes an error `22P03`: wire bytes that are not a value of the type.
    #[cold]
    pub fn invalid_binary(message: impl Into<String>) -> Self {
        Self::new("22P03", message)
    }

    /// Makes an error `22003` with PostgreSQL's `<type> out of range`.
    #[cold]
    pub fn out_of_range(type_name: &str) -> Self {
        Self::new("22003", format!("{type_name} out of range"))
    }

    /// Makes an error `22012`.
    #[cold]
    pub fn division_by_zero() -> Self {
        Self::new("22012", "division by zero")
    }

    /// Makes an error `0A000` for a type or a pair of types that this function does not handle.
    #[cold]
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::new("0A000", what)
    }
}

/// Makes the error `22021` for text that is not UTF-8 from byte `at` on. The message shows the
/// bytes that the first bad byte announces, as PostgreSQL does.
#[cold]
pub fn invalid_utf8(text: &[u8], at: usize) -> TypeError {
    let announced = match text.get(at) {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => 1,
    };
    let bytes = text.iter().skip(at).take(announced);
    let shown: Vec<String> = bytes.map(|byte| format!("0x{byte:02x}")).collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
    TypeError::new("22021", message)
}

/// The result of most functions of this crate.
pub type Result<T, E = TypeError> = std::result::Result<T, E>;

/// Message of a value with bytes behind its end. The caller, which knows the value's place, adds
/// that.
pub const BYTES_LEFT_OVER: &str = "incorrect binary data format";

#[cold]
pub(crate) fn left_over() -> TypeError {
    TypeError::invalid_binary(BYTES_LEFT_OVER)
}
