//! What a value must satisfy to be one of a domain.

use niwaki_types::{Datum, TypeOid};

use super::{Expr, Runtime};
use crate::error::{Result, SqlError};

/// The constraints of a domain, with those of the domains that it is made of.
#[derive(Debug)]
pub(crate) struct DomainRules {
    /// The domain.
    pub(crate) oid: TypeOid,
    /// Its name as messages show it.
    pub(crate) shown: String,
    /// Its name and that of its schema, for the fields of errors.
    pub(crate) name: String,
    pub(crate) schema: String,
    /// Whether NULL is refused.
    pub(crate) not_null: bool,
    /// Names and conditions over a row that has the value as its only slot, in the order in which they are judged: the
    /// innermost domain's first, of one domain by name.
    pub(crate) checks: Vec<(String, Expr)>,
    /// Whether a check calls a volatile function.
    pub(crate) volatile: bool,
}

impl DomainRules {
    /// Fails unless the value is one of the domain.
    ///
    /// # Errors
    /// `23502` for NULL where it is refused, `23514` when a check is false; what the checks themselves fail with.
    pub(crate) fn check(&self, value: &Datum, rt: &mut Runtime<'_, '_>) -> Result<()> {
        if self.not_null && value.is_null() {
            let message = format!("domain {} does not allow null values", self.shown);
            return Err(self.of_type(SqlError::new("23502", message)));
        }
        for (name, condition) in &self.checks {
            // What is unknown is not false.
            if let Datum::Bool(false) = condition.eval(std::slice::from_ref(value), rt)? {
                let message =
                    format!("value for domain {} violates check constraint \"{name}\"", self.shown);
                return Err(self.of_type(SqlError::new("23514", message)).with_constraint(name));
            }
        }
        Ok(())
    }

    fn of_type(&self, error: SqlError) -> SqlError {
        error.with_data_type(&self.schema, &self.name)
    }
}
