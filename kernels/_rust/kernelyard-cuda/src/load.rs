//! Entries that are loaded on a device.

use std::ffi::{CString, OsString};
use std::sync::atomic::AtomicI32;
use std::sync::{Mutex, OnceLock};

use cudarc::driver::sys::{CUfunction_attribute as Attribute, CUkernel};
use kernelyard_rs::tvm_ffi::{Error, ErrorKind, RUNTIME_ERROR};
use kernelyard_rs::Result;

use crate::driver::Outcome;
use crate::once::get_or_try;
use crate::select::list;
use crate::{Device, Entry, Image, Variant};

/// The shared memory that every launch may ask for, in bytes; a kernel that wants more must be allowed to have it.
const ALWAYS_ALLOWED: i32 = 48 << 10;

/// With these set to 1 the driver compiles portable code where there is machine code too, and what it says of the result
/// does not tell the two apart.
const FORCED: [&str; 2] = ["CUDA_FORCE_PTX_JIT", "CUDA_FORCE_JIT"];

/// What is known of an entry since it was loaded.
#[doc(hidden)]
pub struct State {
    /// Held while it is loaded on a device, or is allowed more shared memory there.
    pub(crate) changing: Mutex<()>,
    devices: OnceLock<Box<[OnceLock<Place>]>>,
}

impl State {
    #[allow(clippy::new_without_default, missing_docs)] // It is for the statics of `image!`.
    pub const fn new() -> Self {
        Self { changing: Mutex::new(()), devices: OnceLock::new() }
    }
}

/// An entry on one device.
pub(crate) struct Place {
    pub(crate) kernel: CUkernel,
    pub(crate) variant: &'static Variant,
    /// The shared memory that the code has by itself, in bytes.
    pub(crate) shared: i32,
    /// What it may be launched with on top of that, in bytes.
    pub(crate) allowed: AtomicI32,
}

// SAFETY: a kernel is a handle, which any thread may use.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

/// An entry that is loaded on the device of a call.
pub struct Loaded<'a> {
    pub(crate) entry: &'static Entry,
    pub(crate) state: &'static State,
    pub(crate) device: &'a Device,
    pub(crate) place: &'static Place,
}

impl<'a> Loaded<'a> {
    pub(crate) fn of(entry: &'static Entry, state: &'static State, image: &Image, device: &'a Device) -> Result<Self> {
        let count = device.driver().devices();
        let devices = state.devices.get_or_init(|| (0..count).map(|_| OnceLock::new()).collect());
        let slot = &devices[device.ordinal()];
        let place = get_or_try(slot, &state.changing, || Place::load(entry, image, device))?;
        Ok(Self { entry, state, device, place })
    }

    /// A number that the code which the driver chose was compiled with, such as the size of a tile.
    ///
    /// # Panics
    ///
    /// If the device code has no number of this name; in a kernel's function, this is a `RuntimeError` in Python.
    pub fn tuned(&self, name: &str) -> i64 {
        let found = self.place.variant.tuned.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("{}: has no tuned number {name}", self.entry.symbol)).1
    }

    /// An error about this entry.
    pub(crate) fn error(&self, kind: ErrorKind, what: &str) -> Error {
        Error::new(kind, &format!("{} on {}: {what}", self.entry.symbol, self.device), "")
    }
}

