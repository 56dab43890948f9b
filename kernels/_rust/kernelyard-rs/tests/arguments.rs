//! Tensors as they arrive, good and bad, against the checks and the views.

use kernelyard_rs::tvm_ffi::{DLDataType, DLDevice, DLDeviceType};
use kernelyard_rs::{bf16, f16, Arg, Element, Result, TensorView};
use tvm_ffi::tvm_ffi_sys::dlpack::DLTensor;

/// A tensor over memory of the test's own. What it points to is boxed, so that it may move.
struct Tensor {
    raw: Box<DLTensor>,
    shape: Box<[i64]>,
    strides: Option<Box<[i64]>>,
}

impl Tensor {
    fn new<T: Element>(memory: &mut [T], shape: &[i64], strides: Option<&[i64]>) -> Self {
        let raw = DLTensor {
            data: memory.as_mut_ptr().cast(),
            device: DLDevice::new(DLDeviceType::kDLCPU, 0),
            ndim: shape.len() as i32,
            dtype: T::DTYPE,
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        };
        Self { raw: Box::new(raw), shape: shape.into(), strides: strides.map(Into::into) }
    }

    fn arg(&mut self, name: &'static str) -> Arg {
        self.raw.shape = self.shape.as_mut_ptr();
        self.raw.strides = self.strides.as_mut().map_or(std::ptr::null_mut(), |strides| strides.as_mut_ptr());
        // SAFETY: the tensor outlives the test's use of the Arg.
        Arg::new(name, unsafe { TensorView::from_raw(&*self.raw) })
    }
}

fn said<T>(result: Result<T>) -> String {
    let error = result.err().expect("an error");
    format!("{}: {}", error.kind(), error.message())
}

