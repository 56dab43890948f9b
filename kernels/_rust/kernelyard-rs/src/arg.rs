//! The checks that an argument must pass before its memory is touched.

use std::ops::Range;

use tvm_ffi::{DLDataType, DLDevice, DLDeviceType, Error, ErrorKind, Result, TensorView, TYPE_ERROR, VALUE_ERROR};

use crate::element::{dtype_name, Element, FloatType};
use crate::view::{View, ViewMut};

/// A tensor argument with its name.
///
/// Each check returns an error that says `name: what is wrong; what is wanted`, which Python raises as a `TypeError`
/// (dtype) or a `ValueError` (the rest). Nothing reads a tensor's memory but [`view`](Arg::view),
/// [`slice`](Arg::slice) and their mutable forms, and these check device, dtype and alignment by themselves. Code for
/// another device gets a [`pointer`](Arg::pointer). Null strides (which DLPack once allowed) and a byte offset are
/// understood.
///
/// An `Arg`, like the [`TensorView`] in it, is good for the duration of the call that it was passed to.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    name: &'static str,
    tensor: TensorView,
}

impl Arg {
    /// Give a tensor its name.
    pub fn new(name: &'static str, tensor: TensorView) -> Self {
        Self { name, tensor }
    }

    /// The argument's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The extents of the dimensions.
    pub fn shape(&self) -> &[i64] {
        self.tensor.shape()
    }

    /// The distances, in elements, between neighbours along each dimension.
    pub fn strides(&self) -> Vec<i64> {
        // SAFETY: a TensorView points to a DLTensor for the duration of the call.
        if self.shape().is_empty() || unsafe { !(*self.tensor.as_raw()).strides.is_null() } {
            return self.tensor.strides().to_vec();
        }
        let mut strides = vec![1; self.shape().len()];
        for dim in (1..strides.len()).rev() {
            strides[dim - 1] = strides[dim] * self.shape()[dim];
        }
        strides
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.tensor.numel()
    }

    /// An error about this argument, for checks of a kernel's own: `x.error(VALUE_ERROR, "must not be empty")`.
    pub fn error(&self, kind: ErrorKind, what: &str) -> Error {
        Error::new(kind, &format!("{}: {what}", self.name), "")
    }

    /// The dtype of the elements.
    pub fn dtype(&self) -> DLDataType {
        self.tensor.dtype()
    }

    /// Where the memory is.
    pub fn device(&self) -> DLDevice {
        self.tensor.device()
    }

    /// The error that the memory is on the wrong device; `wanted` is where it must be, as in `on the CPU`.
    pub fn wrong_device(&self, wanted: &str) -> Error {
        let device = self.device();
        let kind = format!("{:?}", device.device_type).trim_start_matches("kDL").to_lowercase();
        self.error(VALUE_ERROR, &format!("is on device {kind}:{}; must be {wanted}", device.device_id))
    }

    /// The float type of the elements.
    ///
    /// # Errors
    ///
    /// A `TypeError` where the dtype is none of float32, float16 and bfloat16.
    pub fn float(&self) -> Result<FloatType> {
        FloatType::of(self.dtype()).ok_or_else(|| self.wrong_dtype("float32, float16 or bfloat16"))
    }

    /// Whether the dtype is that of `T`.
    pub fn is<T: Element>(&self) -> bool {
        self.dtype() == T::DTYPE
    }

    /// The extents, of a tensor that must have `N` dimensions.
    ///
    /// # Errors
    ///
    /// A `ValueError` where it has another number.
    pub fn dims<const N: usize>(&self) -> Result<[usize; N]> {
        let dims: [i64; N] = self
            .shape()
            .try_into()
            .map_err(|_| self.error(VALUE_ERROR, &format!("has shape {:?}; must have {N} dimensions", self.shape())))?;
        Ok(dims.map(|extent| extent as usize))
    }

