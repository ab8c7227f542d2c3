//! Checks values against the constraints of domains.

use niwaki_parse::error::{Result, SqlError};
use niwaki_types::{Datum, TypeOid};

use super::{Expr, Runtime};

/// The constraints of a domain, including the constraints of the domains that it is based on.
#[derive(Debug)]
pub struct DomainRules {
    /// The type of the domain.
    pub oid: TypeOid,
    /// The domain's name as messages show it.
    pub shown: String,
    /// The names of the domain and of its schema, for the fields of errors.
    pub name: String,
    /// The schema of the domain.
    pub schema: String,
    /// Set if the domain refuses NULL.
    pub not_null: bool,
    /// Names and conditions, in the order of their evaluation: the innermost domain's checks first,
    /// and the checks of one domain by name. A condition reads a row that has the value as its only
    /// slot.
    pub checks: Vec<(String, Expr)>,
    /// Set if a check calls a volatile function.
    pub volatile: bool,
}

impl DomainRules {
    /// Fails unless the value belongs to the domain.
    ///
    /// # Errors
    /// `23502` for NULL if the domain refuses NULL, `23514` when a check is false, and the errors
    /// of the checks themselves.
    pub fn check(&self, value: &Datum, rt: &mut Runtime<'_, '_>) -> Result<()> {
        if self.not_null && value.is_null() {
            let message = format!("domain {} does not allow null values", self.shown);
            return Err(self.of_type(SqlError::new("23502", message)));
        }
        for (name, condition) in &self.checks {
            // A check whose result is unknown passes.
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