#[test]
fn a_dense_tensor_is_a_slice() {
    let mut memory = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    for strides in [None, Some([3, 1].as_slice())] {
        let mut tensor = Tensor::new(&mut memory, &[2, 3], strides);
        let x = tensor.arg("x");
        assert_eq!(x.slice::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(x.strides(), [3, 1]);
        assert_eq!(x.view::<f32, 2>().unwrap().row([1, 1]), [5.0, 6.0]);
    }
}

#[test]
fn a_dimension_of_one_may_have_any_stride() {
    let mut memory = [1u8, 2, 3];
    let mut tensor = Tensor::new(&mut memory, &[3, 1], Some(&[1, 77]));
    assert_eq!(tensor.arg("x").slice::<u8>().unwrap(), [1, 2, 3]);
}

#[test]
fn a_byte_offset_moves_the_start() {
    let mut memory = [1i64, 2, 3];
    let mut tensor = Tensor::new(&mut memory, &[2], None);
    tensor.raw.byte_offset = 8;
    assert_eq!(tensor.arg("x").slice::<i64>().unwrap(), [2, 3]);
}

#[test]
fn an_empty_tensor_needs_no_memory() {
    let mut tensor = Tensor::new::<f16>(&mut [], &[4, 0, 2], None);
    tensor.raw.data = std::ptr::null_mut();
    let x = tensor.arg("x");
    assert!(x.slice::<f16>().unwrap().is_empty());
    assert_eq!(x.view::<f16, 3>().unwrap().shape(), [4, 0, 2]);
    // SAFETY: there is no memory that could be in use.
    assert!(unsafe { x.slice_mut::<f16>() }.unwrap().is_empty());
}

#[test]
fn a_scalar_has_one_element() {
    let mut memory = [7i32];
    let mut tensor = Tensor::new(&mut memory, &[], None);
    let x = tensor.arg("x");
    assert_eq!(x.slice::<i32>().unwrap(), [7]);
    assert_eq!(x.view::<i32, 0>().unwrap().at([]), 7);
    assert_eq!(x.strides(), [0i64; 0]);
}

#[test]
fn strided_views_read_and_write() {
    let mut memory: Vec<f32> = (0..24u8).map(f32::from).collect();
    // The transpose of a 4 × 6 matrix, read backwards along its rows.
    let mut tensor = Tensor::new(&mut memory, &[6, 4], Some(&[-1, 6]));
    tensor.raw.byte_offset = 5 * 4;
    let x = tensor.arg("x");
    let view = x.view::<f32, 2>().unwrap();
    assert_eq!(view.at([0, 0]), 5.0);
    assert_eq!(view.at([5, 3]), 18.0);
    assert!(!view.has_rows());
    // SAFETY: nothing else uses the memory here.
    let out = unsafe { x.view_mut::<f32, 2>() }.unwrap();
    // SAFETY: as above.
    unsafe { out.set([5, 3], -1.0) };
    assert_eq!(out.at([5, 3]), -1.0);
    assert_eq!(memory[18], -1.0);
}

#[test]
fn rows_are_written_in_place() {
    let mut memory = [0.0f32; 12];
    let mut tensor = Tensor::new(&mut memory, &[3, 2], Some(&[4, 1]));
    let x = tensor.arg("x");
    // SAFETY: nothing else uses the memory here, and the rows are different ones.
    unsafe {
        let out = x.view_mut::<f32, 2>().unwrap();
        out.row_mut([0, 0]).fill(1.0);
        out.row_mut([2, 1]).fill(2.0);
    }
    assert_eq!(memory, [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0]);
}

#[test]
#[should_panic(expected = "index [3, 0] in a view of shape [3, 2]")]
fn an_index_outside_is_a_panic() {
    let mut memory = [0.0f32; 6];
    Tensor::new(&mut memory, &[3, 2], None).arg("x").view::<f32, 2>().unwrap().at([3, 0]);
}

#[test]
fn errors_name_the_argument() {
    let mut memory = [0.0f32; 12];
    let mut tensor = Tensor::new(&mut memory, &[2, 3], Some(&[1, 2]));
    let x = tensor.arg("x");
    assert_eq!(said(x.slice::<f32>()), "ValueError: x: has strides [1, 2] for shape [2, 3]; must be contiguous");
    assert_eq!(said(x.slice::<bf16>()), "TypeError: x: has dtype float32; must be bfloat16");
    assert_eq!(said(x.dims::<4>()), "ValueError: x: has shape [2, 3]; must have 4 dimensions");
    assert_eq!(said(x.view::<f32, 1>()), "ValueError: x: has shape [2, 3]; must have 1 dimensions");
    assert_eq!(said(x.has_shape(&[3, 2])), "ValueError: x: has shape [2, 3]; must have shape [3, 2]");
    assert!(x.has_shape(&[2, 3]).is_ok());
}

#[test]
fn two_arguments_are_compared() {
    let (mut one, mut two) = ([0.0f32; 6], [0.0f64; 6]);
    let (mut one, mut two) = (Tensor::new(&mut one, &[6], None), Tensor::new(&mut two, &[2, 3], None));
    let (out, x) = (one.arg("out"), two.arg("x"));
    assert_eq!(said(out.same_shape(&x)), "ValueError: out: has shape [6]; must have [2, 3], the shape of x");
    assert_eq!(said(out.same_dtype(&x)), "TypeError: out: has dtype float32; must be float64, the dtype of x");
    assert_eq!(said(x.float()), "TypeError: x: has dtype float64; must be float32, float16 or bfloat16");
    assert!(out.same_shape(&out).is_ok() && out.same_dtype(&out).is_ok());
}

#[test]
fn another_device_is_refused() {
    let mut memory = [0.0f32; 2];
    let mut tensor = Tensor::new(&mut memory, &[2], None);
    tensor.raw.device = DLDevice::new(DLDeviceType::kDLCUDA, 1);
    let message = said(tensor.arg("x").slice::<f32>());
    assert!(message.starts_with("ValueError: x: is on device cuda:1; must be on the CPU"), "{message}");
}

#[test]
fn misaligned_memory_is_refused() {
    let mut memory = [0.0f32; 3];
    let mut tensor = Tensor::new(&mut memory, &[2], None);
    tensor.raw.byte_offset = 2;
    let message = said(tensor.arg("x").view::<f32, 1>());
    assert!(message.contains("x: starts at address 0x") && message.ends_with("must be a multiple of 4"), "{message}");
    tensor.raw.dtype = f16::DTYPE;
    assert!(tensor.arg("x").slice::<f16>().is_ok());
}

#[test]
fn null_memory_is_refused() {
    let mut memory = [0.0f32; 2];
    let mut tensor = Tensor::new(&mut memory, &[2], None);
    tensor.raw.data = std::ptr::null_mut();
    let message = said(tensor.arg("x").slice::<f32>());
    assert_eq!(message, "ValueError: x: has elements at a null address; must have memory");
}

#[test]
fn a_pointer_is_for_any_device() {
    let mut memory = [0.0f32; 8];
    let start = memory.as_mut_ptr();
    let mut tensor = Tensor::new(&mut memory, &[2, 3], Some(&[4, 1]));
    tensor.raw.device = DLDevice::new(DLDeviceType::kDLCUDA, 1);
    tensor.raw.byte_offset = 4;
    let x = tensor.arg("x");
    assert_eq!((x.device(), x.dtype()), (DLDevice::new(DLDeviceType::kDLCUDA, 1), f32::DTYPE));
    assert_eq!(x.pointer::<f32>().unwrap(), start.wrapping_add(1));
    assert_eq!(said(x.pointer::<bf16>()), "TypeError: x: has dtype float32; must be bfloat16");
    assert_eq!(said(x.contiguous()), "ValueError: x: has strides [4, 1] for shape [2, 3]; must be contiguous");
}

#[test]
fn wide_accesses_need_more_alignment() {
    #[repr(align(16))]
    struct Aligned([f32; 8]);
    let mut memory = Aligned([0.0; 8]);
    let mut tensor = Tensor::new(&mut memory.0, &[4], None);
    assert!(tensor.arg("x").aligned(16).is_ok());
    tensor.raw.byte_offset = 4;
    assert!(tensor.arg("x").is_aligned(4) && !tensor.arg("x").is_aligned(16));
    let message = said(tensor.arg("x").aligned(16));
    assert!(message.starts_with("ValueError: x: starts at address 0x"), "{message}");
    assert!(message.ends_with("4; must be a multiple of 16"), "{message}");
    let mut empty = Tensor::new::<f32>(&mut [], &[0], None);
    empty.raw.data = std::ptr::without_provenance_mut(4);
    assert!(empty.arg("x").is_aligned(16));
}

#[test]
fn lanes_are_another_dtype() {
    let mut memory = [0.0f32; 4];
    let mut tensor = Tensor::new(&mut memory, &[2], None);
    tensor.raw.dtype = DLDataType { lanes: 2, ..f32::DTYPE };
    assert_eq!(said(tensor.arg("x").slice::<f32>()), "TypeError: x: has dtype float32x2; must be float32");
}

#[test]
fn an_expanded_tensor_is_not_written() {
    let mut memory = [0.0f32; 4];
    let mut tensor = Tensor::new(&mut memory, &[3, 4], Some(&[0, 1]));
    let x = tensor.arg("x");
    assert_eq!(x.view::<f32, 2>().unwrap().row([2, 0]).len(), 4);
    // SAFETY: nothing else uses the memory here.
    let message = said(unsafe { x.view_mut::<f32, 2>() });
    assert_eq!(message, "ValueError: x: has strides [0, 1] for shape [3, 4]; must not be expanded");
}

#[test]
fn shared_memory_is_found() {
    let mut memory = [0.0f32; 8];
    let mut whole = Tensor::new(&mut memory, &[8], None);
    let mut half = Tensor::new(&mut memory[4..], &[4], None);
    let mut other = Tensor::new(&mut memory[..4], &[4], None);
    let mut backwards = Tensor::new(&mut memory[4..], &[2], Some(&[-4]));
    let mut empty = Tensor::new(&mut memory[..4], &[0], None);
    let out = half.arg("out");
    assert!(out.disjoint(&other.arg("x")).is_ok());
    assert!(out.disjoint(&empty.arg("x")).is_ok());
    assert_eq!(said(out.disjoint(&whole.arg("x"))), "ValueError: out: shares memory with x; must not");
    assert!(other.arg("x").disjoint(&backwards.arg("y")).is_err());
}