    /// Check that the shape is exactly this one.
    ///
    /// # Errors
    ///
    /// A `ValueError` where it is another.
    pub fn has_shape(&self, wanted: &[usize]) -> Result<&Self> {
        if self.shape().iter().copied().eq(wanted.iter().map(|&extent| extent as i64)) {
            return Ok(self);
        }
        Err(self.error(VALUE_ERROR, &format!("has shape {:?}; must have shape {wanted:?}", self.shape())))
    }

    /// Check that the shape is that of another argument.
    ///
    /// # Errors
    ///
    /// A `ValueError` that names both where they differ.
    pub fn same_shape(&self, other: &Arg) -> Result<&Self> {
        if self.shape() == other.shape() {
            return Ok(self);
        }
        let what = format!("has shape {:?}; must have {:?}, the shape of {}", self.shape(), other.shape(), other.name);
        Err(self.error(VALUE_ERROR, &what))
    }

    /// Check that the dtype is that of another argument.
    ///
    /// # Errors
    ///
    /// A `TypeError` that names both where they differ.
    pub fn same_dtype(&self, other: &Arg) -> Result<&Self> {
        if self.dtype() == other.dtype() {
            return Ok(self);
        }
        Err(self.wrong_dtype(&format!("{}, the dtype of {}", dtype_name(other.dtype()), other.name)))
    }

    /// Check that no byte of this tensor is one of another's, so that one can be written while the other is read.
    ///
    /// Where both are strided, this may refuse two that lie interleaved in one range of memory.
    ///
    /// # Errors
    ///
    /// A `ValueError` that names both.
    pub fn disjoint(&self, other: &Arg) -> Result<&Self> {
        let (mine, theirs) = (self.bytes(), other.bytes());
        if mine.is_empty() || theirs.is_empty() || mine.end <= theirs.start || theirs.end <= mine.start {
            return Ok(self);
        }
        Err(self.error(VALUE_ERROR, &format!("shares memory with {}; must not", other.name)))
    }

    /// Check that the elements lie in memory in row-major order without gaps.
    ///
    /// # Errors
    ///
    /// A `ValueError` where they do not.
    pub fn contiguous(&self) -> Result<&Self> {
        if self.tensor.is_contiguous() {
            return Ok(self);
        }
        let what = format!("has strides {:?} for shape {:?}; must be contiguous", self.strides(), self.shape());
        Err(self.error(VALUE_ERROR, &what))
    }

    /// Whether the address of the first element is a multiple of so many bytes; that of nothing is one of all.
    pub fn is_aligned(&self, bytes: usize) -> bool {
        self.numel() == 0 || (self.start() as usize).is_multiple_of(bytes)
    }

    /// Check that the address of the first element is a multiple of so many bytes, for accesses of that width.
    ///
    /// # Errors
    ///
    /// A `ValueError` where it is not.
    pub fn aligned(&self, bytes: usize) -> Result<&Self> {
        if self.is_aligned(bytes) {
            return Ok(self);
        }
        let what = format!("starts at address {:?}; must be a multiple of {bytes}", self.start());
        Err(self.error(VALUE_ERROR, &what))
    }

    /// The address of the first element, on whatever device that is; dangling where there is no element.
    ///
    /// # Errors
    ///
    /// Where the dtype is not that of `T`, or the address is null or not aligned for `T`.
    pub fn pointer<T: Element>(&self) -> Result<*mut T> {
        if !self.is::<T>() {
            return Err(self.wrong_dtype(T::NAME));
        }
        if self.numel() == 0 {
            return Ok(std::ptr::NonNull::dangling().as_ptr());
        }
        let data = self.aligned(align_of::<T>())?.start() as *mut T;
        if data.is_null() {
            return Err(self.error(VALUE_ERROR, "has elements at a null address; must have memory"));
        }
        Ok(data)
    }

