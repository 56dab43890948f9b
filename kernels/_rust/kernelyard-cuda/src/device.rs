//! The device of a call.

use std::fmt;

use cudarc::driver::sys::{CUcontext, CUdevice, CUdevice_attribute as Attribute, CUstream};
use kernelyard_rs::tvm_ffi::{current_stream, DLDevice, DLDeviceType, Error, RUNTIME_ERROR, VALUE_ERROR};
use kernelyard_rs::{Arg, Result};

use crate::driver::{Driver, Outcome};

/// What does not change about a device.
pub(crate) struct Known {
    device: CUdevice,
    /// The primary context, which PyTorch uses too; kept for as long as the process lives.
    context: CUcontext,
    capability: (i32, i32),
    /// The largest grid.
    grid: [i32; 3],
    /// The shared memory that a block can have at most, in bytes.
    shared: i32,
}

// SAFETY: a context is a handle, which any thread may use.
unsafe impl Send for Known {}
// SAFETY: as above.
unsafe impl Sync for Known {}

impl Known {
    pub(crate) fn ask(driver: &Driver, ordinal: i32) -> Outcome<Self> {
        let mut device = 0;
        // SAFETY: the function writes to what it is given.
        unsafe { driver.cuDeviceGet(&raw mut device, ordinal) }?;
        let attribute = |attribute| {
            let mut value = 0;
            // SAFETY: as above.
            unsafe { driver.cuDeviceGetAttribute(&raw mut value, attribute, device) }.map(|()| value)
        };
        let capability = (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let grid = [
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ];
        let shared = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let mut context = std::ptr::null_mut();
        // Last, as nothing gives it back if another call fails.
        // SAFETY: as above.
        unsafe { driver.cuDevicePrimaryCtxRetain(&raw mut context, device) }?;
        Ok(Self { device, context, capability, grid, shared })
    }
}

/// The CUDA device on which all tensors of a call are, and the stream on which its caller works there.
#[derive(Clone, Copy)]
pub struct Device {
    ordinal: i32,
    stream: CUstream,
    known: &'static Known,
    driver: &'static Driver,
}

impl Device {
    /// The device of the tensors, and the caller's stream there.
    ///
    /// # Errors
    ///
    /// A `ValueError` that names a tensor that is not on a CUDA device, or is on another than the first one. A
    /// `RuntimeError` where there is no driver, or it refuses a call.
    pub fn of(tensors: &[&Arg]) -> Result<Self> {
        let (device, driver) = (common(tensors)?, Driver::get()?);
        let known = driver.device(device.device_id)?;
        // SAFETY (of its use): the caller made this stream current for the device.
        let stream = current_stream(&device).cast();
        Ok(Self { ordinal: device.device_id, stream, known, driver })
    }

    /// The major and minor number of its CUDA capability.
    pub fn capability(&self) -> (i32, i32) {
        self.known.capability
    }

    pub(crate) fn ordinal(&self) -> usize {
        // It was an index into the driver's devices.
        self.ordinal as usize
    }

    pub(crate) fn driver(&self) -> &'static Driver {
        self.driver
    }

    pub(crate) fn handle(&self) -> CUdevice {
        self.known.device
    }

    pub(crate) fn stream(&self) -> CUstream {
        self.stream
    }

    pub(crate) fn largest_grid(&self) -> [i32; 3] {
        self.known.grid
    }

    pub(crate) fn most_shared(&self) -> i32 {
        self.known.shared
    }

    /// Run `body` while a context of this device is current.
    ///
    /// The thread's own one is kept if it is one, be it the primary context or another that the caller chose, such as
    /// a green context, in which a null stream means something else. Otherwise the primary context is current during
    /// `body`, and the thread's own one again after it, whether `body` fails or not.
    pub(crate) fn enter<T>(&self, body: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        let mut current = std::ptr::null_mut();
        // SAFETY: the functions write to what they are given, and the context is alive.
        unsafe {
            self.driver.cuCtxGetCurrent(&raw mut current)?;
            if current == self.known.context || (!current.is_null() && self.has_current_context()?) {
                return body();
            }
            self.driver.cuCtxPushCurrent_v2(self.known.context)?;
        }
        let done = body();
        let mut popped = std::ptr::null_mut();
        // SAFETY: as above.
        let restored = unsafe { self.driver.cuCtxPopCurrent_v2(&raw mut popped) };
        done.and_then(|value| restored.map(|()| value))
    }

    fn has_current_context(&self) -> Outcome<bool> {
        let mut device = 0;
        // SAFETY: the function writes to what it is given.
        unsafe { self.driver.cuCtxGetDevice(&raw mut device) }?;
        Ok(device == self.known.device)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "cuda:{}", self.ordinal)
    }
}

fn common(tensors: &[&Arg]) -> Result<DLDevice> {
    let Some(first) = tensors.first() else {
        return Err(Error::new(RUNTIME_ERROR, "Device::of: there is no tensor that could say on which device", ""));
    };
    for tensor in tensors {
        if tensor.device().device_type != DLDeviceType::kDLCUDA {
            return Err(tensor.wrong_device("on a CUDA device"));
        }
        if tensor.device() != first.device() {
            let (mine, theirs) = (tensor.device().device_id, first.device().device_id);
            let what = format!("is on device cuda:{mine}; must be on cuda:{theirs}, the device of {}", first.name());
            return Err(tensor.error(VALUE_ERROR, &what));
        }
    }
    Ok(first.device())
}
