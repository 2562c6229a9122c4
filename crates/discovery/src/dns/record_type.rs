//! The types of DNS records that targets may come from.

use crate::error::{DiscoveryError, invalid};

/// Record type to query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordType {
    /// `A`
    A,
    /// `AAAA`
    Aaaa,
    /// `SRV`
    Srv,
    /// `MX`
    Mx,
    /// `NS`
    Ns,
}

impl RecordType {
    /// Parses a record type, case-insensitively.
    ///
    /// # Errors
    /// [`DiscoveryError::Config`] for any other text.
    pub fn parse(text: &str) -> Result<Self, DiscoveryError> {
        match text.to_ascii_uppercase().as_str() {
            "A" => Ok(Self::A),
            "AAAA" => Ok(Self::Aaaa),
            "SRV" => Ok(Self::Srv),
            "MX" => Ok(Self::Mx),
            "NS" => Ok(Self::Ns),
            _ => Err(invalid(format!("invalid DNS-SD records type {text}"))),
        }
    }

    /// Returns the type's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
            Self::Srv => "SRV",
            Self::Mx => "MX",
            Self::Ns => "NS",
        }
    }

    pub(crate) fn code(self) -> u16 {
        match self {
            Self::A => 1,
            Self::Ns => 2,
            Self::Mx => 15,
            Self::Aaaa => 28,
            Self::Srv => 33,
        }
    }
}
