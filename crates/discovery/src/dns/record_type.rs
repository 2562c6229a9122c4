//! The types of DNS records that targets may come from.

use crate::error::{DiscoveryError, invalid};

/// Record type to query, by its code in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum RecordType {
    /// `A`
    A = 1,
    /// `NS`
    Ns = 2,
    /// `MX`
    Mx = 15,
    /// `AAAA`
    Aaaa = 28,
    /// `SRV`
    Srv = 33,
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
}
