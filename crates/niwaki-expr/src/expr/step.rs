//! Running steps of a plan: the interface for callers that ask for rows.

use niwaki_env::stack;
use niwaki_parse::error::Result;
use niwaki_types::Datum;

use super::Runtime;

/// A running step of a plan. Steps below a projection write their slots of one shared row; a
/// projection makes a row of its own.
pub trait Step: Send {
    /// Puts the next row's values into `row`. Returns false when there is none.
    ///
    /// # Errors
    /// The errors that end the statement.
    fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool>;
}

/// A step in the hands of its caller. Each call of the step, and its drop, first checks the room on
/// the stack.
pub struct Running(Option<Box<dyn Step>>);

impl Running {
    /// Wraps a step.
    pub fn new(step: impl Step + 'static) -> Self {
        Self(Some(Box::new(step)))
    }

    /// Reads the next row, as [`Step::next`] does.
    ///
    /// # Errors
    /// As [`Step::next`]; `54001` when too little stack is left.
    #[inline]
    pub fn next(&mut self, row: &mut Vec<Datum>, rt: &mut Runtime<'_, '_>) -> Result<bool> {
        match &mut self.0 {
            Some(step) => stack::deeper(|| step.next(row, rt)),
            None => Ok(false),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let step = self.0.take();
        stack::room(0, || drop(step));
    }
}