    /// A view of the elements, for a tensor of `N` dimensions and any strides.
    ///
    /// # Errors
    ///
    /// Where the tensor is not on the CPU, has another dtype or number of dimensions, or is not aligned.
    pub fn view<T: Element, const N: usize>(&self) -> Result<View<'_, T, N>> {
        let dims = self.dims::<N>()?;
        let data = self.data::<T>()?;
        let strides = self.strides();
        // SAFETY: the caller of the exported function vouches for shape, strides and data; the checks are done.
        Ok(unsafe { View::new(data, dims, std::array::from_fn(|dim| strides[dim] as isize)) })
    }

    /// [`view`](Arg::view), to write to.
    ///
    /// # Safety
    ///
    /// While the view lives, nothing else may use the memory: see [`disjoint`](Arg::disjoint).
    ///
    /// # Errors
    ///
    /// As for [`view`](Arg::view), and where two indices are one element, as in an expanded tensor.
    pub unsafe fn view_mut<T: Element, const N: usize>(&self) -> Result<ViewMut<'_, T, N>> {
        self.not_expanded()?;
        let view = self.view::<T, N>()?;
        // SAFETY: the caller promises that nothing else uses the memory.
        Ok(unsafe { ViewMut::new(view) })
    }

    /// The elements as one slice, of a tensor of any shape that lies in memory in row-major order without gaps.
    ///
    /// # Errors
    ///
    /// Where the tensor is not contiguous, not on the CPU, has another dtype, or is not aligned.
    pub fn slice<T: Element>(&self) -> Result<&[T]> {
        let data = self.data::<T>()?;
        self.contiguous()?;
        // SAFETY: the caller of the exported function vouches for the memory; the checks are done.
        Ok(unsafe { std::slice::from_raw_parts(data, self.numel()) })
    }

    /// [`slice`](Arg::slice), to write to.
    ///
    /// # Safety
    ///
    /// While the slice lives, nothing else may use the memory: see [`disjoint`](Arg::disjoint).
    ///
    /// # Errors
    ///
    /// As for [`slice`](Arg::slice).
    #[allow(clippy::mut_from_ref)] // An Arg is a name for memory that the caller of the exported function owns.
    pub unsafe fn slice_mut<T: Element>(&self) -> Result<&mut [T]> {
        let data = self.data::<T>()?;
        self.contiguous()?;
        // SAFETY: as in `slice`, and the caller promises that nothing else uses the memory.
        Ok(unsafe { std::slice::from_raw_parts_mut(data, self.numel()) })
    }

    /// The first element, in memory that this process can read.
    fn data<T: Element>(&self) -> Result<*mut T> {
        if self.device().device_type != DLDeviceType::kDLCPU {
            return Err(self.wrong_device("on the CPU"));
        }
        self.pointer()
    }

    fn not_expanded(&self) -> Result<()> {
        let strides = self.strides();
        if (self.shape().iter().zip(&strides)).any(|(&extent, &stride)| extent > 1 && stride == 0) {
            let what = format!("has strides {strides:?} for shape {:?}; must not be expanded", self.shape());
            return Err(self.error(VALUE_ERROR, &what));
        }
        Ok(())
    }

    fn wrong_dtype(&self, wanted: &str) -> Error {
        self.error(TYPE_ERROR, &format!("has dtype {}; must be {wanted}", dtype_name(self.dtype())))
    }

    /// Where the first element is.
    fn start(&self) -> *mut u8 {
        // SAFETY: a TensorView points to a DLTensor for the duration of the call.
        let offset = unsafe { (*self.tensor.as_raw()).byte_offset };
        self.tensor.data_ptr().cast::<u8>().wrapping_add(offset as usize)
    }

    /// The addresses from the lowest element's to the highest one's end.
    fn bytes(&self) -> Range<isize> {
        let start = self.start() as isize;
        if self.numel() == 0 {
            return start..start;
        }
        let dtype = self.dtype();
        let size = (usize::from(dtype.bits) * usize::from(dtype.lanes)).div_ceil(8) as isize;
        let (mut low, mut high) = (start, start);
        for (&extent, stride) in self.shape().iter().zip(self.strides()) {
            let reach = (extent as isize - 1) * stride as isize * size;
            low += reach.min(0);
            high += reach.max(0);
        }
        low..high + size
    }
}
