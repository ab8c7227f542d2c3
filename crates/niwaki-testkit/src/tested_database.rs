//! The interface of the database under test for the suites.

use niwaki_env::Env;

use crate::model::{Reply, Rows, Step};

/// A database that executes [`Step`]s against one table of keys and values.
pub trait TestedDatabase: Sized {
    /// Opens what is in `env`, recovers if need be, and makes the table if it is not there.
    /// `full_page_writes` is the setting of that name. Without the setting, recovery has no
    /// full-page images to begin from. Then every record must be applied to exactly the page it was
    /// made for.
    ///
    /// # Errors
    /// Any; the suites treat it as a failure of the test.
    fn open(env: Env, full_page_writes: bool) -> Result<Self, String>;

    /// Executes one statement of a session.
    ///
    /// # Errors
    /// Answers that the model does not know: anything but an SQLSTATE in [`Reply::Error`].
    fn step(&mut self, session: u32, step: &Step) -> Result<Reply, String>;

    /// Returns all committed rows, read in as many ways as there are; they must agree.
    ///
    /// # Errors
    /// The rows cannot be read, or two ways of reading differ.
    fn rows(&mut self) -> Result<Rows, String>;

    /// Verifies every structural invariant.
    ///
    /// # Errors
    /// The first violation, with its name and place.
    fn check(&mut self) -> Result<(), String>;
}
