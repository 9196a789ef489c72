//! Why a move was not begun or changed.

use placement::Name;
use placement::moving::Stage;
use store::{InvalidKey, StoreError};

/// Why a move was not begun or changed.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The store does not answer, or is not to be understood.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A name cannot stand in the store.
    #[error(transparent)]
    Key(#[from] InvalidKey),
    /// Nobody has moved the VM.
    #[error("there is no move of the VM {0}")]
    None(String),
    /// The VM is on its way.
    #[error("the VM {vm} is on its way to {to}: {}", stage.word())]
    UnderWay {
        /// The VM.
        vm: Name,
        /// Where it goes.
        to: Name,
        /// How far the move is.
        stage: Stage,
    },
    /// The stage does not allow it.
    #[error("the move of the VM {vm} is {}", stage.word())]
    Stage {
        /// The VM.
        vm: Name,
        /// How far the move is.
        stage: Stage,
    },
    /// Others changed the record each time.
    #[error("the move of the VM {0} was changed by others each time")]
    Contended(Name),
}

impl MoveError {
    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Store(error) => error.remedy(),
            Self::Key(_) => "give the VM a name of letters, digits, dots, hyphens and underscores",
            Self::None(_) => "hearth move list",
            Self::UnderWay { .. } => "hearth move show VM; hearth move cancel VM ends it",
            Self::Stage { .. } => "hearth move show VM says how far it is",
            Self::Contended(_) => "try again",
        }
    }
}
