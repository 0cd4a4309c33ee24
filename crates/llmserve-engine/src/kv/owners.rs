//! The owners of cells.

use std::sync::{Arc, Weak};

/// Identifies a session, for the cells that it has from a file.
pub(crate) type SessionKey = Arc<()>;

/// Cells that were computed here belong to everybody with the same tokens. Those from a file are barely verified, and
/// what follows them depends on them: only sessions that loaded the file use them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Owners(Vec<Weak<()>>);

impl Owners {
    /// One session.
    pub(crate) fn one(session: &SessionKey) -> Self {
        Self(vec![Arc::downgrade(session)])
    }

    pub(crate) fn is_everybody(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a request of this session, if it is of any, may use the cells.
    pub(crate) fn include(&self, session: Option<&SessionKey>) -> bool {
        self.is_everybody() || session.is_some_and(|key| self.0.iter().any(|own| is_of(own, key)))
    }

    /// Whether nobody is left who may use the cells.
    pub(crate) fn are_gone(&self) -> bool {
        !self.is_everybody() && self.0.iter().all(|own| own.strong_count() == 0)
    }

    /// Whether others than this session may use the cells.
    pub(crate) fn has_others(&self, session: &SessionKey) -> bool {
        self.0.iter().any(|own| own.strong_count() > 0 && !is_of(own, session))
    }

    /// Adds sessions that loaded the same file.
    pub(crate) fn add(&mut self, others: Self) {
        self.0.retain(|own| own.strong_count() > 0);
        self.0.extend(others.0);
    }

    /// The owners of cells that this session continues from.
    pub(crate) fn narrowed(&self, session: Option<&SessionKey>) -> Self {
        if self.is_everybody() { Self::default() } else { session.map_or_else(Self::default, Self::one) }
    }
}

fn is_of(own: &Weak<()>, session: &SessionKey) -> bool {
    std::ptr::eq(own.as_ptr(), Arc::as_ptr(session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_out_of_a_file_are_for_the_sessions_that_loaded_it() {
        let (session, other) = (SessionKey::new(()), SessionKey::new(()));
        let everybody = Owners::default();
        assert!(everybody.include(None) && everybody.include(Some(&session)) && !everybody.are_gone());
        let mut owners = Owners::one(&session);
        assert!(owners.include(Some(&session)) && !owners.include(Some(&other)) && !owners.include(None));
        owners.add(Owners::one(&other));
        assert!(owners.include(Some(&other)) && owners.has_others(&session));
        assert!(!owners.narrowed(Some(&session)).include(Some(&other)));
        drop(other);
        assert!(!owners.has_others(&session) && !owners.are_gone());
        drop(session);
        assert!(owners.are_gone());
    }
}
