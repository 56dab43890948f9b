//! Launches.

use std::sync::atomic::Ordering;
use std::sync::PoisonError;

use cudarc::driver::sys::CUfunction_attribute as Attribute;
use kernelyard_rs::tvm_ffi::{RUNTIME_ERROR, TYPE_ERROR, VALUE_ERROR};
use kernelyard_rs::Result;

use crate::argument::{mismatch, Arguments};
use crate::load::Loaded;

/// How an entry is launched: `Launch::grid(blocks, 1, 1).block(256, 1, 1).shared(1024)`.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    grid: [usize; 3],
    block: [u32; 3],
    shared: usize,
}

impl Launch {
    /// A launch of so many blocks along each axis. Where one of them is 0 nothing is launched.
    ///
    /// Each block is one thread, which is what tile programs want, and has no shared memory but what the code itself
    /// has.
    pub fn grid(x: usize, y: usize, z: usize) -> Self {
        Self { grid: [x, y, z], block: [1, 1, 1], shared: 0 }
    }

    /// So many threads in a block along each axis.
    pub fn block(self, x: u32, y: u32, z: u32) -> Self {
        Self { block: [x, y, z], ..self }
    }

    /// So many bytes of dynamic shared memory for each block.
    pub fn shared(self, bytes: usize) -> Self {
        Self { shared: bytes, ..self }
    }
}

impl Loaded<'_> {
    /// Launch the entry on the caller's stream, with a tuple of pointers and numbers as its arguments.
    ///
    /// It returns when the work is in the stream; an error of the work itself is reported by a later call.
    ///
    /// # Safety
    ///
    /// The arguments must be what the device code expects: memory of the device that is large enough and free for what
    /// it does, until the stream has come to the work's end.
    ///
    /// # Errors
    ///
    /// A `TypeError` where the arguments are not of the types that the entry takes. A `ValueError` where the grid is
    /// too large, or not as the device code needs it. A `RuntimeError` where the device has less shared memory, or the
    /// driver refuses a call.
    pub unsafe fn launch<A: Arguments>(&self, launch: Launch, arguments: A) -> Result<()> {
        if let Some(what) = mismatch(A::TYPES, self.entry.parameters) {
            return Err(self.error(TYPE_ERROR, &what));
        }
        if launch.grid.contains(&0) {
            return Ok(());
        }
        let grid = self.checked_grid(launch.grid)?;
        let shared = self.allow(launch.shared)?;
        let ([x, y, z], [block_x, block_y, block_z]) = (grid, launch.block);
        let (driver, stream) = (self.device.driver(), self.device.stream());
        let run = || {
            arguments.with_addresses(|addresses| {
                let (addresses, extra) = (addresses.as_mut_ptr(), std::ptr::null_mut());
                // A kernel of a library may be passed as a function; it runs in the context that is current.
                let kernel = self.place.kernel.cast();
                // SAFETY: the arguments are those that the entry takes, in type and number; the caller vouches for
                // what they are.
                unsafe {
                    driver.cuLaunchKernel(kernel, x, y, z, block_x, block_y, block_z, shared, stream, addresses, extra)
                }
            })
        };
        self.device.enter(run).map_err(|failure| failure.of(&self.named()))
    }

    fn named(&self) -> String {
        format!("{} on {}", self.entry.symbol, self.device)
    }

    /// The grid, if the device can have one of this size and the code what it needs.
    fn checked_grid(&self, grid: [usize; 3]) -> Result<[u32; 3]> {
        let largest = self.device.largest_grid();
        if grid.iter().zip(largest).any(|(&extent, most)| i32::try_from(extent).map_or(true, |extent| extent > most)) {
            let what = format!("its grid is {grid:?}; the largest that the device can have is {largest:?}");
            return Err(self.error(VALUE_ERROR, &what));
        }
        // Each fits, as the largest does.
        let grid = grid.map(|extent| extent as u32);
        match self.place.variant.checks.iter().find(|check| !check.holds(grid)) {
            Some(check) => Err(self.error(VALUE_ERROR, &format!("its grid is {grid:?}: {}", check.cause))),
            None => Ok(grid),
        }
    }

    /// See to it that the entry may be launched with so many bytes of dynamic shared memory.
    fn allow(&self, bytes: usize) -> Result<u32> {
        let (most, own) = (self.device.most_shared(), self.place.shared);
        let allowed = || self.place.allowed.load(Ordering::Acquire);
        let wanted =
            i32::try_from(bytes).ok().filter(|wanted| most.saturating_sub(own) >= *wanted).ok_or_else(|| {
                let needs = bytes.saturating_add(own as usize);
                let what = format!("needs {needs} bytes of shared memory; the device has {most} bytes for a block");
                self.error(RUNTIME_ERROR, &what)
            })?;
        if wanted > allowed() {
            // What is allowed only grows, so no launch finds less than it was promised.
            let _guard = self.state.changing.lock().unwrap_or_else(PoisonError::into_inner);
            if wanted > allowed() {
                self.set_allowed(wanted)?;
                self.place.allowed.store(wanted, Ordering::Release);
            }
        }
        Ok(wanted as u32)
    }

    fn set_allowed(&self, bytes: i32) -> Result<()> {
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let (kernel, device) = (self.place.kernel, self.device.handle());
        // SAFETY: the kernel is loaded.
        (self.device.enter(|| unsafe { self.device.driver().cuKernelSetAttribute(attribute, bytes, kernel, device) }))
            .map_err(|failure| failure.of(&self.named()))
    }
}
