//! The CUDA driver: its functions, found when they are first needed, and its errors.
//!
//! Types, constants and signatures are those of cudarc, which makes them from NVIDIA's headers. Its functions are not
//! called, for three reasons: they panic where the library or a function is missing; they prefer a `libcuda.so`, which
//! may be the toolkit's stub to link against, to the driver's `libcuda.so.1`; and they return an `enum`, which an error
//! that is newer than the headers would make undefined behaviour.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::mem::ManuallyDrop;
use std::sync::{Mutex, OnceLock};

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdevice_attribute, CUfunction, CUfunction_attribute, CUjit_option, CUkernel, CUlibrary,
    CUlibraryOption, CUresult, CUstream,
};
use kernelyard_rs::tvm_ffi::{Error, RUNTIME_ERROR};
use kernelyard_rs::Result;
use libloading::Library;

use crate::device::Known;
use crate::once::get_or_try;

const LIBRARY: &str = "libcuda.so.1";

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// The functions of the driver that are used.
        #[allow(non_snake_case)]
        struct Functions {
            $($name: unsafe extern "C" fn($($type),*) -> u32,)*
        }

        impl Functions {
            /// Find them all, or say which is missing.
            fn of(library: &Library) -> std::result::Result<Self, &'static str> {
                Ok(Self {
                    // SAFETY: the signature is the header's, which the constants below compare.
                    $($name: unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }
                        .map(|found| *found)
                        .map_err(|_| stringify!($name))?,)*
                })
            }
        }

        $(const _: unsafe fn($($type),*) -> CUresult = sys::$name;)*

        #[allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]
        impl Driver {
            $(
                /// Call the function of this name; safe where NVIDIA's documentation says so.
                pub(crate) unsafe fn $name(&self, $($argument: $type),*) -> Outcome<()> {
                    // SAFETY: the caller keeps to the function's documentation.
                    match unsafe { (self.functions.$name)($($argument),*) } {
                        0 => Ok(()),
                        status => Err(self.failure(stringify!($name), status)),
                    }
                }
            )*
        }
    };
}

functions! {
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
    cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    cuCtxGetCurrent(context: *mut CUcontext);
    cuCtxGetDevice(device: *mut CUdevice);
    cuCtxPushCurrent_v2(context: CUcontext);
    cuCtxPopCurrent_v2(context: *mut CUcontext);
    cuLibraryLoadData(
        library: *mut CUlibrary,
        code: *const c_void,
        jit_options: *mut CUjit_option,
        jit_values: *mut *mut c_void,
        jit_count: c_uint,
        options: *mut CUlibraryOption,
        values: *mut *mut c_void,
        count: c_uint,
    );
    cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, name: *const c_char);
    cuKernelGetAttribute(value: *mut c_int, attribute: CUfunction_attribute, kernel: CUkernel, device: CUdevice);
    cuKernelSetAttribute(attribute: CUfunction_attribute, value: c_int, kernel: CUkernel, device: CUdevice);
    cuLaunchKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared: c_uint,
        stream: CUstream,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    );
}

/// A call that the driver refused.
#[derive(Debug)]
pub(crate) struct Failure {
    call: &'static str,
    error: String,
}

pub(crate) type Outcome<T> = std::result::Result<T, Failure>;

impl Failure {
    /// The exception, which says for what the call was made.
    pub(crate) fn of(self, what: &str) -> Error {
        Error::new(RUNTIME_ERROR, &format!("{what}: {} failed with {}", self.call, self.error), "")
    }
}

/// The driver, initialized.
pub(crate) struct Driver {
    functions: Functions,
    library: ManuallyDrop<Library>,
    /// The CUDA version that it is of, as 13000 for 13.0.
    version: i32,
    devices: Box<[OnceLock<Known>]>,
    /// Held while something becomes known of a device.
    asking: Mutex<()>,
}

impl Driver {
    /// The driver of this machine. What fails is tried again by the next call.
    pub(crate) fn get() -> Result<&'static Self> {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        static OPENING: Mutex<()> = Mutex::new(());
        get_or_try(&DRIVER, &OPENING, Self::open)
    }

    fn open() -> Result<Self> {
        let error = |text: String| Error::new(RUNTIME_ERROR, &format!("CUDA: {text}"), "");
        // SAFETY: it is the driver, whose initializers other libraries of this process run too.
        let library = unsafe { Library::new(LIBRARY) }
            .map_err(|_| error(format!("{LIBRARY} is not on this machine; install the NVIDIA driver")))?;
        // It stays open whatever follows: a driver is not made to be closed.
        let library = ManuallyDrop::new(library);
        let functions = Functions::of(&library)
            .map_err(|name| error(format!("the driver lacks {name}; install one of CUDA 12 or newer")))?;
        let (devices, asking) = (Box::default(), Mutex::new(()));
        let mut driver = Self { functions, library, version: 0, devices, asking };
        let (mut version, mut count) = (0, 0);
        // SAFETY: the functions may be called before all others, and write to what they are given.
        unsafe { driver.cuInit(0) }
            .and_then(|()| unsafe { driver.cuDriverGetVersion(&raw mut version) })
            .and_then(|()| unsafe { driver.cuDeviceGetCount(&raw mut count) })
            .map_err(|failure| failure.of("CUDA"))?;
        driver.version = version;
        driver.devices = (0..count).map(|_| OnceLock::new()).collect();
        Ok(driver)
    }

    /// The major and minor number of the CUDA version that it is of.
    pub(crate) fn version(&self) -> (i32, i32) {
        (self.version / 1000, self.version % 1000 / 10)
    }

    pub(crate) fn devices(&self) -> usize {
        self.devices.len()
    }

    /// What is known of a device, which is asked for when it is first used.
    pub(crate) fn device(&'static self, ordinal: i32) -> Result<&'static Known> {
        let slot = usize::try_from(ordinal).ok().and_then(|index| self.devices.get(index)).ok_or_else(|| {
            let text = format!("cuda:{ordinal}: is none of the {} devices that the driver has", self.devices());
            Error::new(RUNTIME_ERROR, &text, "")
        })?;
        let ask = || Known::ask(self, ordinal).map_err(|failure| failure.of(&format!("cuda:{ordinal}")));
        get_or_try(slot, &self.asking, ask)
    }

    #[cold]
    fn failure(&self, call: &'static str, status: u32) -> Failure {
        let name = self.text("cuGetErrorName\0", status).unwrap_or_else(|| format!("error {status}"));
        let text = self.text("cuGetErrorString\0", status).map_or(String::new(), |text| format!(": {text}"));
        Failure { call, error: format!("{name}{text}") }
    }

    /// What a function of the driver says about an error; it knows none for those of a newer driver.
    fn text(&self, function: &str, status: u32) -> Option<String> {
        type Function = unsafe extern "C" fn(u32, *mut *const c_char) -> u32;
        let mut text = std::ptr::null();
        // SAFETY: both functions have this signature, in which CUresult is a C enum, an integer. What they give is a
        // constant.
        unsafe {
            let function = self.library.get::<Function>(function.as_bytes()).ok()?;
            (function(status, &raw mut text) == 0 && !text.is_null())
                .then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }
}
