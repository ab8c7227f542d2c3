//! The function whose body is being analyzed.

use niwaki_catalog::FunctionDefinition;

/// The function whose body is being analyzed.
#[derive(Debug)]
pub(crate) struct Routine {
    pub(crate) name: String,
    /// The names of its parameters, in order; empty for unnamed parameters.
    parameters: Vec<String>,
}

impl Routine {
    pub(crate) fn of(definition: &FunctionDefinition) -> Self {
        let parameters = definition.inputs().into_iter().map(|input| input.name).collect();
        Self { name: definition.name.clone(), parameters }
    }

    /// Returns the number of the parameter that a name means, from 0.
    pub(crate) fn number(&self, name: &str) -> Option<usize> {
        self.parameters.iter().position(|known| !known.is_empty() && known == name)
    }
}
