//! What the builder embeds: code, and a table of what is in it.

use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys::CUlibrary;
use kernelyard_rs::tvm_ffi::{Error, RUNTIME_ERROR};
use kernelyard_rs::Result;

use crate::driver::Driver;
use crate::load::{Loaded, State};
use crate::value::Value;
use crate::{select, Check, Device, Parameter};

/// A function of the device code, with all that the host must know to launch it.
#[derive(Debug)]
pub struct Entry {
    /// The name of the function; several entries have it where it is generic.
    pub function: &'static str,
    /// The name of this instantiation in its fatbin.
    pub symbol: &'static str,
    /// Where its fatbin is in the image: offset and length, in bytes. Entries may share one.
    pub fatbin: (usize, usize),
    /// Major and minor number of the oldest CUDA version whose driver loads it.
    pub driver: (i32, i32),
    /// By what it is chosen: dtypes and numbers, with the names that they have in the device code.
    pub keys: &'static [(&'static str, Value)],
    /// What it takes.
    pub parameters: &'static [Parameter],
    /// The code that the fatbin has, for one capability each.
    pub variants: &'static [Variant],
}

/// The code of an entry for one CUDA capability.
#[derive(Debug)]
pub struct Variant {
    /// Major and minor number of the capability.
    pub capability: (i32, i32),
    /// Whether its machine code runs on this capability alone, as that for `9.0a` does; what tileiras makes for 9.0 and
    /// later is such code.
    pub exact: bool,
    /// Whether, beside the machine code, there is PTX or Tile IR, from which a driver can make machine code for newer
    /// capabilities.
    pub portable: bool,
    /// Numbers that this code was compiled with, such as the sizes of tiles.
    pub tuned: &'static [(&'static str, i64)],
    /// What must hold of a grid that it is launched with.
    pub checks: &'static [Check],
}

/// The device code that is embedded in a library; see [`image!`](crate::image).
pub struct Image {
    bytes: &'static [u8],
    entries: &'static [Entry],
    /// What is known of each entry, in the same order.
    states: &'static [State],
    /// What the driver has loaded of it. The lock is held while it loads more.
    libraries: Mutex<Vec<Library>>,
}

/// A fatbin that the driver has loaded.
struct Library {
    fatbin: (usize, usize),
    handle: CUlibrary,
}

// SAFETY: a library is a handle, which any thread may use.
unsafe impl Send for Library {}

impl Image {
    #[doc(hidden)]
    pub const fn new(bytes: &'static [u8], entries: &'static [Entry], states: &'static [State]) -> Self {
        assert!(entries.len() == states.len());
        Self { bytes, entries, states, libraries: Mutex::new(Vec::new()) }
    }

    /// The entry of a function that was compiled for these keys, loaded on a device.
    ///
    /// The first call for an entry and a device loads it. Later ones take no lock.
    ///
    /// # Errors
    ///
    /// A `TypeError` where there is no instantiation for a dtype, a `ValueError` where there is none for a number; both
    /// say which there are. A `RuntimeError` where the image has no code for the device, needs a newer driver, or the
    /// driver refuses a call.
    pub fn entry<'a>(&'static self, device: &'a Device, function: &str, keys: &[(&str, Value)]) -> Result<Loaded<'a>> {
        let index = select::entry(self.entries, function, keys)?;
        Loaded::of(&self.entries[index], &self.states[index], self, device)
    }

    /// The library with a fatbin, loaded by the first who asks for it.
    ///
    /// A `CUlibrary` rather than a `CUmodule`: it belongs to no context, so that one load serves all devices, and what
    /// is found in it outlives a reset of a device. The driver puts its code into a context when a kernel is first
    /// needed there, once.
    pub(crate) fn library(&self, entry: &Entry, driver: &Driver) -> Result<CUlibrary> {
        let mut libraries = self.libraries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = libraries.iter().find(|known| known.fatbin == entry.fatbin) {
            return Ok(known.handle);
        }
        let (offset, length) = entry.fatbin;
        let code = offset.checked_add(length).and_then(|end| self.bytes.get(offset..end)).ok_or_else(|| {
            let what = format!("its code is not in the image, which has {} bytes; build it again", self.bytes.len());
            Error::new(RUNTIME_ERROR, &format!("{}: {what}", entry.symbol), "")
        })?;
        let (mut handle, none) = (std::ptr::null_mut(), std::ptr::null_mut);
        // SAFETY: the code is a fatbin, which says how long it is, and lives as long as the process; there are no
        // options.
        unsafe {
            let code = code.as_ptr().cast();
            driver.cuLibraryLoadData(&raw mut handle, code, none(), none().cast(), 0, none().cast(), none().cast(), 0)
        }
        .map_err(|failure| failure.of(entry.symbol))?;
        libraries.push(Library { fatbin: entry.fatbin, handle });
        Ok(handle)
    }
}

/// Embed the image of this crate that the builder made, with the table of what is in it, as a static [`Image`].
///
/// `image!(static IMAGE);`, once in a crate. The builder says in `KERNELYARD_IMAGES` in which folder it is. Nothing is
/// loaded, and no driver is needed, before the first call of [`Image::entry`].
#[macro_export]
macro_rules! image {
    ($(#[$attribute:meta])* $visibility:vis static $name:ident) => {
        $(#[$attribute])*
        $visibility static $name: $crate::Image = {
            // Fatbins are at offsets that are multiples of 16.
            #[repr(C, align(16))]
            struct Aligned<const LENGTH: usize>([u8; LENGTH]);
            const LENGTH: usize = $crate::image_file!(include_bytes, ".fatbin").len();
            // The section in which nvcc puts fatbins, and in which NVIDIA's tools look for them.
            #[link_section = ".nv_fatbin"]
            static BYTES: Aligned<LENGTH> = Aligned(*$crate::image_file!(include_bytes, ".fatbin"));
            const ENTRIES: &[$crate::Entry] = $crate::image_file!(include, ".rs");
            static STATES: [$crate::State; ENTRIES.len()] = [const { $crate::State::new() }; ENTRIES.len()];
            $crate::Image::new(&BYTES.0, ENTRIES, &STATES)
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! image_file {
    ($include:ident, $ending:literal) => {
        $include!(concat!(
            env!("KERNELYARD_IMAGES", "the builder sets KERNELYARD_IMAGES; build this crate with `doit build`"),
            "/",
            env!("CARGO_PKG_NAME"),
            $ending
        ))
    };
}
