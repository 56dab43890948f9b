//! CUDA capabilities.

use std::fmt;

use cutile_ir::bytecode::BytecodeVersion;
use cutile_ir::requirements::{target_requirement, TARGETS};

use crate::error::{Error, Result};

/// A CUDA capability, such as 9.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability {
    /// The 9 of 9.0.
    pub major: u32,
    /// The 0 of 9.0.
    pub minor: u32,
}

impl Capability {
    /// `Capability::new(9, 0)` is 9.0.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Read it as build.toml spells it. `+PTX` says what is embedded, and changes nothing in what is compiled.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (major, minor) = text.strip_suffix("+PTX").unwrap_or(text).split_once('.').unwrap_or_default();
        let capability = match (major.parse(), minor.parse()) {
            (Ok(major), Ok(minor)) => Self::new(major, minor),
            _ if minor.ends_with(['a', 'f']) => {
                let plain = minor.trim_end_matches(['a', 'f']);
                return Err(Error::new(format!("{text}: Tile IR has no such target; write {major}.{plain}")));
            }
            _ => return Err(Error::new(format!("{text}: is no CUDA capability; write one like 9.0"))),
        };
        if target_requirement(capability.number()).is_some() {
            return Ok(capability);
        }
        let known: Vec<_> = TARGETS.iter().map(|(sm, _)| Self::new(sm / 10, sm % 10).to_string()).collect();
        Err(Error::new(format!("{text}: Tile IR has no such target; it has {}", known.join(", "))))
    }

    /// The compilers' name: `sm_90`.
    pub(crate) fn target(self) -> String {
        format!("sm_{}", self.number())
    }

    /// The versions of Tile IR that the capability has, oldest first.
    pub(crate) fn versions(self) -> impl Iterator<Item = BytecodeVersion> {
        let since = target_requirement(self.number()).expect("parsed: Tile IR has this target").since;
        BytecodeVersion::SUPPORTED.into_iter().filter(move |&version| version >= since)
    }

    const fn number(self) -> u32 {
        self.major * 10 + self.minor
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Capability::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn it_is_read_as_build_toml_spells_it() {
        assert_eq!(Capability::parse("9.0"), Ok(Capability::new(9, 0)));
        assert_eq!(Capability::parse("12.1+PTX"), Ok(Capability::new(12, 1)));
    }

    #[test]
    fn it_is_ordered_as_numbers() {
        assert!(Capability::new(10, 0) > Capability::new(9, 0) && Capability::new(8, 9) > Capability::new(8, 6));
    }

    #[test]
    fn only_what_tile_ir_has_is_taken() {
        assert!(refused("7.5").starts_with("7.5: Tile IR has no such target; it has 8.0, 8.6, "));
        assert_eq!(refused("9.0a"), "9.0a: Tile IR has no such target; write 9.0");
        assert_eq!(refused("sm_90"), "sm_90: is no CUDA capability; write one like 9.0");
    }

    #[test]
    fn each_has_a_first_version_of_tile_ir() {
        assert_eq!(Capability::new(8, 0).versions().next(), Some(BytecodeVersion::V13_2));
        assert_eq!(Capability::new(9, 0).versions().next(), Some(BytecodeVersion::V13_3));
    }
}