impl Place {
    fn load(entry: &'static Entry, image: &Image, device: &Device) -> Result<Self> {
        let error = |what: &str| Error::new(RUNTIME_ERROR, &format!("{} on {device}: {what}", entry.symbol), "");
        let (has, needs) = (device.driver().version(), entry.driver);
        if has < needs {
            let (has, needs) = (shown(has), shown(needs));
            return Err(error(&format!("the driver is of CUDA {has}; install one of CUDA {needs} or newer")));
        }
        let capability = device.capability();
        if !runs_on(entry.variants, capability) {
            let (given, there) = (shown(capability), offered(entry.variants));
            return Err(error(&format!("has no code for capability {given}; there is {there}")));
        }
        if let Some(name) = FORCED.iter().find(|name| is_forced(entry.variants, std::env::var_os(name))) {
            return Err(error(&format!("{name} hides which of several tile sizes its code has; unset it")));
        }
        let library = image.library(entry, device.driver())?;
        let symbol = CString::new(entry.symbol).map_err(|_| error("has a symbol that is no C string"))?;
        let (kernel, binary, shared) = device
            .enter(|| {
                let mut kernel = std::ptr::null_mut();
                // SAFETY: the library is loaded, and stays so.
                unsafe { device.driver().cuLibraryGetKernel(&raw mut kernel, library, symbol.as_ptr()) }?;
                let binary = attribute(device, kernel, Attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION)?;
                let shared = attribute(device, kernel, Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
                Ok((kernel, (binary / 10, binary % 10), shared))
            })
            .map_err(|failure| failure.of(&format!("{} on {device}", entry.symbol)))?;
        let variant = chosen(entry.variants, binary, capability).ok_or_else(|| {
            let (binary, there) = (shown(binary), offered(entry.variants));
            error(&format!("the driver chose code for capability {binary}, and there is only {there}"))
        })?;
        let allowed = AtomicI32::new((ALWAYS_ALLOWED - shared).max(0));
        Ok(Self { kernel, variant, shared, allowed })
    }
}

fn attribute(device: &Device, kernel: CUkernel, attribute: Attribute) -> Outcome<i32> {
    let mut value = 0;
    // SAFETY: the function writes to what it is given.
    unsafe { device.driver().cuKernelGetAttribute(&raw mut value, attribute, kernel, device.handle()) }.map(|()| value)
}

/// Whether code that the driver is forced to compile could be taken for other code.
fn is_forced(variants: &[Variant], setting: Option<OsString>) -> bool {
    setting.is_some_and(|value| value == "1") && variants.iter().any(|variant| variant.tuned != variants[0].tuned)
}

/// Whether there is code for a capability: machine code runs within a major version on this and later minor ones, unless
/// it is for one alone, and portable code on all later capabilities.
fn runs_on(variants: &[Variant], (major, minor): (i32, i32)) -> bool {
    variants.iter().any(|variant| {
        let known = variant.capability;
        let machine = if variant.exact { known == (major, minor) } else { known.0 == major && known.1 <= minor };
        machine || (variant.portable && known <= (major, minor))
    })
}

/// The variant that code came from which the driver says is for `binary`.
///
/// Where that is no variant's capability, the driver compiled it from portable code: it takes the newest that the device
/// can have.
fn chosen(variants: &'static [Variant], binary: (i32, i32), device: (i32, i32)) -> Option<&'static Variant> {
    let newest = || {
        let fitting = variants.iter().filter(|variant| variant.portable && variant.capability <= device);
        fitting.max_by_key(|variant| variant.capability)
    };
    variants.iter().find(|variant| variant.capability == binary).or_else(newest)
}

fn offered(variants: &[Variant]) -> String {
    list(variants.iter().map(|variant| {
        let newer = match (variant.portable, variant.exact) {
            (true, _) => " or newer",
            (false, true) => " alone",
            (false, false) => "",
        };
        format!("{}{newer}", shown(variant.capability))
    }))
}

fn shown((major, minor): (i32, i32)) -> String {
    format!("{major}.{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn variant(capability: (i32, i32), exact: bool, portable: bool) -> Variant {
        Variant { capability, exact, portable, tuned: &[], checks: &[] }
    }

    static VARIANTS: &[Variant] = &[
        variant((8, 0), false, false),
        variant((8, 6), false, true),
        variant((9, 0), true, false),
        variant((12, 0), true, true),
    ];

    #[test]
    fn machine_code_runs_within_a_major_version_and_portable_code_later() {
        for (capability, runs) in [((7, 5), false), ((8, 0), true), ((8, 9), true), ((9, 0), true), ((10, 0), true)] {
            assert_eq!(runs_on(VARIANTS, capability), runs, "{capability:?}");
        }
        assert!(!runs_on(&VARIANTS[2..3], (10, 0)) && !runs_on(&VARIANTS[2..3], (8, 9)));
        assert_eq!(offered(VARIANTS), "8.0, 8.6 or newer, 9.0 alone and 12.0 or newer");
    }

    #[test]
    fn machine_code_for_one_capability_runs_on_no_other() {
        let exact = [variant((12, 0), true, false)];
        assert!(runs_on(&exact, (12, 0)) && !runs_on(&exact, (12, 1)));
        assert!(runs_on(&[variant((12, 0), false, false)], (12, 1)));
        assert!(runs_on(&[variant((12, 0), true, true)], (12, 1)));
    }

    #[test]
    fn the_drivers_choice_is_found() {
        let found = |binary, device| chosen(VARIANTS, binary, device).map(|variant| variant.capability);
        assert_eq!(found((8, 6), (8, 9)), Some((8, 6)));
        assert_eq!(found((12, 0), (12, 0)), Some((12, 0)));
        // Compiled by the driver.
        assert_eq!(found((12, 1), (12, 1)), Some((12, 0)));
        assert_eq!(found((10, 0), (10, 0)), Some((8, 6)));
        assert_eq!(found((13, 0), (13, 0)), Some((12, 0)));
        assert_eq!(found((7, 5), (7, 5)), None);
    }
}
